"""Ambient files: tolerance where nobody named them, the last good state when they break, policy sources."""

from __future__ import annotations

import json
import plistlib
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.directories import resolve
from smcp_runtime.actors.reconcile.config.findings import render
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions
from smcp_runtime.actors.reconcile.scopes import policy
from smcp_runtime.actors.reconcile.scopes.ambient import Ambient, load_ambient
from smcp_runtime.actors.reconcile.scopes.places import Places, places_of
from smcp_runtime.actors.reconcile.scopes.policy import Part, PolicySettings, Source, first_filled
from smcp_runtime.actors.reconcile.scopes.settings import merge

spec = pytest.mark.spec
ECHO = {"type": "stdio", "server_parameters": {"command": "echo"}}


class World:
    """A user's configuration directory, a project and an administrator's directory."""

    def __init__(self, root: Path) -> None:
        options = RuntimeOptions(env={"HOME": str(root / "home"), "XDG_CONFIG_HOME": str(root / "xdg")})
        self.places: Places = places_of(resolve(options), root / "project")
        self.managed = root / "managed"

    def write(self, path: Path, content: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def load(self, before: Ambient | None = None) -> Ambient:
        return load_ambient(self.places, self.managed, before)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ids(ambient: Ambient) -> dict[str, list[str]]:
    return {layer.origin: [server.bundle_id for server in layer.declaration.servers] for layer in ambient.layers}


@spec("R-SCOPE-4", "R-FILE-1")
def test_without_any_file_every_layer_is_empty_and_nothing_is_made(world: World, tmp_path: Path) -> None:
    ambient = world.load()
    assert (ambient.layers, ambient.settings, ambient.findings) == ((), (), ())
    assert list(tmp_path.iterdir()) == []


@spec("R-SCOPE-1", "R-FILE-1")
def test_each_scope_has_its_pair_of_files(world: World, tmp_path: Path) -> None:
    user, project = tmp_path / "xdg" / "a2c", tmp_path / "project" / ".tfrobot"
    files = {
        "user": (user / "settings.json", user / "mcp.json"),
        "project": (project / "settings.json", project / "mcp.json"),
        "local": (project / "settings.local.json", project / "mcp.local.json"),
        "policy": (world.managed / "managed-settings.json", world.managed / "managed-mcp.json"),
    }
    for origin, (settings, mcp) in files.items():
        world.write(settings, {"disabledMcpjsonServers": [origin]})
        world.write(mcp, {"servers": {origin: ECHO}})
    ambient = world.load()
    assert ids(ambient) == {origin: [origin] for origin in files}
    assert {layer.origin: layer.values for layer in ambient.settings} == {
        origin: {"disabledMcpjsonServers": [origin]} for origin in files
    }


@spec("R-SCOPE-13", "F-109")
def test_one_bad_entry_costs_that_entry_and_names_file_and_place(world: World) -> None:
    path = world.write(
        world.places.mcp("user"),
        {
            "servers": {"good": ECHO, "bad": {"type": "nonsense"}, "worse": 5},
            "inputs": [{"type": "promptString", "id": "a", "description": "d"}, {"type": "pickString", "id": "b"}],
        },
    )
    ambient = world.load()
    (layer,) = ambient.layers
    assert [server.bundle_id for server in layer.declaration.servers] == ["good"]
    assert [definition.id for definition in layer.declaration.inputs] == ["a"]
    lines = [render(finding) for finding in ambient.findings]
    for place in ("servers.bad", "servers.worse", "inputs[1]"):
        assert any(line.startswith(f"{path}: {place}") for line in lines)
    assert set(ambient.losses) == {str(path)}


@spec("R-SCOPE-13")
def test_one_bad_setting_costs_that_setting(world: World) -> None:
    world.write(
        world.places.settings("user"),
        {"enabledPlugins": {"p@m": True, "Bad": True, "q@m": "yes"}, "landingRoot": "x", "installedPlugins": ["p@m"]},
    )
    (layer,) = world.load().settings
    assert layer.values == {"enabledPlugins": {"p@m": True}, "installedPlugins": ["p@m"]}


@spec("T-CFG-6", "R-MCP-7", "DEC-15")
@pytest.mark.parametrize(
    "content",
    [
        {"servers": {"my.server": ECHO, "my_server": ECHO, "other": ECHO}},
        b'{"servers": {"x": {"command": "echo"}, "x": {"command": "ls"}, "other": {"command": "echo"}}}',
    ],
)
def test_of_two_entries_of_one_identity_in_a_file_neither_counts(world: World, content: Any) -> None:
    path = world.write(world.places.mcp("user"), content)
    ambient = world.load()
    assert ids(ambient) == {"user": ["other"]}
    assert [finding.code for finding in ambient.findings] == ["duplicate_bundle_id"]
    assert ambient.losses[str(path)].category == "conflict"


@spec("R-FILE-8", "R-SEC-14")
@pytest.mark.parametrize("content", [b"{oops", b"[]", b"\xff\xfe{}", b'{"servers": []}', b""])
def test_a_file_nobody_understands_is_an_empty_layer_and_one_error(world: World, content: bytes) -> None:
    path = world.write(world.places.mcp("user"), content)
    world.write(world.places.mcp("local"), {"servers": {"other": ECHO}})
    ambient = world.load()
    assert ids(ambient) == {"local": ["other"]}
    assert [finding.source for finding in ambient.findings] == [str(path)]
    assert path.read_bytes() == content


@spec("F-66")
def test_a_file_that_breaks_while_it_is_in_use_counts_as_it_was(world: World) -> None:
    mcp = world.write(world.places.mcp("user"), {"servers": {"a": ECHO}})
    settings = world.write(world.places.settings("user"), {"disabledMcpjsonServers": ["x"]})
    good = world.load()
    world.write(mcp, b'{"servers": {"a"')
    world.write(settings, b"")
    broken = world.load(good)
    assert ids(broken) == {"user": ["a"]}
    assert broken.settings == good.settings
    assert set(broken.losses) == {str(mcp), str(settings)}
    assert broken.revisions == good.revisions
    mcp.unlink()
    assert ids(world.load(broken)) == {}


@spec("R-SEC-14")
def test_an_administrator_whose_file_breaks_is_still_obeyed(world: World) -> None:
    path = world.write(world.managed / "managed-settings.json", {"deniedMcpServers": ["x"]})
    good = world.load()
    world.write(path, b"{")
    assert world.load(good).settings == good.settings


@spec("R-SCOPE-3")
def test_comments_and_unknown_keys_are_no_fault(world: World) -> None:
    world.write(world.places.mcp("project"), b'// team servers\n{"servers": {"a": {"command": "x"}}, "mine": 1}')
    ambient = world.load()
    assert ids(ambient) == {"project": ["a"]}
    assert [(finding.code, finding.field) for finding in ambient.findings] == [("unknown_key", "mine")]
    assert ambient.losses == {}


def test_a_file_that_may_not_be_read_is_reported(world: World, tmp_path: Path) -> None:
    path = world.places.mcp("user")
    path.mkdir(parents=True)  # a directory in its place: nobody can read it, not even root
    ambient = world.load()
    assert [(finding.code, finding.source) for finding in ambient.findings] == [("unreadable", str(path))]


class TestPolicy:
    @spec("R-SCOPE-9")
    def test_the_first_source_that_says_anything_counts_alone(self) -> None:
        def source(label: str, values: dict[str, Any]) -> Source:
            return Source(label, lambda: (Part(label, values),))

        sources = [source("empty", {}), source("first", {"a": 1}), source("second", {"a": 2, "b": 2})]
        assert first_filled(sources) == PolicySettings((Part("first", {"a": 1}),))

    @spec("R-SCOPE-9")
    def test_drop_ins_lie_over_the_base_in_lexical_order(self, world: World) -> None:
        world.write(world.managed / "managed-settings.json", {"landingRoot": "/base", "deniedMcpServers": ["a"]})
        world.write(world.managed / "managed-settings.d" / "20.json", {"landingRoot": "/20"})
        world.write(world.managed / "managed-settings.d" / "10.json", {"landingRoot": "/10", "deniedMcpServers": ["b"]})
        world.write(world.managed / "managed-settings.d" / "99.txt", {"landingRoot": "/no"})
        ambient = world.load()
        assert merge(ambient.settings).merged == {"landingRoot": "/20", "deniedMcpServers": ["a", "b"]}
        assert ambient.findings == ()

    @spec("R-SCOPE-9", "R-SCOPE-13")
    def test_a_drop_in_that_is_wrong_about_a_field_takes_nothing_from_the_base(self, world: World) -> None:
        world.write(world.managed / "managed-settings.json", {"deniedMcpServers": ["a"], "allowedMcpServers": ["b"]})
        wrong = {"deniedMcpServers": "b", "allowedMcpServers": None, "landingRoot": "/10"}
        drop_in = world.write(world.managed / "managed-settings.d" / "10.json", wrong)
        ambient = world.load()
        assert merge(ambient.settings).merged == {
            "deniedMcpServers": ["a"],
            "allowedMcpServers": ["b"],
            "landingRoot": "/10",
        }
        assert [(finding.source, finding.field) for finding in ambient.findings] == [(str(drop_in), "deniedMcpServers")]

    @spec("R-SEC-14", "F-66")
    @pytest.mark.parametrize("broken", ["managed-settings.json", "managed-settings.d/10.json"])
    def test_of_several_files_the_one_that_breaks_counts_as_it_was(self, world: World, broken: str) -> None:
        files = ("managed-settings.json", "managed-settings.d/10.json", "managed-settings.d/20.json")
        for name in files:
            world.write(world.managed / name, {"deniedMcpServers": ["a"], "blockedMarketplaces": ["m"]})
        world.write(world.managed / broken, {"deniedMcpServers": ["b"]})
        good = world.load()
        world.write(world.managed / broken, b"{")
        world.write(world.managed / "managed-settings.d/20.json", {"deniedMcpServers": ["c"]})
        for _ in range(2):
            good = world.load(good)
            assert set(merge(good.settings).names("deniedMcpServers")) == {"a", "b", "c"}
            assert set(good.losses) == {str(world.managed / broken)}
        (world.managed / broken).unlink()
        assert set(merge(world.load(good).settings).names("deniedMcpServers")) == {"a", "c"}

    @spec("R-SEC-14", "F-66")
    def test_drop_ins_that_cannot_be_looked_up_any_more_count_as_they_were(self, world: World) -> None:
        drop_ins = world.managed / "managed-settings.d"
        world.write(drop_ins / "10.json", {"deniedMcpServers": ["a"]})
        world.write(drop_ins / "20.json", {"deniedMcpServers": ["b"]})
        good = world.load()
        drop_ins.rename(world.managed / "away")
        drop_ins.symlink_to(drop_ins.name)  # to itself, so that it leads nowhere
        for _ in range(2):
            good = world.load(good)
            assert merge(good.settings).names("deniedMcpServers") == ("a", "b")
            assert [finding.code for finding in good.findings] == ["unreadable"]
        drop_ins.unlink()
        assert merge(world.load(good).settings).names("deniedMcpServers") == ()

    @spec("R-SEC-14", "F-66")
    def test_a_source_that_breaks_while_it_is_in_use_makes_way_for_none_below(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        preferences = tmp_path / "com.a2c.computer.plist"
        monkeypatch.setattr(policy, "MAC_PREFERENCES", preferences)
        world.write(world.managed / "managed-settings.json", {"landingRoot": "/file"})
        sources = policy.platform_sources(world.managed, "darwin")
        preferences.write_bytes(b"no list")
        chosen = first_filled(sources, in_use={str(preferences)})
        assert [part.label for part in chosen.parts] == [str(preferences)]
        assert [finding.code for finding in chosen.findings] == ["bad_plist"]

    @spec("R-SCOPE-9")
    def test_a_source_that_fails_is_passed_over_with_a_finding(self, world: World) -> None:
        base = world.write(world.managed / "managed-settings.json", b"{")
        world.write(world.managed / "managed-settings.d" / "10.json", {"landingRoot": "/10"})
        ambient = world.load()
        assert [layer.values for layer in ambient.settings] == [{"landingRoot": "/10"}]
        assert [finding.source for finding in ambient.findings] == [str(base)]

    @spec("R-SCOPE-9")
    def test_preferences_of_macos_come_before_files_and_are_read_as_a_property_list(
        self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        preferences = tmp_path / "com.a2c.computer.plist"
        monkeypatch.setattr(policy, "MAC_PREFERENCES", preferences)
        world.write(world.managed / "managed-settings.json", {"landingRoot": "/file"})
        preferences.write_bytes(plistlib.dumps({"landingRoot": "/mdm"}))
        chosen = first_filled(policy.platform_sources(world.managed, "darwin"))
        assert chosen.parts == (Part(str(preferences), {"landingRoot": "/mdm"}),)
        preferences.write_bytes(b"no list")
        chosen = first_filled(policy.platform_sources(world.managed, "darwin"))
        assert [part.values for part in chosen.parts] == [{"landingRoot": "/file"}]
        assert [finding.code for finding in chosen.findings] == ["bad_plist"]

    @spec("R-SCOPE-9")
    def test_windows_asks_the_machine_then_files_then_the_user(self, world: World) -> None:
        labels = [source.label for source in policy.platform_sources(world.managed, "win32")]
        file = str(world.managed / "managed-settings.json")
        assert [label.partition("\\")[0] for label in labels] == ["HKLM", file, "HKCU"]

    @spec("R-SCOPE-9")
    @pytest.mark.parametrize("give", [lambda values: values, lambda values: lambda: values])
    def test_a_test_puts_its_own_policy_in_place_of_the_platforms(self, world: World, give: Any) -> None:
        ambient = load_ambient(world.places, give({"deniedMcpServers": ["x"]}))
        assert [(layer.origin, layer.values) for layer in ambient.settings] == [("policy", {"deniedMcpServers": ["x"]})]
