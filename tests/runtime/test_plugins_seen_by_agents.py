"""What an Agent notices of plugins and their management: changes, in order; and no way in (R-MGMT-1, R-SEC-4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.wire.errors import SmcpError
from smcp_runtime.wire.events import CALLS
from support.marketplaces import plugin, stdio
from support.recording_server import RecordingServer
from support.waiting import until

from .test_plugins import AUDIT, Yard, nothing_of, running, tools_are

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
REQUEST: dict[str, Any] = {"agent": "a", "req_id": "r", "computer": "desk"}
UPDATES = ("server:update_config", "server:update_skills", "server:update_tool_list", "server:update_desktop")
SOME_OF_EACH = {
    "tool_name": "db__echo",
    "params": {"text": "x"},
    "timeout": 5,
    "name": "audit:work",
    "rel_path": "SKILL.md",
    "handle": "0" * 64,
    "uri": "dpe://nowhere/x",
    "mcp_server": "db",
}
MANAGEMENT = {
    "operation": "plugin.enable",
    "plugin_id": AUDIT,
    "scope": "user",
    "bundle_id": "db",
    "server": {"name": "evil", "type": "stdio", "server_parameters": {"command": "true"}},
    "url": "https://evil.example/x.git",
    "trust": True,
    "patch": {"enabledPlugins": {AUDIT: True}},
    "enabledPlugins": {AUDIT: True},
}


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


async def answers(server: RecordingServer, more: Mapping[str, Any] = {}) -> dict[str, Any]:
    """What the Computer says to every event an Agent can cause."""
    return {event: await server.ask(event, {**SOME_OF_EACH, **REQUEST, **more}) for event in CALLS}


def files(yard: Yard) -> dict[str, bytes]:
    kept = (path for path in yard.root.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path): path.read_bytes() for path in kept if not {"state", ".git"} & set(path.parts)}


@spec("T-PLUG-1", "T-PLUG-2", "R-PROJ-3", "R-PLUGIN-20")
async def test_an_agent_hears_nothing_of_an_install_and_of_an_enable_once_skills_and_servers_are_there(
    yard: Yard,
) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db", disabled=True)))
    async with RecordingServer() as server, running(yard.computer(coalesce_ms=20)) as computer:
        await computer.connect(server.url, office="lab")
        await server.until(lambda: "server:join_office" in server.named())
        await computer.manage.plugins.install(AUDIT)
        await computer.manage.plugins.disable(AUDIT)
        server.events.clear()
        await computer.manage.plugins.enable(AUDIT)
        await server.until(lambda: {"server:update_config", "server:update_skills"} <= set(server.named(*UPDATES)))
        # Both are told, and whoever asks at the first of them sees all of it.
        config = await server.ask("client:get_config", REQUEST)
        skills = await server.ask("client:get_skills", REQUEST)
        assert list(config["servers"]) == ["db"]
        assert [one["name"] for one in skills["skills"]] == ["audit:work"]
        told = server.named(*UPDATES)
        assert (told.count("server:update_config"), told.count("server:update_skills")) == (1, 1)


@spec("T-PLUG-2", "R-PROJ-3")
async def test_an_agent_that_asks_at_the_first_notice_sees_skills_and_servers_together(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db", disabled=True)))
    async with RecordingServer() as server, running(yard.computer(coalesce_ms=0)) as computer:
        await computer.connect(server.url, office="lab")
        await computer.manage.plugins.install(AUDIT)
        for enabled in (True, False):
            server.events.clear()
            await (computer.manage.plugins.enable if enabled else computer.manage.plugins.disable)(AUDIT)
            await server.until(lambda: bool(server.named("server:update_config", "server:update_skills")))
            config = await server.ask("client:get_config", REQUEST)
            skills = await server.ask("client:get_skills", REQUEST)
            assert (bool(config["servers"]), bool(skills["skills"])) == (enabled, enabled)


@spec("R-PLUGIN-31", "T-ORIG-8", "R-PLUGIN-27")
async def test_a_server_that_only_a_disabled_plugin_still_declares_is_neither_shown_nor_callable(yard: Yard) -> None:
    shared = stdio("store", bundle_id="db")
    yard.market(plugin("one", shared), plugin("two", shared))
    async with RecordingServer() as server, running(yard.computer()) as computer:
        await computer.connect(server.url, office="lab")
        plugins = computer.manage.plugins
        for name in ("one", "two"):
            await plugins.install(f"{name}@acme")
        await plugins.enable("one@acme")
        await until(lambda: tools_are(computer, {"db__echo"}))
        call = {**REQUEST, "tool_name": "db__echo", "params": {"text": "x"}, "timeout": 5}
        assert not (await server.ask("client:tool_call", call)).get("isError")
        await plugins.disable("one@acme")
        assert (await server.ask("client:tool_call", {**call, "req_id": "r2"}))["isError"]
        assert (await server.ask("client:get_config", REQUEST))["servers"] == {}
        assert (await server.ask("client:get_tools", REQUEST))["tools"] == []
        await until(lambda: nothing_of(computer, "db"))
        for name in ("one", "two"):
            await plugins.uninstall(f"{name}@acme")
        assert await computer.manage.servers() == ()


@spec("T-SEC-1", "R-MGMT-1", "R-SEC-4")
async def test_nothing_an_agent_sends_manages_anything(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")))
    async with RecordingServer() as server, running(yard.computer()) as computer:
        await computer.connect(server.url, office="lab")
        await computer.manage.plugins.install(AUDIT)
        before = files(yard)
        standing = (
            await computer.manage.plugins.list(),
            await computer.manage.servers(),
            await computer.manage.settings(),
        )
        await answers(server, MANAGEMENT)
        for event in (
            "client:enable_plugin",
            "client:manage",
            "server:manage",
            "notify:manage",
            "plugin.enable",
            "manage",
        ):
            await server.tell(event, {**REQUEST, **MANAGEMENT})
        await answers(server)
        assert files(yard) == before
        assert standing == (
            await computer.manage.plugins.list(),
            await computer.manage.servers(),
            await computer.manage.settings(),
        )
        assert computer.state == "joined_office"


@spec("T-SEC-2", "R-ERR-2")
async def test_no_path_of_a_failed_operation_is_in_anything_an_agent_gets(yard: Yard) -> None:
    yard.market(plugin("audit", stdio("store", bundle_id="db")), plugin("bad", {"name": "x", "type": "nonsense"}))
    said = yard.said()
    said["extraKnownMarketplaces"]["gone"] = {"source": {"type": "git", "url": f"file://{yard.root}/nowhere"}}
    yard.say("user", **said)
    async with RecordingServer() as server, running(yard.computer()) as computer:
        await computer.connect(server.url, office="lab")
        plugins = computer.manage.plugins
        failures = [
            lambda: plugins.install("bad@acme"),
            lambda: plugins.refresh("gone"),
            lambda: plugins.add_marketplace(f"file://{yard.root}/nothing.zip", "zip", trust=True),
        ]
        for operation in failures:
            with pytest.raises(SmcpError):
                await operation()
        settings = yard.root / "config/settings.json"
        settings.write_text("{")
        with pytest.raises(SmcpError) as caught:
            await plugins.install(AUDIT)
        assert str(settings) in str(caught.value)
        shown = json.dumps(await answers(server)) + json.dumps(server.events)
        assert str(yard.root) not in shown
