"""Our Agent and our Computer in an office of an official Server: what only they know of each other still works."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import PeerError
from support.official import Official, OfficialPeer
from support.stack import QUICK, config, light, options
from support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(official: Official) -> OfficialPeer:
    return await official.server()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "heard"
    path.touch()
    return path


@pytest.fixture
async def desk(server: OfficialPeer, log: Path) -> AsyncIterator[Computer]:
    tools = "echo,add,fail,sleep,big,binary,die"
    main = light("Main (display)", "--resources", "3", "--page-size", "2", "--log", str(log), tools=tools)
    main["bundle_id"] = "main"
    main["server_parameters"]["env"] = {"KEY": "typed-s3cret"}
    async with Computer.from_config(config(main, light("bare")), options()) as computer:
        await computer.connect(server.facts["url"], office="lab")
        yield computer


@pytest.fixture
async def agent(server: OfficialPeer, desk: Computer) -> AsyncIterator[AsyncAgent]:
    async with AsyncAgent(server.facts["url"], name="planner", office="lab", backoff=QUICK, tool_margin=0.5) as joined:
        await until(lambda: {"main__echo", "bare__echo"} <= {tool.name for tool in joined.tools.of(desk.name)}, 15)
        yield joined


def heard(log: Path) -> str:
    """What the MCP server `main` wrote down of what reached it."""
    return log.read_text("utf-8")


@pytest.mark.spec("W-HS-1", "W-ROOM-19", "W-ROOM-40", "DEC-17")
async def test_both_join_over_websocket_and_see_each_other(agent: AsyncAgent, desk: Computer) -> None:
    members = (await agent.list_room()).sessions
    assert sorted((m.name, m.role) for m in members) == [("desk", "computer"), ("planner", "agent")]
    assert (agent.transport, (await desk.diagnostics()).link.transport) == ("websocket", "websocket")


@pytest.mark.spec("E-1", "E-2", "W-REL-2", "C-1", "C-2")
async def test_tools_are_listed_and_called(agent: AsyncAgent) -> None:
    listed = (await agent.get_tools("desk")).tools
    assert [tool.name for tool in listed][:2] == ["bare__echo", "main__add"]
    result = await agent.tool_call("desk", "main__add", {"a": 2, "b": 3})
    assert (result.is_error, result.structured_content, result.text) == (False, {"sum": 5}, "5")
    failed = await agent.tool_call("desk", "main__fail", {"text": "no"})
    assert (failed.is_error, failed.text, failed.error_code) == (True, "no", None)


@pytest.mark.spec("C-3", "C-6", "DEC-10", "W-REL-1")
async def test_codes_and_outcomes_of_failed_calls_come_through(agent: AsyncAgent) -> None:
    unknown = await agent.tool_call("desk", "main__nothing")
    assert (unknown.error_code, unknown.outcome) == (4001, "not_executed")
    lost = await agent.tool_call("desk", "main__die", timeout=10)
    assert (lost.error_code, lost.outcome, lost.meta["mcp_server"]) == (4003, "unknown", "main")


@pytest.mark.spec("C-7", "W-CALL-11", "W-D-2", "W-D-4")
async def test_a_call_over_its_limit_ends_in_time_although_the_server_swallows_the_answer(
    agent: AsyncAgent, log: Path
) -> None:
    began = time.monotonic()
    result = await agent.tool_call("desk", "main__sleep", {"seconds": 60}, timeout=1)
    assert time.monotonic() - began < 3
    assert (result.is_error, result.failure, result.outcome) == (True, "timed_out", "unknown")
    await until(lambda: "notifications/cancelled" in heard(log))
    assert (await agent.tool_call("desk", "main__echo", {"text": "still here"})).text == "still here"


@pytest.mark.spec("C-8", "W-CALL-13", "W-CALL-14", "W-CALL-15", "W-AGT-5", "W-AGT-8")
async def test_a_call_is_cancelled_by_its_id_and_by_its_task(agent: AsyncAgent, log: Path) -> None:
    results = []
    req_id = agent.new_req_id()

    async def wait_for_it() -> None:
        results.append(await agent.tool_call("desk", "main__sleep", {"seconds": 60}, timeout=60, req_id=req_id))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_it)
            await until(lambda: '"tools/call"' in heard(log))
            await agent.cancel(req_id)
    assert (results[0].failure, results[0].meta["a2c_cancel_reason"]) == ("cancelled", "agent_requested")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.tool_call, "desk", "main__sleep", {"seconds": 60})
        await until(lambda: heard(log).count('"tools/call"') == 2)
        tasks.cancel_scope.cancel()
    await until(lambda: heard(log).count("notifications/cancelled") == 2)


@pytest.mark.spec("E-3", "E-5", "W-CFG-4", "W-RES-1", "W-RES-2", "W-ERR-3")
async def test_configuration_and_resources_are_read(agent: AsyncAgent) -> None:
    shown = await agent.get_config("desk")
    assert {bundle_id: one.name for bundle_id, one in shown.servers.items()} == {
        "main": "Main (display)",
        "bare": "bare",
    }
    assert "s3cret" not in str(shown)
    page = await agent.get_resources("desk", "main")
    assert [item.uri for item in page.resources] == ["memo://note/0", "memo://note/1"]
    assert isinstance(page.next_cursor, str)
    rest = await agent.get_resources("desk", "main", page.next_cursor)
    assert [item.uri for item in rest.resources] == ["memo://note/2"]
    for server, code in (("nobody", 4014), ("bare", 4015)):
        with pytest.raises(PeerError) as raised:
            await agent.get_resources("desk", server)
        assert (raised.value.wire_code, raised.value.payload["mcp_server"]) == (code, server)


@pytest.mark.spec("W-CALL-24", "W-CALL-26", "DEC-18", "C-BLOB-27")
async def test_large_results_come_whole(agent: AsyncAgent) -> None:
    image = await agent.tool_call("desk", "main__binary", {"bytes": 700_000}, timeout=20)
    assert (image.unresolved, len(image.content[0]["data"])) == ((), 933_336)
    text = await agent.tool_call("desk", "main__big", {"bytes": 3_000_000}, timeout=20)
    assert (text.unresolved, text.is_error) == ((), False)
    assert "x" * 3_000_000 in text.text


@pytest.mark.spec("E-22", "E-23", "W-CMP-4", "W-AGT-2", "DEC-27")
async def test_the_tool_cache_follows_mounts_the_office_and_the_way_back(agent: AsyncAgent, desk: Computer) -> None:
    def known() -> list[str]:
        return [tool.name for tool in agent.tools.of("desk")]

    await desk.mount(light("late"))
    await until(lambda: "late__echo" in known())
    await desk.unmount("late")
    await until(lambda: "late__echo" not in known())
    await desk.leave()
    await until(lambda: not known())
    await desk.join("lab")
    await until(lambda: "main__echo" in known())
    assert desk.kill_actor("socket")
    await until(lambda: not known())
    await until(lambda: "main__echo" in known())
    assert (await agent.tool_call("desk", "main__echo", {"text": "back"})).text == "back"


@pytest.mark.spec("DEC-17", "F-78", "W-ROOM-27", "W-AGT-10", "R-LIFE-13")
async def test_both_are_back_after_the_server_was_killed_and_started_again(
    agent: AsyncAgent, desk: Computer, server: OfficialPeer, official: Official
) -> None:
    port = int(server.facts["url"].rpartition(":")[2])
    server.peer.kill()
    await until(lambda: desk.phase != "joined_office" and agent.state != "joined")
    await official.server(port)
    with anyio.fail_after(20):
        await desk.wait_for("joined_office")
        await agent.wait_joined()
    await until(lambda: "main__echo" in [tool.name for tool in agent.tools.of("desk")])
    assert (await agent.tool_call("desk", "main__echo", {"text": "back"})).text == "back"
