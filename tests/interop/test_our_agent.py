"""Our Agent with an official Computer, in an office of an official Server and in one of ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.fixtures import config
from smcp_runtime.server.app import serve
from smcp_runtime.wire import events
from smcp_runtime.wire.errors import PeerError
from support.official import Official, OfficialPeer
from support.peers import Peers
from support.servers import open_options
from support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["official Server", "our Server"])
async def url(request: pytest.FixtureRequest, official: Official) -> AsyncIterator[str]:
    if request.param == "our Server":
        async with serve(options=open_options()) as running:
            yield running.url
    else:
        server = await official.server()
        yield server.facts["url"]


@pytest.fixture
async def desk(official: Official, url: str, tmp_path: Any) -> OfficialPeer:
    (server,) = config("stdio")["mcp_servers"]
    server["server_parameters"]["args"] += ["--resources", "2", "--log", str(tmp_path / "log")]
    return await official.computer(url, "lab", "desk", servers=[server])


@pytest.fixture
async def agent(url: str, desk: OfficialPeer) -> AsyncIterator[AsyncAgent]:
    async with AsyncAgent(url, name="planner", office="lab") as joined:
        yield joined


async def test_it_joins_and_sees_who_is_there(agent: AsyncAgent) -> None:
    members = (await agent.list_room()).sessions
    assert sorted((m.name, m.role) for m in members) == [("desk", "computer"), ("planner", "agent")]
    assert await agent.sole_computer() == "desk"


async def test_it_lists_and_calls_tools(agent: AsyncAgent, desk: OfficialPeer) -> None:
    listed = await agent.get_tools("desk")
    assert sorted(tool.name for tool in listed.tools) == sorted(desk.facts["tools"])
    assert {tool.bundle_id for tool in listed.tools} == {"echo_srv_display"}
    result = await agent.tool_call("desk", "echo_srv_display__add", {"a": 2, "b": 3})
    assert (result.is_error, result.structured_content, result.text) == (False, {"sum": 5}, "5")


async def test_a_tool_that_fails_is_a_result_and_not_an_exception(agent: AsyncAgent) -> None:
    result = await agent.tool_call("desk", "echo_srv_display__fail", {"text": "no"})
    assert (result.is_error, result.text) == (True, "no")


async def test_configuration_and_resources_are_read(agent: AsyncAgent) -> None:
    shown = await agent.get_config("desk")
    assert {bundle_id: server.name for bundle_id, server in shown.servers.items()} == {
        "echo_srv_display": "echo srv (display)"
    }
    page = await agent.get_resources("desk", "echo_srv_display")
    assert [item.uri for item in page.resources] == ["memo://note/0", "memo://note/1"]


@pytest.mark.spec("W-ERR-3")
async def test_protocol_errors_are_raised_with_their_code(agent: AsyncAgent) -> None:
    with pytest.raises(PeerError) as raised:
        await agent.get_resources("desk", "nobody")
    assert (raised.value.wire_code, raised.value.payload["mcp_server"]) == (4014, "nobody")
    with pytest.raises(PeerError) as raised:
        await agent.get_tools("nobody")
    assert raised.value.wire_code == 404


@pytest.mark.spec("W-CALL-15", "W-AGT-8")
async def test_cancelling_the_waiting_task_ends_the_call_at_the_mcp_server(
    agent: AsyncAgent, peers: Peers, tmp_path: Any
) -> None:
    log = peers.start(["tail", "-n", "+1", "-F", tmp_path / "log"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.tool_call, "desk", "echo_srv_display__sleep", {"seconds": 60})
        await log.line(r'"tools/call"')
        tasks.cancel_scope.cancel()
    await log.line(r"notifications/cancelled")
    assert (await agent.tool_call("desk", "echo_srv_display__echo", {"text": "still here"})).text == "still here"


async def test_notifications_arrive_and_the_tool_cache_follows(
    agent: AsyncAgent, desk: OfficialPeer, official: Official, url: str
) -> None:
    assert "echo_srv_display__echo" in [tool.name for tool in (await agent.wait_tools()).of("desk")]
    (twin, _) = config("twin")["mcp_servers"]
    entered, left = f"{events.NOTIFY_ENTER_OFFICE} late", f"{events.NOTIFY_LEAVE_OFFICE} late"
    updated = f"{events.NOTIFY_UPDATE_CONFIG} desk"
    seen: list[str] = []
    with anyio.fail_after(20):
        async with agent.notifications() as notices:
            late = await official.computer(url, "lab", "late")
            await desk.do("add", server=twin)
            await late.stop()
            # Two Computers speak here, and nothing says which of them is heard first.
            while not {entered, left, updated} <= set(seen):
                notice = await anext(notices)
                seen.append(f"{notice.event} {notice.computer}")
    await until(lambda: "fs_user__echo" in [tool.name for tool in agent.tools.of("desk")])
    assert seen.index(entered) < seen.index(left)
