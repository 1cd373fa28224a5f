"""Official Agent and official Computer in an office of our Server: they notice nothing but that it works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from smcp_runtime.fixtures import config
from smcp_runtime.server.app import serve
from smcp_runtime.server.auth import ANONYMOUS
from smcp_runtime.server.options import ServerOptions
from support.official import Official, OfficialError, OfficialPeer
from support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with serve(options=ServerOptions(auth=ANONYMOUS)) as running:
        yield running.url


@pytest.fixture
def declared(tmp_path: Any) -> list[dict[str, Any]]:
    """One server with a resource, that writes down what reaches it."""
    (server,) = config("stdio")["mcp_servers"]
    server["server_parameters"]["args"] += ["--resources", "2", "--log", str(tmp_path / "log")]
    return [server]


@pytest.fixture
async def desk(official: Official, url: str, declared: list[dict[str, Any]]) -> OfficialPeer:
    return await official.computer(url, "lab", "desk", servers=declared)


@pytest.fixture
async def planner(official: Official, url: str, desk: OfficialPeer) -> OfficialPeer:
    return await official.agent(url, "lab", "planner")


async def test_both_join_and_see_each_other(planner: OfficialPeer) -> None:
    request = {"agent": "planner", "req_id": "r-1", "office_id": "lab"}
    members = (await planner.do("raw", event="server:list_room", data=request))["sessions"]
    assert sorted((m["name"], m["role"]) for m in members) == [("desk", "computer"), ("planner", "agent")]
    assert {m["a2c_version"] for m in members} == {"0.4.0"}


async def test_tools_are_listed_and_called_through_it(planner: OfficialPeer, desk: OfficialPeer) -> None:
    listed = await planner.do("tools", computer="desk")
    assert sorted(tool["name"] for tool in listed["tools"]) == sorted(desk.facts["tools"])
    result = await planner.do(
        "call", computer="desk", tool_name="echo_srv_display__add", params={"a": 2, "b": 3}, timeout=10
    )
    assert (result["isError"], result["structuredContent"]) == (False, {"sum": 5})


async def test_fifty_calls_at_once_each_get_their_own_answer(planner: OfficialPeer) -> None:
    words = {"computer": "desk", "tool_name": "echo_srv_display__echo", "timeout": 20}
    orders = [planner.order("call", **words, params={"text": f"call {n}"}) for n in range(50)]
    for number, order in enumerate(orders):
        assert (await planner.outcome(order))["content"][0]["text"] == f"call {number}"


@pytest.mark.spec("W-CALL-13", "W-CALL-15")
async def test_a_cancel_reaches_the_official_computer(planner: OfficialPeer) -> None:
    request = {"agent": "planner", "req_id": "r-1", "computer": "desk", "tool_name": "echo_srv_display__sleep"}
    calling = planner.order("raw", event="client:tool_call", data={**request, "params": {"seconds": 60}, "timeout": 60})
    cancel = {"agent": "planner", "req_id": "r-1"}
    with anyio.fail_after(10):
        outcome: list[Any] = []

        async def wait_for_outcome() -> None:
            outcome.append(await planner.outcome(calling))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_outcome)
            while not outcome:  # a cancel that comes before the call is ignored, so it is repeated
                await planner.do("raw", event="server:tool_call_cancel", data=cancel, timeout=5)
                await anyio.sleep(0.1)
    assert outcome[0]["isError"] is True
    assert outcome[0]["meta"]["a2c_cancelled"] is True


async def test_configuration_and_resources_come_through(planner: OfficialPeer) -> None:
    shown = await planner.do("config", computer="desk")
    assert shown["servers"]["echo_srv_display"]["name"] == "echo srv (display)"
    page = await planner.do("resources", computer="desk", mcp_server="echo_srv_display")
    assert [item["uri"] for item in page["resources"]] == ["memo://note/0", "memo://note/1"]


@pytest.mark.spec("W-ERR-4")
async def test_an_error_of_the_computer_comes_through_with_its_code(planner: OfficialPeer) -> None:
    with pytest.raises(OfficialError) as raised:
        await planner.do("resources", computer="desk", mcp_server="nobody")
    assert raised.value.code == 4014


@pytest.mark.spec("W-CALL-2")
async def test_a_computer_that_is_not_there_is_an_error_at_once(planner: OfficialPeer) -> None:
    with pytest.raises(OfficialError) as raised:
        await planner.do("resources", computer="nobody", mcp_server="any")
    assert raised.value.code == 404


async def test_the_agent_is_told_who_comes_and_goes_and_what_changes(
    official: Official, url: str, planner: OfficialPeer, desk: OfficialPeer
) -> None:
    late = await official.computer(url, "lab", "late")
    assert (await planner.event("enter_office"))["data"] == {"office_id": "lab", "computer": "late"}
    await late.stop()
    assert (await planner.event("leave_office"))["data"] == {"office_id": "lab", "computer": "late"}

    (twin, _) = config("twin")["mcp_servers"]
    await desk.do("add", server=twin)
    assert (await planner.event("update_config"))["data"]["computer"] == "desk"
    await planner.peer.line(r'"tools_received".*fs_user__echo')
    await desk.do("update_tool_list")
    assert (await planner.event("update_tool_list"))["data"]["computer"] == "desk"


@pytest.mark.spec("W-CALL-2", "F-11")
async def test_calls_in_flight_end_at_once_when_the_official_computer_is_killed(
    planner: OfficialPeer, desk: OfficialPeer, peers: Any, tmp_path: Any
) -> None:
    words = {"computer": "desk", "tool_name": "echo_srv_display__sleep", "params": {"seconds": 60}, "timeout": 60}
    orders = [planner.order("call", **words) for _ in range(20)]
    log = peers.start(["tail", "-n", "+1", "-F", tmp_path / "log"])
    await until(lambda: sum('"tools/call"' in line for line in log.lines) == len(orders))
    desk.peer.kill()
    with anyio.fail_after(5):
        for order in orders:
            assert "404" in str(await planner.outcome(order))
