"""Settings of seven layers as one: who may say what, and who wins."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.computer_config import parse_computer_config
from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.scopes.settings import (
    NOT_FROM_PROJECT,
    Settings,
    SettingsLayer,
    embed_settings,
    merge,
    read_scope,
)
from smcp_runtime.actors.reconcile.server_set import PRECEDENCE, Origin

spec = pytest.mark.spec
SCOPES: tuple[Origin, ...] = PRECEDENCE[1:]
"""A plugin's manifest carries no settings."""

VALUES: dict[str, Any] = {
    "trustedMarketplaces": ["acme"],
    "enabledMcpjsonServers": ["a"],
    "enableAllProjectMcpServers": True,
    "landingRoot": "/srv/landing",
    "mcpServerRuntime": {"defaults": {"max_in_flight": 2}},
    "approvedMcpServerFingerprints": {"a": "sha256:" + "0" * 64},
    "disabledMcpjsonServers": ["b"],
    "enabledPlugins": {"p@acme": False},
    "blockedMarketplaces": ["evil"],
    "strictKnownMarketplaces": True,
    "installedPlugins": ["p@acme"],
    "permissions": {"additionalDirectories": ["/srv"]},
    "extraKnownMarketplaces": {"acme": {"source": {"type": "git", "url": "https://x/y.git"}}},
}


def read(raw: Any, origin: Origin) -> tuple[SettingsLayer, Findings]:
    findings = Findings(f"/{origin}/settings.json")
    return read_scope(raw, origin, f"/{origin}/settings.json", findings), findings


def merged(**said: Any) -> Settings:
    """Settings of scopes, given by name, in any order."""
    return merge(read(raw, origin)[0] for origin, raw in said.items())  # type: ignore[arg-type]


@spec("R-SCOPE-10", "R-SCOPE-11", "R-SEC-5", "F-08")
@pytest.mark.parametrize("field", VALUES)
def test_a_field_a_project_may_not_supply_is_left_out_with_one_error_and_the_others_count(field: str) -> None:
    layer, findings = read({field: VALUES[field], "disabledMcpjsonServers": ["b"]}, "project")
    refused = [(fault.category, fault.field, fault.source) for fault in findings.faults]
    if field in NOT_FROM_PROJECT:
        assert refused == [("policy", field, "/project/settings.json")]
        assert layer.values == {"disabledMcpjsonServers": ["b"]}
    else:
        assert refused == []
        assert layer.values[field] == VALUES[field]


@spec("R-SCOPE-10")
@pytest.mark.parametrize("field", sorted(NOT_FROM_PROJECT))
@pytest.mark.parametrize("origin", [scope for scope in SCOPES if scope != "project"])
def test_every_other_scope_may_supply_it(field: str, origin: Origin) -> None:
    layer, findings = read({field: VALUES[field]}, origin)
    assert findings.faults == []
    assert layer.values == {field: VALUES[field]}


@spec("R-SCOPE-10")
@pytest.mark.parametrize("field", ["deniedMcpServers", "allowedMcpServers"])
@pytest.mark.parametrize("origin", SCOPES)
def test_gate_lists_of_the_administrator_count_from_policy_alone(field: str, origin: Origin) -> None:
    layer, findings = read({field: ["x"]}, origin)
    if origin == "policy":
        assert layer.values == {field: ["x"]}
    else:
        assert [(fault.category, fault.field) for fault in findings.faults] == [("policy", field)]
        assert layer.values == {}


def test_a_project_can_ask_for_strictness_and_not_lift_it() -> None:
    assert merged(project={"strictKnownMarketplaces": True}).flag("strictKnownMarketplaces")
    assert merged(user={"strictKnownMarketplaces": True}, project={"strictKnownMarketplaces": False}).flag(
        "strictKnownMarketplaces"
    )


@spec("R-SCOPE-1", "R-SCOPE-6", "T-SCOPE-1")
def test_of_single_values_the_highest_counts_and_removing_layers_exposes_the_next() -> None:
    roots = {origin: {"landingRoot": f"/{origin}"} for origin in SCOPES if origin != "project"}
    for origin in reversed([*roots]):
        settings = merged(**roots)
        assert settings.merged["landingRoot"] == f"/{origin}"
        assert settings.source_of(("landingRoot",)).origin == origin  # type: ignore[union-attr]
        del roots[origin]
    assert "landingRoot" not in merged().merged


@spec("R-SCOPE-6")
def test_objects_merge_by_key_and_arrays_unite_low_scope_first_without_repeats() -> None:
    settings = merged(
        local={"installedPlugins": ["b@m", "c@m"], "mcpServerRuntime": {"servers": {"x": {"max_in_flight": 9}}}},
        user={
            "installedPlugins": ["a@m", "b@m", "a@m"],
            "mcpServerRuntime": {"servers": {"x": {"max_in_flight": 1, "max_queued": 5}}},
        },
    )
    assert settings.merged["installedPlugins"] == ["a@m", "b@m", "c@m"]
    assert settings.merged["mcpServerRuntime"] == {"servers": {"x": {"max_in_flight": 9, "max_queued": 5}}}


@spec("R-SCOPE-6")
def test_of_two_types_the_higher_counts() -> None:
    assert merged(user={"mine": [1]}, local={"mine": {"a": 1}}).merged["mine"] == {"a": 1}


@spec("R-SCOPE-8", "T-SCOPE-2")
@pytest.mark.parametrize("opinions", list(itertools.product((None, True, False), repeat=3)))
def test_the_highest_opinion_on_a_plugin_counts_and_none_means_not_active(
    opinions: tuple[bool | None, bool | None, bool | None],
) -> None:
    said = {
        origin: {"enabledPlugins": {"p@m": opinion}}
        for origin, opinion in zip(("user", "project", "policy"), opinions, strict=True)
        if opinion is not None
    }
    effective = merged(**said).merged.get("enabledPlugins", {}).get("p@m")
    assert effective == next((opinion for opinion in reversed(opinions) if opinion is not None), None)


@spec("T-SCOPE-2", "R-SCOPE-8")
def test_t_scope_2_an_opinion_in_any_of_the_layers_overrides_all_below_it() -> None:
    for position, origin in enumerate(SCOPES):
        said = {lower: {"enabledPlugins": {"p@m": True}} for lower in SCOPES[:position]}
        assert merged(**said, **{origin: {"enabledPlugins": {"p@m": False}}}).merged["enabledPlugins"] == {"p@m": False}


@spec("R-CFG-6")
def test_the_families_of_a_configuration_are_the_embed_layer() -> None:
    config = parse_computer_config(
        {
            "name": "c",
            "trusted_marketplaces": ["acme"],
            "enabledPlugins": {"p@acme": True},
            "settings_policy": {"trustedMarketplaces": ["other"], "disabledMcpjsonServers": ["x"]},
        }
    ).config
    layer = embed_settings(config)
    assert layer.origin == "embed"
    assert layer.values == {
        "trustedMarketplaces": ["other", "acme"],
        "enabledPlugins": {"p@acme": True},
        "disabledMcpjsonServers": ["x"],
    }


@spec("R-FILE-13")
def test_a_value_below_another_one_says_who_shadows_it() -> None:
    settings = merged(user={"landingRoot": "/u", "installedPlugins": ["a@m"]}, flag={"landingRoot": "/f"})
    shadow = settings.shadow_of(("landingRoot",), "user")
    assert shadow is not None
    assert shadow.label == "/flag/settings.json"
    assert settings.shadow_of(("landingRoot",), "flag") is None
    assert settings.shadow_of(("installedPlugins",), "user") is None


@spec("R-GATE-5", "T-GATE-4")
def test_a_name_in_a_gate_list_is_reported_with_the_id_it_may_mean_and_has_no_effect() -> None:
    layer, findings = read({"enabledMcpjsonServers": ["ok", "my.server", 5]}, "local")
    assert layer.values == {"enabledMcpjsonServers": ["ok"]}
    assert [fault.field for fault in findings.faults] == ["enabledMcpjsonServers[1]", "enabledMcpjsonServers[2]"]
    assert "'my_server'" in findings.faults[0].reason


@spec("R-SEC-14")
@pytest.mark.parametrize("raw", [["my.server"], "a", [5]])
def test_a_restriction_that_nobody_understands_lets_nobody_in(raw: Any) -> None:
    layer, findings = read({"allowedMcpServers": raw}, "policy")
    assert findings.faults
    assert layer.values == {"allowedMcpServers": [""]}


@spec("R-SCOPE-12", "R-SCOPE-14")
@pytest.mark.parametrize(("root", "kept"), [("/srv", True), ("C:\\x", True), ("c:/x", True), ("srv", False)])
def test_a_landing_root_is_absolute_or_dropped_with_an_error(root: str, kept: bool) -> None:
    layer, findings = read({"landingRoot": root}, "user")
    assert (("landingRoot" in layer.values), bool(findings.faults)) == (kept, not kept)
