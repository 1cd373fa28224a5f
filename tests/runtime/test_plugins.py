"""Plugins of a running Computer: real git, real MCP servers and the files of all scopes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.computer.crew import RECONCILE, TOOLS
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, PolicyError, SmcpError
from smcp_runtime.wire.messages.projection import GetConfig, GetLaunchPlan
from smcp_runtime.wire.messages.skills import ListSkills
from smcp_runtime.wire.messages.tools import ListTools
from support.marketplaces import Files, Repository, catalog, plugin, skill, stdio
from support.stack import light, options
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
AUDIT = "audit@acme"
SECRET = [{"type": "promptString", "id": "token", "description": "d", "password": True}]


class Yard:
    """A user's places, marketplaces, and Computers that live there one after the other."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "project").mkdir()
        self.environ: dict[str, str] = {"PATH": "/usr/bin:/bin", "HOME": str(root)}
        self.settings: dict[str, dict[str, Any]] = {}

    def computer(self, config: dict[str, Any] | None = None, **changes: Any) -> Computer:
        places = {
            "home": str(self.root / "home"),
            "user_config_dir": str(self.root / "config"),
            "state_dir": str(self.root / "state"),
            "project_root": str(self.root / "project"),
            "policy_source": str(self.root / "managed"),
            "secret_providers": ("memory",),
            "env": self.environ,
        }
        return Computer.from_config(config or {"name": "desk"}, options(**{**places, **changes}))

    def say(self, scope: str, **fields: Any) -> None:
        path = {
            "user": self.root / "config/settings.json",
            "project": self.root / "project/.tfrobot/settings.json",
            "local": self.root / "project/.tfrobot/settings.local.json",
            "policy": self.root / "managed/managed-settings.json",
        }[scope]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(fields))

    def said(self) -> dict[str, Any]:
        return dict(json.loads((self.root / "config/settings.json").read_text()))

    def market(self, *files: Files, name: str = "acme") -> Repository:
        plugins = sorted({path.split("/")[1] for one in files for path in one if path.startswith("plugins/")})
        made = Repository(self.root / "repositories" / name, catalog(name, *plugins), *files)
        declared = {name: {"source": {"type": "git", "url": made.url}}}
        known = self.said() if (self.root / "config/settings.json").exists() else {}
        self.say("user", **{**known, "extraKnownMarketplaces": {**known.get("extraKnownMarketplaces", {}), **declared}})
        return made


class Seen:
    """What an Agent would get now."""

    def __init__(self, skills: set[str], servers: set[str], tools: set[str]) -> None:
        self.skills, self.servers, self.tools = skills, servers, tools


async def seen(computer: Computer) -> Seen:
    crew = computer._crew
    assert crew is not None
    skills = json.loads((await crew.ask(Address("skills"), ListSkills(), 5)).skills.data)
    config = json.loads((await crew.ask(RECONCILE, GetConfig(), 5)).config.data)
    tools = json.loads((await crew.ask(TOOLS, ListTools(), 5)).tools.data)
    return Seen({one["name"] for one in skills}, set(config["servers"]), {one["name"] for one in tools})


async def pid(computer: Computer, bundle_id: str) -> int | None:
    return next((one.pid for one in (await computer.diagnostics()).servers if one.bundle_id == bundle_id), None)


async def connected(computer: Computer, bundle_id: str) -> None:
    async def is_up() -> bool:
        servers = {one.bundle_id: one for one in (await computer.diagnostics()).servers}
        return bundle_id in servers and servers[bundle_id].connection == "connected"

    await until(is_up, 10)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


@asynccontextmanager
async def running(computer: Computer) -> AsyncIterator[Computer]:
    async with computer:
        yield computer


@spec("T-PLUG-1", "T-PLUG-2", "T-PLUG-4", "R-PLUGIN-20", "R-PLUGIN-21")
async def test_a_plugin_is_installed_enabled_disabled_and_taken_away(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")))
    async with running(yard.computer()) as computer:
        plugins = computer.manage.plugins
        await plugins.install(AUDIT)
        assert (await seen(computer)).__dict__ == {"skills": set(), "servers": set(), "tools": set()}
        assert [(one.id, one.state) for one in await plugins.list()] == [(AUDIT, "installed_disabled")]
        result = await plugins.enable(AUDIT)
        assert (result.changed, result.effective, result.written_scope) == (True, True, "user")
        await until(lambda: tools_are(computer, {"db__echo"}))
        found = await seen(computer)
        assert found.skills == {"audit:work"}
        assert found.servers == {"db"}
        await plugins.disable(AUDIT)
        assert (await seen(computer)).__dict__ == {"skills": set(), "servers": set(), "tools": set()}
        assert (await plugins.list())[0].state == "installed_disabled"
        await plugins.enable(AUDIT)
        await plugins.uninstall(AUDIT)
        assert (await seen(computer)).__dict__ == {"skills": set(), "servers": set(), "tools": set()}
        assert [one.state for one in await plugins.list()] == ["available"]
        assert yard.said()["installedPlugins"] == []


@spec("T-PLUG-1", "T-PLUG-2", "R-PROJ-3", "R-PLUGIN-20")
async def test_an_install_commits_nothing_and_an_enable_shows_skills_and_servers_at_once(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db", disabled=True)))
    async with running(yard.computer()) as computer:
        before = (await computer.diagnostics()).commit
        await computer.manage.plugins.install(AUDIT)
        assert (await computer.diagnostics()).commit == before
        await computer.manage.plugins.enable(AUDIT)
        assert (await computer.diagnostics()).commit == before + 1
        found = await seen(computer)
        assert (found.skills, found.servers) == ({"audit:work"}, {"db"})
        await computer.manage.plugins.disable(AUDIT)
        assert (await computer.diagnostics()).commit == before + 2


@spec("T-SEC-2", "R-ERR-2")
async def test_t_sec_2_no_path_of_a_failed_operation_reaches_what_an_agent_sees(yard: Yard) -> None:
    yard.market(plugin("audit", {"name": "store", "type": "nonsense"}))
    async with running(yard.computer()) as computer:
        with pytest.raises(ConfigValidationError):
            await computer.manage.plugins.install(AUDIT)
        crew = computer._crew
        assert crew is not None
        config = (await crew.ask(RECONCILE, GetConfig(), 5)).config.data
        assert str(yard.root).encode() not in config
        assert yard.said().get("installedPlugins", []) == []


@spec("R-PLUGIN-13")
async def test_an_operation_that_is_cancelled_leaves_what_was_there(yard: Yard) -> None:
    yard.market(plugin("audit"))
    async with running(yard.computer()) as computer:
        with anyio.move_on_after(0.001):
            await computer.manage.plugins.install(AUDIT)
        await until(lambda: no_scratch(yard))
        assert (await seen(computer)).skills == set()
        await computer.manage.plugins.install(AUDIT)
        await computer.manage.plugins.enable(AUDIT)
        assert (await seen(computer)).skills == {"audit:work"}


def no_scratch(yard: Yard) -> bool:
    workshop = yard.root / "home/marketplace/.tmp"
    return not workshop.is_dir() or not list(workshop.iterdir())


async def tools_are(computer: Computer, expected: set[str]) -> bool:
    return (await seen(computer)).tools == expected


@spec("T-PLUG-5", "T-PLUG-13", "R-PLUGIN-26")
async def test_a_new_runtime_on_the_same_home_has_it_all_again(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")), plugin("tides"))
    async with running(yard.computer()) as computer:
        for name in ("audit@acme", "tides@acme"):
            await computer.manage.plugins.install(name)
        await computer.manage.plugins.enable(AUDIT)
    async with running(yard.computer({"name": "desk", "mcp_servers": [light("own")]})) as computer:
        await connected(computer, "db")
        found = await seen(computer)
        assert (found.skills, found.servers) == ({"audit:work"}, {"db", "own"})
        assert [one.contributes for one in await computer.manage.plugins.list()] == [True, False]
        with pytest.raises(ConflictError) as caught:
            await computer.control("db", "stop")
        assert caught.value.code == "managed_by_plugin"


@spec("T-PLUG-3", "R-PLUGIN-19")
@pytest.mark.parametrize("before", [None, False])
async def test_a_server_that_does_not_start_takes_the_whole_plugin_back(yard: Yard, before: bool | None) -> None:
    broken = {"name": "store", "bundle_id": "db", "type": "stdio", "server_parameters": {"command": "/nonexistent/x"}}
    yard.market(plugin("audit", broken))
    async with running(yard.computer()) as computer:
        await computer.manage.plugins.install(AUDIT)
        if before is False:
            await computer.manage.plugins.disable(AUDIT)
        said = yard.said()
        with pytest.raises(SmcpError) as caught:
            await computer.manage.plugins.enable(AUDIT)
        assert caught.value.bundle_id == "db"
        assert yard.said().get("enabledPlugins", {}) == said.get("enabledPlugins", {})
        assert (await seen(computer)).__dict__ == {"skills": set(), "servers": set(), "tools": set()}
    yard.say("user", **{**yard.said(), "enabledPlugins": {AUDIT: True}})
    async with running(yard.computer()) as computer:
        await until(lambda: computer.state == "degraded")
        assert (await seen(computer)).skills == {"audit:work"}


@spec("T-PLUG-8", "R-PLUGIN-18", "R-SCOPE-2", "R-SEC-9", "T-ORIG-2", "T-ORIG-6")
async def test_a_server_the_user_has_already_stays_as_it_is_and_where_it_is(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db", tools="add"), stdio("own")))
    mine = light("own", bundle_id="db")
    twin = light("own", bundle_id="own_twin")
    async with running(yard.computer({"name": "desk", "mcp_servers": [mine, twin]})) as computer:
        await connected(computer, "db")
        before = await pid(computer, "db")
        result = await computer.manage.plugins.install(AUDIT)
        assert [note for note in result.diagnostics if "dependency satisfied" in note and "db" in note] == list(
            result.diagnostics
        )
        await computer.manage.plugins.enable(AUDIT)
        await until(lambda: tools_are(computer, {"db__echo", "own__echo", "own_twin__echo"}))
        await computer.manage.plugins.uninstall(AUDIT)
        await until(lambda: tools_are(computer, {"db__echo", "own_twin__echo"}))
        assert await pid(computer, "db") == before


@spec("F-16", "T-ORIG-5", "T-ORIG-8", "R-PLUGIN-31")
@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
async def test_a_server_two_plugins_need_lives_as_long_as_one_of_them(yard: Yard, order: tuple[str, str]) -> None:
    shared = stdio("store", bundle_id="db")
    yard.market(plugin("one", shared), plugin("two", shared))
    async with running(yard.computer()) as computer:
        plugins = computer.manage.plugins
        for name in ("one", "two"):
            await plugins.install(f"{name}@acme")
            await plugins.enable(f"{name}@acme")
        await connected(computer, "db")
        before = await pid(computer, "db")
        await plugins.uninstall(f"{order[0]}@acme")
        assert await pid(computer, "db") == before
        assert (await seen(computer)).servers == {"db"}
        await plugins.install(f"{order[0]}@acme")
        await plugins.disable(f"{order[1]}@acme")
        assert (await seen(computer)).servers == set()
        for name in order:
            await plugins.uninstall(f"{name}@acme")
        await until(lambda: nothing_of(computer, "db"))


async def nothing_of(computer: Computer, bundle_id: str) -> bool:
    return await pid(computer, bundle_id) is None


@spec("T-GATE-5", "R-GATE-9")
@pytest.mark.parametrize(
    ("user", "project", "servers", "pending"),
    [
        (None, True, set(), {"db"}),
        (True, None, {"db"}, set()),
        (True, True, {"db"}, set()),
        (True, False, set(), set()),
    ],
)
async def test_t_gate_5_servers_of_a_plugin_that_a_project_alone_enables_wait_for_an_approval(
    yard: Yard, user: bool | None, project: bool | None, servers: set[str], pending: set[str]
) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")))
    said = {**yard.said(), "installedPlugins": [AUDIT]}
    yard.say("user", **said, **({} if user is None else {"enabledPlugins": {AUDIT: user}}))
    yard.say("project", **({} if project is None else {"enabledPlugins": {AUDIT: project}}))
    async with running(yard.computer()) as computer:
        found = await seen(computer)
        assert found.servers == servers
        assert found.skills == ({"audit:work"} if servers or pending else set())
        waiting = await computer.manage.pending()
        assert {one.bundle_id for one in waiting} == pending
        assert {one.plugin_id for one in waiting} <= {AUDIT}
        if pending:
            await computer.manage.approve("db")
            assert (await seen(computer)).servers == {"db"}


@spec("T-GATE-6", "R-GATE-8", "DEC-15")
@pytest.mark.parametrize(("scope", "field"), [("policy", "deniedMcpServers"), ("project", "disabledMcpjsonServers")])
async def test_t_gate_6_a_denied_bundled_server_is_neither_mounted_nor_pending_and_leaves_no_half(
    yard: Yard, scope: str, field: str
) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")))
    yard.say("user", **yard.said(), installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
    yard.say(scope, **{field: ["db"]})
    async with running(yard.computer()) as computer:
        assert (await seen(computer)).__dict__ == {"skills": set(), "servers": set(), "tools": set()}
        assert await computer.manage.pending() == ()
        told = [one for one in (await computer.diagnostics()).degradations if one.identity == AUDIT]
        assert [(one.component, one.category) for one in told] == [("plugin", "policy")]
        await computer.manage.plugins.disable(AUDIT)
        with pytest.raises(PolicyError):
            await computer.manage.plugins.enable(AUDIT)


@spec("T-GATE-8", "R-GATE-10")
async def test_t_gate_8_a_project_cannot_borrow_the_name_of_a_plugins_server(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")))
    yard.say("user", **yard.said(), installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
    path = yard.root / "project/.tfrobot/mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"servers": {"store": {**light("store", bundle_id="db"), "name": "store"}}}))
    async with running(yard.computer()) as computer:
        assert (await seen(computer)).servers == set()
        assert [(one.bundle_id, one.origin) for one in await computer.manage.pending()] == [("db", "project")]


# -- inputs -------------------------------------------------------------------------------------


def asking(name: str, reference: str = "${input:token}") -> dict[str, Any]:
    entry = stdio(name, bundle_id=name.replace("-", "_"))
    entry["server_parameters"]["env"] = {"TOKEN": reference}
    return entry


def glob(password: bool = True) -> dict[str, Any]:
    return {"type": "promptString", "id": "token", "description": "d", "password": password}


async def rendered(computer: Computer, bundle_id: str) -> str:
    crew = computer._crew
    assert crew is not None
    plan = await crew.ask(RECONCILE, GetLaunchPlan(bundle_id), 5)
    return str(plan.env["TOKEN"])


@spec("T-INP-1", "T-INP-2", "T-INP-3", "R-INPUT-9", "R-INPUT-10")
@pytest.mark.parametrize(
    ("scoped", "shared", "shared_is_secret", "expected"),
    [
        ("own", "all", True, "own"),
        (None, "all", True, "all"),
        (None, "all", False, None),
    ],
)
async def test_t_inp_1_t_inp_2_t_inp_3_a_plugins_own_input_comes_first_and_a_global_one_only_of_its_kind(
    yard: Yard, scoped: str | None, shared: str | None, shared_is_secret: bool, expected: str | None
) -> None:
    yard.market(plugin("audit", asking("store"), inputs=SECRET))
    yard.say("user", **yard.said(), installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
    if scoped is not None:
        yard.environ["A2C_SMCP_audit_acme_token"] = scoped
    if shared is not None:
        yard.environ["A2C_SMCP_token"] = shared
    config = {"name": "desk", "inputs": [glob(shared_is_secret)]}
    async with running(yard.computer(config, start_wait_s=0.0)) as computer:
        if expected is not None:
            assert await rendered(computer, "store") == expected
            return
        with pytest.raises(SmcpError) as caught:
            await rendered(computer, "store")
        assert caught.value.category == "missing_input"
        assert caught.value.input_id == "audit@acme/token"
        assert "all" not in str(caught.value)


@spec("T-INP-4", "R-INPUT-11")
async def test_t_inp_4_an_explicit_reference_never_falls_back(yard: Yard) -> None:
    yard.market(plugin("audit", asking("store", "${input:audit@acme/token}"), inputs=SECRET))
    yard.say("user", **yard.said(), installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
    yard.environ["A2C_SMCP_token"] = "all"
    async with running(yard.computer({"name": "desk", "inputs": [glob()]}, start_wait_s=0.0)) as computer:
        with pytest.raises(SmcpError) as caught:
            await rendered(computer, "store")
        assert (caught.value.category, caught.value.input_id) == ("missing_input", "audit@acme/token")


@spec("T-INP-5")
async def test_t_inp_5_two_plugins_with_one_bare_id_get_their_own_values(yard: Yard) -> None:
    yard.market(plugin("one", asking("store-one"), inputs=SECRET), plugin("two", asking("store-two"), inputs=SECRET))
    ids = ["one@acme", "two@acme"]
    yard.say("user", **yard.said(), installedPlugins=ids, enabledPlugins=dict.fromkeys(ids, True))
    yard.environ |= {"A2C_SMCP_one_acme_token": "first", "A2C_SMCP_two_acme_token": "second"}
    async with running(yard.computer(start_wait_s=0.0)) as computer:
        assert await rendered(computer, "store_one") == "first"
        assert await rendered(computer, "store_two") == "second"


# -- marketplaces and time ----------------------------------------------------------------------


@spec("T-MKT-2", "T-MKT-3", "T-PLUG-14", "R-PLUGIN-26")
async def test_what_changes_upstream_or_on_disk_waits_for_a_refresh(yard: Yard) -> None:
    market = yard.market(plugin("audit"))
    async with running(yard.computer()) as computer:
        plugins = computer.manage.plugins
        await plugins.install(AUDIT)
        await plugins.enable(AUDIT)
        market.commit({"plugins/audit/skills/more/SKILL.md": skill("more")})
        (root,) = [Path(one.root or "") for one in await plugins.list()]
        assert await computer.manage.pending_differences() == {}
        (root / "skills/work/note.txt").write_text("touched")
        assert await computer.manage.pending_differences() == {str(root): "changed"}
        assert (await seen(computer)).skills == {"audit:work"}
        result = await plugins.refresh()
        assert result.changed
        await until(lambda: skills_are(computer, {"audit:work", "audit:more"}))
        assert not (await plugins.refresh("acme")).changed
        with pytest.raises(ConfigValidationError):
            await plugins.refresh("nowhere")


async def skills_are(computer: Computer, expected: set[str]) -> bool:
    return (await seen(computer)).skills == expected


@spec("T-MKT-5", "R-LIFE-7")
async def test_a_start_with_an_unreachable_source_is_degraded_and_the_rest_works(yard: Yard) -> None:
    yard.market(plugin("audit"))
    said = yard.said()
    said["extraKnownMarketplaces"]["gone"] = {"source": {"type": "git", "url": f"file://{yard.root}/nowhere"}}
    yard.say("user", **said, installedPlugins=[AUDIT], enabledPlugins={AUDIT: True})
    async with running(yard.computer()) as computer:
        await until(lambda: computer.state == "degraded")
        assert (await seen(computer)).skills == {"audit:work"}
        lost = [(one.component, one.identity, one.category) for one in (await computer.diagnostics()).degradations]
        assert lost == [("marketplace", "gone", "network")]


@spec("R-PLUGIN-26")
async def test_what_another_computer_of_the_home_installed_can_be_enabled_at_once(yard: Yard) -> None:
    yard.market(plugin("audit"))
    async with running(yard.computer({"name": "one"})) as one, running(yard.computer({"name": "two"})) as two:
        await one.manage.plugins.install(AUDIT)
        await two.manage.plugins.enable(AUDIT)
        assert (await seen(two)).skills == {"audit:work"}
        assert (await seen(one)).skills == set()
        await one.manage.reload()
        assert (await seen(one)).skills == {"audit:work"}


@spec("R-PLUGIN-9", "T-MKT-4")
async def test_marketplaces_are_added_and_removed_while_running(yard: Yard) -> None:
    market = Repository(yard.root / "repositories/acme", catalog("acme", "audit"), plugin("audit"))
    async with running(yard.computer()) as computer:
        plugins = computer.manage.plugins
        with pytest.raises(PolicyError):
            await plugins.add_marketplace(market.url)
        await plugins.add_marketplace(market.url, trust=True)
        assert [(one.name, one.trusted, one.plugins) for one in await plugins.marketplaces()] == [
            ("acme", True, ("audit",))
        ]
        await plugins.install(AUDIT)
        await plugins.enable(AUDIT)
        assert (await seen(computer)).skills == {"audit:work"}
        await plugins.remove_marketplace("acme")
        assert (await seen(computer)).skills == set()
        assert await plugins.marketplaces() == ()
        assert not (yard.root / "home/marketplace/acme").exists()


@spec("R-LIFE-15")
async def test_a_configuration_that_installs_and_enables_is_enough(yard: Yard) -> None:
    market = Repository(yard.root / "repositories/acme", catalog("acme", "audit"), plugin("audit"))
    config = {
        "name": "desk",
        "marketplaces": {"acme": {"source": {"type": "git", "url": market.url}}},
        "installedPlugins": [AUDIT],
        "enabledPlugins": {AUDIT: True},
    }
    async with running(yard.computer({"name": "desk"})) as computer:
        await computer.sync_config(config)
        assert (await seen(computer)).skills == {"audit:work"}
        await computer.sync_config({"name": "desk"})
        assert (await seen(computer)).skills == set()


async def test_servers_of_a_plugin_that_leaves_can_be_kept_for_the_run(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")))
    async with running(yard.computer()) as computer:
        await computer.manage.plugins.install(AUDIT)
        await computer.manage.plugins.enable(AUDIT)
        before = await pid(computer, "db")
        await computer.manage.plugins.uninstall(AUDIT, keep_servers=True)
        assert await pid(computer, "db") == before
        assert (await seen(computer)).servers == {"db"}
        await computer.unmount("db")
        assert (await seen(computer)).servers == set()


@spec("R-GATE-4", "R-GATE-9", "R-SEC-5", "R-PLUGIN-29")
async def test_a_server_that_waits_for_an_approval_is_not_kept_when_its_plugin_leaves(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db"), stdio("tide", bundle_id="tide")))
    yard.say("user", **yard.said(), installedPlugins=[AUDIT])
    yard.say("project", enabledPlugins={AUDIT: True})
    async with running(yard.computer()) as computer:
        await computer.manage.approve("tide")
        assert [one.bundle_id for one in await computer.manage.pending()] == ["db"]
        await computer.manage.plugins.uninstall(AUDIT, keep_servers=True)
        assert [(one.bundle_id, one.origin) for one in await computer.manage.servers()] == [("tide", "embed")]
        assert (await seen(computer)).servers == {"tide"}
