"""What people do with marketplaces: real git, and the files of all scopes."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.plugins import marketplaces
from smcp_runtime.actors.plugins.trust import refusal
from smcp_runtime.wire.errors import (
    AuthError,
    ConfigValidationError,
    ConflictError,
    NetworkError,
    PolicyError,
    StartupError,
)
from support.marketplaces import Repository, plugin
from support.plugin_home import Home

spec = pytest.mark.spec
DECLARED = marketplaces.DECLARED


@pytest.fixture
def acme(home: Home) -> Repository:
    return home.marketplace("acme", plugin("audit"))


def declared(repository: Repository, **more: Any) -> dict[str, Any]:
    return {"source": {"type": "git", "url": repository.url}, **more}


# -- one that cannot be added -------------------------------------------------------------------


@spec("R-PLUGIN-10", "R-PLUGIN-11", "R-PLUGIN-13")
def test_an_add_that_fails_takes_nothing_from_who_has_the_marketplace_already(home: Home, acme: Repository) -> None:
    home.declare(acme, scope="local")
    home.install("audit@acme")
    home.enable("audit@acme")
    before = home.everything()
    acme.root.rename(home.root / "repositories/away")
    with pytest.raises((NetworkError, AuthError)):
        marketplaces.add_marketplace(home.site, home.settings, acme.url, "acme", trust=True)
    assert (home.said().get(DECLARED, {}), home.said().get("trustedMarketplaces", [])) == ({}, [])
    assert derived(home.everything()) == derived(before)
    assert [str(one.plugin_id) for one in home.active().bundles] == ["audit@acme"]


@spec("R-PLUGIN-10")
def test_an_add_that_fails_leaves_a_catalog_that_nobody_declares_any_more(home: Home, acme: Repository) -> None:
    home.declare(acme)
    home.install("audit@acme")
    home.say("user", installedPlugins=["audit@acme"], enabledPlugins={"audit@acme": True})
    before = home.everything()
    with pytest.raises((NetworkError, AuthError)):
        marketplaces.add_marketplace(home.site, home.settings, f"file://{home.root}/nowhere", "acme", trust=True)
    assert derived(home.everything()) == derived(before)


@spec("R-CORE-3", "R-PLUGIN-9", "R-PLUGIN-13")
def test_an_add_to_a_home_that_cannot_be_used_leaves_neither_declaration_nor_trust(
    home: Home, acme: Repository
) -> None:
    home.home.write_text("no directory")
    with pytest.raises(StartupError) as caught:
        marketplaces.add_marketplace(home.site, home.settings, acme.url, "acme", trust=True)
    assert caught.value.code == "unwritable"
    assert (home.said()[DECLARED], home.said()["trustedMarketplaces"]) == ({}, [])


@spec("R-CORE-3", "R-PLUGIN-9", "R-PLUGIN-13")
@pytest.mark.parametrize("trusted", [[], ["acme"], ["other", "acme"]])
def test_an_add_that_fails_leaves_a_declaration_that_stood_there_as_it_was(home: Home, trusted: list[str]) -> None:
    url = f"file://{home.root}/nowhere"
    said = {
        DECLARED: {"acme": {"source": {"type": "git", "url": url}}, "other": {"source": {"type": "git", "url": url}}},
        "trustedMarketplaces": trusted,
    }
    for former in (said, {**said, DECLARED: {"acme": {**said[DECLARED]["acme"], "autoUpdate": False}}}):
        home.say("user", **former)
        with pytest.raises((NetworkError, AuthError)):
            marketplaces.add_marketplace(home.site, home.settings, url, "acme", trust=True, auto_update=True)
        assert home.said() == former


def derived(files: dict[str, bytes]) -> dict[str, bytes]:
    """What was fetched, and the records of it."""
    return {path: content for path, content in files.items() if path.startswith("home/")}


# -- whether it is brought up to date -----------------------------------------------------------


@spec("R-PLUGIN-8", "R-PLUGIN-9", "R-GATE-4")
@pytest.mark.parametrize("value", [True, False])
def test_setting_a_marketplace_that_a_project_alone_declares_is_refused_and_makes_nobody_trust_it(
    home: Home, acme: Repository, value: bool
) -> None:
    home.declare(acme, scope="project")
    with pytest.raises(PolicyError) as caught:
        marketplaces.set_auto_update(home.site, home.settings(), "acme", value)
    assert caught.value.code == "source_refused"
    assert home.said() == {}
    assert refusal("acme", home.settings()) is not None
    assert list(home.boot().catalogs.report.skipped) == ["acme"]


@spec("R-PLUGIN-8", "R-PLUGIN-9")
def test_setting_a_marketplace_writes_that_alone_and_where_it_is_declared(home: Home, acme: Repository) -> None:
    home.declare(acme, scope="local")
    result = marketplaces.set_auto_update(home.site, home.settings(), "acme", True)
    assert (result.changed, result.effective, result.written_scope) == (True, True, "local")
    assert home.said("local")["extraKnownMarketplaces"] == {"acme": declared(acme, autoUpdate=True)}
    assert home.said() == {}
    known = home.settings()
    assert not marketplaces.set_auto_update(home.site, known, "acme", True).changed
    home.say("local")
    with pytest.raises(ConfigValidationError):
        marketplaces.set_auto_update(home.site, known, "acme", False)
    assert home.said("local") == {}


@spec("R-FILE-13")
def test_of_scopes_that_declare_a_marketplace_the_one_whose_word_counts_is_set(home: Home, acme: Repository) -> None:
    home.declare(acme)
    home.declare(acme, scope="local")
    assert marketplaces.set_auto_update(home.site, home.settings(), "acme", False).written_scope == "user"
    home.say("local", extraKnownMarketplaces={"acme": declared(acme, autoUpdate=False)})
    result = marketplaces.set_auto_update(home.site, home.settings(), "acme", True)
    assert (result.effective, result.written_scope) == (True, "local")
    assert home.settings().merged["extraKnownMarketplaces"]["acme"]["autoUpdate"] is True


@spec("R-FILE-13")
def test_a_setting_of_a_marketplace_that_something_above_decides_says_so_or_is_refused(
    home: Home, acme: Repository
) -> None:
    home.declare(acme)
    home.config["marketplaces"] = {"acme": declared(acme, autoUpdate=False)}
    result = marketplaces.set_auto_update(home.site, home.settings(), "acme", True)
    assert (result.changed, result.effective, result.shadowed_by) == (True, False, "config")
    home.say("policy", extraKnownMarketplaces={"acme": declared(acme, autoUpdate=True)})
    before = home.said()
    with pytest.raises(PolicyError) as caught:
        marketplaces.set_auto_update(home.site, home.settings(), "acme", False)
    assert caught.value.code == "policy_shadowed"
    assert home.said() == before


@spec("R-PLUGIN-9")
def test_a_marketplace_that_no_file_of_a_person_declares_cannot_be_set(home: Home, acme: Repository) -> None:
    with pytest.raises(ConfigValidationError) as unknown:
        marketplaces.set_auto_update(home.site, home.settings(), "acme", True)
    assert unknown.value.code == "unknown_marketplace"
    home.config["marketplaces"] = {"acme": declared(acme)}
    with pytest.raises(ConflictError) as caught:
        marketplaces.set_auto_update(home.site, home.settings(), "acme", True)
    assert caught.value.code == "read_only_scope"
    home.say("policy", extraKnownMarketplaces={"acme": declared(acme)})
    with pytest.raises(PolicyError) as forced:
        marketplaces.set_auto_update(home.site, home.settings(), "acme", True)
    assert forced.value.code == "policy_shadowed"
    assert home.said() == {}
