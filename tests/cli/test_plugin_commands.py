"""`smcp plugin`, `marketplace`, `mcp` and `skill`: on files alone, and through the door of a Computer that runs."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.cli.control import door, managed
from smcp_runtime.cli.offline import NEXT_START, Offline
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError
from support.command import Ran, smcp
from support.marketplaces import HARBOUR, Repository, catalog, plugin, stdio
from support.peers import Peers
from support.stack import light

from .test_management_commands import SMCP
from .test_management_commands import User as UserOfProcesses

spec = pytest.mark.spec
AUDIT = "audit@acme"
TWINS = {"fs_user": light("filesystem", bundle_id="fs_user"), "fs_other": light("filesystem", bundle_id="fs_other")}


class User(UserOfProcesses):
    """Commands run in this process; one that must be a process of its own is started by the test."""

    def run(self, *words: str, typed: str | None = None, **environ: str) -> Any:
        return smcp(*words, environ={**self.environ, **environ}, cwd=self.project, typed=typed or "")

    def said(self, *words: str, **more: Any) -> Any:
        ran: Ran = self.run(*words, **more)
        assert ran.status == 0, ran.errors
        return json.loads(ran.lines[0])


@pytest.fixture
def user(tmp_path: Path, peers: Peers) -> User:
    return User(tmp_path, peers)


@pytest.fixture
def market(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "acme", catalog("acme", "audit"), plugin("audit", stdio("store", bundle_id="db")))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A user whose Computer runs, in a process of its own, with two servers of one name."""
    root = tmp_path_factory.mktemp("desk")
    flag = root / "flag.json"
    flag.write_text(json.dumps({"mcp_servers": list(TWINS.values())}))
    with Peers() as peers:
        user = User(root, peers)
        command = [*SMCP, "computer", "run", "--name", "desk", "--mcp-config", str(flag)]
        started = peers.start(command, env=user.environ, cwd=user.project)
        started.wait_line(r"^ready url=", timeout=30)
        yield user
        assert started.status is None


@spec("R-CLI-2", "R-PLUGIN-9", "T-PLUG-1")
def test_without_a_computer_the_commands_work_on_files_and_say_when_it_shows(user: User, market: Repository) -> None:
    refused = user.run("marketplace", "add", market.url, "--json")
    assert refused.status == 1
    assert json.loads(refused.lines[0])["code"] == "trust_needed"
    assert user.said("marketplace", "add", market.url, "--trust", "--json")["changed"]
    installed = user.said("plugin", "install", AUDIT, "--json")
    assert {name: installed[name] for name in ("installed", "scope", "state", "mcpServers")} == {
        "installed": AUDIT,
        "scope": "user",
        "state": "installed_disabled",
        "mcpServers": ["db"],
    }
    assert "next start" in installed["warnings"][0]
    assert json.loads(user.settings.read_text())["installedPlugins"] == [AUDIT]


@spec("R-CLI-2", "R-MGMT-3")
def test_every_operation_on_files_alone_leaves_what_the_next_start_reads(tmp_path: Path, market: Repository) -> None:
    places = {name: str(tmp_path / name) for name in ("home", "user_config_dir", "state_dir", "project_root")}
    files = Offline(settle(RuntimeOptions(**places, policy_source=str(tmp_path / "managed")))[0])

    def states() -> list[tuple[str, str, bool]]:
        return [(view["id"], view["state"], view["contributes"]) for view in files.carry_out("plugin.list", {})]

    files.carry_out("marketplace.add", {"url": market.url, "trust": True})
    assert [one["name"] for one in files.carry_out("marketplace.list", {})] == ["acme"]
    assert states() == [(AUDIT, "available", False)]
    files.carry_out("plugin.install", {"plugin_id": AUDIT})
    assert files.carry_out("plugin.enable", {"plugin_id": AUDIT})["written_scope"] == "user"
    assert states() == [(AUDIT, "installed_enabled", True)]
    (server,) = files.carry_out("server.list", {})
    assert (server["bundle_id"], server["owner"], server["activation"]) == ("db", "plugin:audit", "stopped")
    files.carry_out("plugin.disable", {"plugin_id": AUDIT})
    assert files.carry_out("server.list", {}) == []
    assert not files.carry_out("marketplace.refresh", {})["changed"]
    assert not files.carry_out("plugin.gc", {})["result"]["changed"]
    assert files.carry_out("plugin.uninstall", {"plugin_id": AUDIT})["changed"]
    assert states() == [(AUDIT, "available", False)]
    assert files.carry_out("marketplace.remove", {"name": "acme"})["changed"]
    assert files.carry_out("marketplace.list", {}) == []
    with pytest.raises(ConflictError) as caught:
        files.carry_out("server.start", {"bundle_id": "db"})
    assert caught.value.code == "not_running"


@spec("T-PLUG-2", "T-PLUG-4", "R-MGMT-1")
def test_a_computer_that_runs_is_managed_through_its_door(desk: User, market: Repository) -> None:
    socket = door(desk.home / ".a2c/skills", "desk")
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700

    def asked(operation: str, **words: Any) -> Any:
        return asyncio.run(managed(socket, operation, words))

    asked("marketplace.add", url=market.url, trust=True)
    asked("plugin.install", plugin_id=AUDIT)
    assert asked("skill.list")["skills"] == []
    desk.said("plugin", "enable", AUDIT, "--json")
    assert [one["name"] for one in desk.said("skill", "list", "--json")] == ["audit:work"]
    (server,) = (one for one in asked("server.list") if one["bundle_id"] not in TWINS)
    assert (server["bundle_id"], server["owner"], server["connection"]) == ("db", "plugin:audit", "connected")
    stopped = desk.run("mcp", "stop", "db")
    assert stopped.status == 1
    assert "audit@acme" in " ".join(stopped.errors)
    asked("plugin.disable", plugin_id=AUDIT)
    assert {one["bundle_id"] for one in asked("server.list")} == TWINS.keys()
    for operation in ("nonsense", "plugin.install"):
        with pytest.raises(ConfigValidationError) as caught:
            asked(operation)
        assert caught.value.code == "bad_operation"
    assert desk.run("plugin", "list", "--computer", "other").status == 2


@spec("T-MGMT-1", "T-MGMT-2", "R-MGMT-5", "R-MGMT-6", "R-MGMT-7", "R-FIX-2")
def test_an_ambiguous_or_unknown_name_fails_and_says_what_there_is(desk: User) -> None:
    ambiguous = desk.run("mcp", "stop", "filesystem")
    assert ambiguous.status == 1
    assert ambiguous.lines == []
    for words in ("2 servers are named 'filesystem'", "fs_other", "fs_user", "(flag)", "bundle_id"):
        assert words in "\n".join(ambiguous.errors)
    missing = desk.run("mcp", "stop", "legal_but_unregistered")
    assert (missing.status, missing.lines) == (1, [])
    assert desk.run("mcp", "stop", "fs_user").status == 0
    states = {one["bundle_id"]: one["activation"] for one in desk.said("mcp", "list", "--json")}
    assert states == {"fs_user": "stopped", "fs_other": "started"}


def test_servers_are_declared_and_removed_in_files(user: User) -> None:
    entry = json.dumps(light("mine", bundle_id="mine"))
    assert user.said("mcp", "add", entry, "--scope", "user", "--json")["written_scope"] == "user"
    assert [one["bundle_id"] for one in user.said("mcp", "list", "--json")] == ["mine"]
    assert user.said("mcp", "remove", "mine", "--json")["changed"]
    assert user.run("mcp", "add", "{").status == 2


@spec("R-FILE-11", "R-MGMT-3")
def test_a_declaration_says_where_it_was_written_and_when_that_is_elsewhere_than_asked(user: User) -> None:
    entry, other = json.dumps(light("mine")), json.dumps({**light("mine"), "disabled": True})
    local, file = user.project / ".tfrobot" / "mcp.local.json", user.settings.parent / "mcp.json"
    added = user.run("mcp", "add", entry)
    assert (added.lines, added.errors) == ([f"mine is declared (local: {local})"], [NEXT_START])
    again = user.run("mcp", "add", other, "--scope", "user")
    assert (again.status, again.lines, file.exists()) == (0, [f"mine is declared (local: {local})"], False)
    assert again.errors[0] == "scope local holds it already, so nothing was written to scope user"
    disabled = user.run("mcp", "disable", "mine")
    assert disabled.lines == [f"mine is disabled (local: {user.project / '.tfrobot' / 'settings.local.json'})"]
    assert user.run("settings", "set", "landingRoot", "/x").lines == [f"landingRoot is set (user: {user.settings})"]


def test_a_command_in_a_process_of_its_own_prints_the_same(user: User) -> None:
    alone = UserOfProcesses.run(user, "plugin", "list", "--json")
    assert (alone.status, alone.lines, alone.errors) == tuple(user.run("plugin", "list", "--json"))


@spec("R-MGMT-4")
def test_what_an_operation_is_at_is_told_in_lines_while_stdout_holds_the_result_alone(
    desk: User, user: User, tmp_path: Path
) -> None:
    source = Repository(tmp_path / "tides", catalog("tides", "tides"), plugin("tides"))
    for who in (desk, user):
        ran = who.run("marketplace", "add", source.url, "--trust", "--json")
        assert json.loads(ran.lines[0])["changed"]
        assert len(ran.lines) == 1
        told = [json.loads(line) for line in ran.errors]
        steps = [(one["event"], one["step"], one["what"]) for one in told]
        assert list(dict.fromkeys(steps)) == [("progress", "fetching", "tides"), ("progress", "checking", "tides")]
        ran = who.run("plugin", "install", "tides@tides")
        assert "checking tides@tides" in ran.errors
        assert who.said("marketplace", "remove", "tides", "--json")["changed"]


@spec("R-MGMT-4")
def test_skills_on_disk_are_listed_without_a_computer(user: User, market: Repository) -> None:
    (user.home / ".a2c/skills/user/tea").mkdir(parents=True)
    (user.home / ".a2c/skills/user/tea/SKILL.md").write_text("---\ndescription: Makes tea.\n---\n")
    user.said("marketplace", "add", market.url, "--trust", "--json")
    user.said("plugin", "install", AUDIT, "--json")
    user.said("plugin", "enable", AUDIT, "--json")
    listed = user.run("skill", "list", "--json")
    assert [(one["name"], one["source"]) for one in json.loads(listed.lines[0])] == [
        ("audit:work", "marketplace:acme"),
        ("tea", "user"),
    ]
    assert "once one does" in listed.errors[0]
    assert user.said("skill", "info", "tea", "--json")["description"] == "Makes tea."
    assert user.run("skill", "info", "coffee").status == 1


def test_a_marketplace_may_be_declared_now_and_fetched_later(user: User, market: Repository) -> None:
    added = user.said("marketplace", "add", str(market.root), "--name", "acme", "--trust", "--no-clone", "--json")
    assert added["changed"]
    (view,) = user.said("marketplace", "list", "--json")
    assert (view["declared"], view["materialised"], view["url"]) == (True, False, market.url)
    assert user.said("marketplace", "refresh", "acme", "--json")["changed"]
    assert user.said("marketplace", "info", "acme", "--json")["plugins"] == ["audit"]
    assert user.run("marketplace", "refresh", "nowhere").status == 1


def test_a_collection_says_what_it_found_by_field(user: User, market: Repository) -> None:
    user.said("marketplace", "add", market.url, "--trust", "--json")
    said = json.loads(user.settings.read_text())
    user.settings.write_text(json.dumps({**said, "installedPlugins": ["ghost@acme", "x@nowhere"]}))
    found = user.said("plugin", "gc", "--json")
    assert found["dangling"] == [
        {"id": "ghost@acme", "reason": "entry-missing"},
        {"id": "x@nowhere", "reason": "marketplace-not-added"},
    ]
    assert found["prunedIntents"] == []
    pruned = user.said("plugin", "gc", "--prune-dangling", "--json")
    assert (pruned["prunedIntents"], pruned["residualDeclarations"]) == (["ghost@acme", "x@nowhere"], [])


@spec("R-GATE-8", "T-GATE-6")
def test_a_plugin_with_a_denied_server_is_not_enabled_in_files_either(user: User, market: Repository) -> None:
    user.said("marketplace", "add", market.url, "--trust", "--json")
    user.said("plugin", "install", AUDIT, "--json")
    user.said("settings", "set", "disabledMcpjsonServers", '["db"]', "--scope", "local", "--json")
    refused = user.run("plugin", "enable", AUDIT, "--json")
    assert (refused.status, json.loads(refused.lines[0])["code"]) == (1, "server_denied")
    assert "enabledPlugins" not in json.loads(user.settings.read_text())


@spec("F-18")
def test_the_validator_reports_every_fault_and_writes_nothing(user: User, tmp_path: Path) -> None:
    assert user.said("plugin", "validate", str(HARBOUR), "--json")["valid"]
    manifest = tmp_path / "bad/.tfrobot-plugin/marketplace.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"name": "Bad", "owner": 1, "plugins": [{"name": "a", "source": "../x"}, {}]}))
    before = user.everything()
    run = user.run("marketplace", "validate", str(tmp_path / "bad"), "--json")
    verdict = json.loads(run.lines[0])
    assert run.status == 1
    assert set(verdict) == {"valid", "mode", "path", "checked_files", "errors", "warnings"}
    assert {issue["location"] for issue in verdict["errors"]} == {
        "name",
        "owner",
        "plugins[0].source",
        "plugins[1].name",
        "plugins[1].source",
    }
    assert user.everything() == before
