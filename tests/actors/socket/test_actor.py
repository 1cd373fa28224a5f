"""The SocketActor between a real Socket.IO server and stand-ins for its neighbours."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.socket import actor
from smcp_runtime.wire.errors import (
    AuthError,
    ConfigValidationError,
    ConflictError,
    NetworkError,
    PolicyError,
    ProtocolVersionError,
)
from smcp_runtime.wire.messages.projection import Committed
from smcp_runtime.wire.messages.socket import Connect, Disconnect, GetLinkStatus, Join, Leave, LinkTarget

from .conftest import RECONCILE, SOCKET, TOOLS, Stage, stage

pytestmark = pytest.mark.anyio

BASE = {"agent": "a", "req_id": "q1", "computer": "desk"}


@pytest.mark.spec("R-LIFE-10", "W-HS-1", "W-HS-3", "T-CONN-1", "W-AUTH-3")
async def test_the_first_request_polls_with_our_version_and_the_auth_object_is_the_callers() -> None:
    async with stage(auth={"token": "t-1"}) as desk:
        await desk.ask(Connect(LinkTarget(desk.server.url + "?tenant=7&a2c_version=9.9.9")))
        first = desk.server.handshakes[0]
        assert (first["transport"], first["a2c_version"], first["tenant"]) == ("polling", "0.4.0", "7")
        assert desk.server.connects[0][0] == {"token": "t-1"}


@pytest.mark.spec("R-LIFE-11", "T-CONN-2", "E-10")
async def test_a_join_names_role_office_and_computer(desk: Stage) -> None:
    status = await desk.join("lab")
    assert desk.server.events == [("server:join_office", {"role": "computer", "name": "desk", "office_id": "lab"})]
    assert (status.phase, status.office) == ("joined", "lab")


@pytest.mark.spec("R-LIFE-12", "T-CONN-3", "H-11", "W-HS-4")
@pytest.mark.parametrize(
    ("body", "known"),
    [
        (b'{"code":4008,"message":"m","server_version":"1.0.0","client_version":"0.4.0"}', "1.0.0"),
        (b'{"code": 4008', None),
    ],
)
async def test_a_refused_version_is_raised_once_and_never_tried_again(
    desk: Stage, body: bytes, known: str | None
) -> None:
    desk.server.refusal = (400, body, {"X-A2C-Error-Code": "4008"})
    with pytest.raises(ProtocolVersionError) as refused:
        await desk.connect()
    assert refused.value.server_version == known
    assert len(desk.server.handshakes) == 1
    assert (await desk.ask(GetLinkStatus())).phase == "offline"


@pytest.mark.spec("R-LIFE-12", "T-CONN-4", "W-AUTH-8", "W-CMP-1")
async def test_credentials_network_and_join_fail_as_different_errors(desk: Stage) -> None:
    desk.server.admit = False
    with pytest.raises(AuthError):
        await desk.connect()
    desk.server.admit = True
    with pytest.raises(NetworkError):
        await desk.ask(Connect(LinkTarget("http://127.0.0.1:1")))
    await desk.connect()
    for text, error in [("[403] taken", ConflictError), ("taken", ConflictError), ("[4104] no", PolicyError)]:
        desk.server.on_join = lambda _request, text=text: (False, text)  # type: ignore[misc]
        with pytest.raises(error) as refused:
            await desk.ask(Join("lab"))
        assert refused.value.code == "join_failed"
        assert (await desk.ask(GetLinkStatus())).phase == "connected"


@pytest.mark.spec("R-LIFE-22")
async def test_a_role_in_the_auth_object_is_refused_before_anything_is_sent() -> None:
    async with stage(auth=lambda: {"role": "computer"}) as desk:
        with pytest.raises(ConfigValidationError):
            await desk.connect()
        assert desk.server.handshakes == []


@pytest.mark.spec("W-CMP-2", "E-1", "E-2", "E-3", "W-EVT-1")
async def test_calls_and_lists_are_answered_with_the_bytes_of_their_owner(desk: Stage) -> None:
    await desk.join()
    assert await desk.call(params={"x": 1}) == {"content": [], "isError": False, "n": 1.0}
    assert desk.book.calls[0].params.data == b'{"x":1}'
    assert (desk.book.calls[0].tool_name, desk.book.calls[0].timeout) == ("s__t", 5)
    assert await desk.server.ask("client:get_tools", BASE) == {"tools": [{"name": "s__t"}], "req_id": "q1"}
    assert await desk.server.ask("client:get_config", BASE) == {"servers": {}, "inputs": []}


@pytest.mark.spec("W-EVT-3")
async def test_an_unknown_event_is_answered_with_nothing(desk: Stage) -> None:
    await desk.join()
    assert await desk.server.ask("client:from_the_future", BASE) is None


@pytest.mark.spec("W-EVT-2", "C-GEN-2")
@pytest.mark.parametrize("event", ["client:tool_call", "client:get_tools"])
async def test_a_request_for_another_computer_is_not_executed(desk: Stage, event: str) -> None:
    await desk.join()
    request = {**BASE, "computer": "other", "tool_name": "t", "params": {}, "timeout": 5}
    answer = await desk.server.ask(event, request)
    assert answer == {
        "code": 404,
        "message": "Computer with name 'other' not found",
        "details": {"computer_name": "other"},
    }
    assert desk.book.calls == []


@pytest.mark.spec("W-RES-2", "E-5")
@pytest.mark.parametrize("named", ["nope", "", "a b", "../tools", "a\nb", "x" * 100_000 + "é"])
async def test_resources_of_a_server_that_is_not_there_are_4014_and_no_dead_letter(desk: Stage, named: str) -> None:
    await desk.join()
    answer = await desk.server.ask("client:get_resources", {**BASE, "mcp_server": named})
    assert (answer["code"], answer["mcp_server"]) == (4014, named)
    assert not [letter for letter in desk.bus.dead_letters.recent if letter.target.startswith("mcp/")]


@pytest.mark.spec("C-10", "W-CALL-4")
async def test_a_malformed_request_is_answered_and_does_not_reach_the_tools(desk: Stage) -> None:
    await desk.join()
    assert (await desk.call(timeout=0))["meta"]["error_code"] == 400
    assert (await desk.server.ask("client:get_tools", {"agent": "a"}))["code"] == 400
    assert (await desk.server.ask("client:get_tools", "nonsense"))["code"] == 400
    assert desk.book.calls == []


@pytest.mark.spec("R-LIFE-3")
async def test_outside_an_office_nothing_is_executed(desk: Stage) -> None:
    await desk.connect()
    result = await desk.call()
    assert result["meta"] == {"error_code": 4003, "a2c_outcome": "not_executed"}
    assert (await desk.server.ask("client:get_tools", BASE))["code"] == 404
    assert desk.book.calls == []


@pytest.mark.spec("W-ROOM-31")
async def test_requests_are_served_before_the_join_is_acknowledged(desk: Stage) -> None:
    early: list[Any] = []

    async def ask_at_once() -> None:
        early.append(await desk.server.ask("client:get_tools", BASE))

    desk.server.before_join_ack = ask_at_once
    await desk.join()
    assert early == [{"tools": [{"name": "s__t"}], "req_id": "q1"}]


@pytest.mark.spec("W-ARCH-6", "W-CALL-14", "W-CALL-17", "E-26")
async def test_a_cancel_passes_a_hundred_running_calls(desk: Stage) -> None:
    await desk.join()
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(desk.call("wait", req_id=f"r{n}")) for n in range(100)]
        await desk.until(lambda: len(desk.book.calls) == 100)
        await desk.server.tell("notify:tool_call_cancel", {"agent": "a", "req_id": "r42"})
        await desk.server.tell("notify:tool_call_cancel", {"nonsense": 1})
        await desk.until(lambda: desk.book.cancels)
        assert desk.book.cancels == ["r42"]
        desk.book.released.set()
    assert all(task.result()["isError"] is False for task in running)


@pytest.mark.spec("F-82")
async def test_fifty_calls_that_finish_in_reverse_order_each_get_their_own_answer(desk: Stage) -> None:
    await desk.join()
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(desk.call("wait", req_id="slow"))
        await desk.until(lambda: desk.book.calls)
        for number in range(50):
            answer = await desk.server.ask("client:get_tools", {**BASE, "req_id": f"n{number}"})
            assert answer["req_id"] == f"n{number}"
        desk.book.released.set()
    assert slow.result()["content"] == []


@pytest.mark.spec("W-CMP-2", "DEC-35", "F-95")
async def test_a_crash_behind_a_request_is_an_answer_without_the_text_of_the_crash(desk: Stage) -> None:
    await desk.join()
    result = await desk.call("boom")
    assert result["meta"] == {"error_code": 4003, "a2c_outcome": "unknown"}
    assert "secret" not in str(result)


@pytest.mark.spec("DEC-35")
async def test_while_the_tool_actor_is_gone_calls_are_answered_at_once_and_lists_wait_for_its_return(
    desk: Stage,
) -> None:
    await desk.join()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(desk.call("wait", req_id="lost"))
        await desk.until(lambda: desk.book.calls)
        assert desk.supervisor.kill_child(TOOLS)
        listed = group.create_task(desk.server.ask("client:get_tools", BASE))
    assert running.result()["meta"] == {"error_code": 4003, "a2c_outcome": "unknown"}
    assert listed.result()["tools"] == [{"name": "s__t"}]
    assert (await desk.call())["isError"] is False


@pytest.mark.spec("R-PROJ-4", "R-PROJ-6", "W-EVT-13", "E-14", "E-15")
async def test_a_burst_of_commits_becomes_one_update_of_each_type_naming_only_the_computer(desk: Stage) -> None:
    await desk.join()
    for number in range(20):
        desk.commit("tool_list", "config", number=number)
    await desk.server.until(lambda: len(desk.server.named()) >= 3)
    await desk.quiet()
    assert desk.server.events[1:] == [
        ("server:update_config", {"computer": "desk"}),
        ("server:update_tool_list", {"computer": "desk"}),
    ]


@pytest.mark.spec("R-PROJ-7", "T-CONN-5", "W-EVT-13")
async def test_changes_made_outside_an_office_are_announced_once_after_the_join_and_never_before(desk: Stage) -> None:
    desk.commit("tool_list")
    await desk.connect()
    desk.commit("config")
    desk.commit("config")
    await desk.quiet()
    assert desk.server.named() == []
    await desk.ask(Join("lab"))
    await desk.server.until(lambda: len(desk.server.named()) >= 3)
    await desk.quiet()
    assert desk.server.named() == ["server:join_office", "server:update_config", "server:update_tool_list"]


@pytest.mark.spec("R-PROJ-7", "T-STOP-1", "R-LIFE-14")
async def test_after_leaving_no_change_is_announced_to_the_former_office(desk: Stage) -> None:
    await desk.join()
    desk.commit("config")
    await desk.ask(Leave(0.1))
    desk.commit("tool_list")
    await desk.quiet()
    assert desk.server.named() == ["server:join_office", "server:leave_office"]
    assert (await desk.ask(GetLinkStatus())).unannounced == ("config", "tool_list")


@pytest.mark.spec("DEC-17", "R-LIFE-13", "W-ROOM-27", "DEC-27", "F-78")
async def test_after_a_lost_connection_the_office_is_joined_once_more_and_what_is_filled_announced(
    desk: Stage,
) -> None:
    await desk.join()
    desk.commit("config", "tool_list")
    await desk.server.until(lambda: len(desk.server.named()) == 3)
    desk.server.events.clear()
    await desk.server.kick()
    await desk.server.until(lambda: "server:update_tool_list" in desk.server.named())
    await desk.quiet()
    assert desk.server.named() == [
        "disconnect",
        "server:join_office",
        "server:update_config",
        "server:update_tool_list",
    ]
    assert [change.phase for change in desk.changes][-3:] == ["connecting", "connected", "joined"]
    assert desk.changes[-1].restored
    numbers = [change.number for change in desk.changes]
    assert numbers == sorted(set(numbers))


@pytest.mark.spec("F-78")
async def test_a_restarted_server_is_joined_once_and_hears_what_changed_meanwhile(desk: Stage) -> None:
    await desk.join()
    await desk.server.stop()
    for number in range(50):
        desk.commit("tool_list", number=number)
    desk.server.events.clear()
    await desk.server.start()
    await desk.server.until(lambda: "server:update_tool_list" in desk.server.named(), timeout=10)
    await desk.quiet()
    assert [name for name in desk.server.named() if name != "disconnect"] == [
        "server:join_office",
        "server:update_tool_list",
    ]


@pytest.mark.spec("R-LIFE-14", "DEC-26")
async def test_calls_of_a_lost_connection_are_interrupted_after_the_grace(desk: Stage) -> None:
    await desk.join()
    call = asyncio.ensure_future(desk.call("wait"))
    await desk.until(lambda: desk.book.calls)
    await desk.server.kick()
    await desk.until(lambda: desk.book.interrupted == ["r1"])
    await desk.until(lambda: desk.changes[-1].phase == "joined")
    assert (await desk.ask(GetLinkStatus())).in_flight == 0
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.spec("DEC-13", "DEC-26", "W-CMP-5", "F-83")
async def test_leaving_lets_a_call_finish_and_its_answer_goes_out_before_the_leave(desk: Stage) -> None:
    await desk.join()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(desk.call("wait"))
        await desk.until(lambda: desk.book.calls)
        leaving = group.create_task(desk.ask(Leave(2.0)))
        await desk.until(lambda: desk.book.drains)
        refused = await desk.server.ask("client:get_tools", BASE)
        assert refused["code"] == 404
        assert "server:leave_office" not in desk.server.named()
        desk.book.released.set()
    assert call.result()["isError"] is False
    assert leaving.result() is None
    assert desk.server.named() == ["server:join_office", "server:leave_office"]
    assert desk.book.resumed == 1


@pytest.mark.spec("DEC-26", "R-LIFE-14", "F-83")
async def test_disconnecting_answers_what_still_runs_leaves_and_ends_the_connection(desk: Stage) -> None:
    await desk.join()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(desk.call("wait"))
        await desk.until(lambda: desk.book.calls)
        await desk.ask(Disconnect(0.1))
    assert call.result()["isError"] is False
    await desk.server.until(lambda: "disconnect" in desk.server.named())
    assert desk.server.named() == ["server:join_office", "server:leave_office", "disconnect"]
    assert (await desk.ask(GetLinkStatus())).phase == "offline"


@pytest.mark.spec("F-83")
async def test_disconnecting_from_a_dead_network_still_ends_in_time(desk: Stage) -> None:
    await desk.join()
    await desk.server.stop()
    with anyio.fail_after(3):
        await desk.ask(Disconnect(0.1))
    assert (await desk.ask(GetLinkStatus())).phase == "offline"


@pytest.mark.spec("DEC-1", "DEC-17")
async def test_a_killed_actor_hangs_up_comes_back_and_joins_again(desk: Stage) -> None:
    await desk.join()
    desk.book.filled = ("config",)
    desk.server.events.clear()
    assert desk.supervisor.kill_child(SOCKET)
    await desk.server.until(lambda: "server:update_config" in desk.server.named())
    assert desk.server.named() == ["disconnect", "server:join_office", "server:update_config"]
    assert (await desk.call())["isError"] is False


async def returning(desk: Stage) -> None:
    """An actor that was in the office and restarted while the Server is away."""
    await desk.join()
    await desk.server.stop()
    assert desk.supervisor.kill_child(SOCKET)
    until_now = len(desk.changes)
    await desk.until(lambda: len(desk.changes) > until_now + 4)
    desk.server.events.clear()


@pytest.mark.spec("R-LIFE-14", "DEC-17")
async def test_who_disconnects_an_actor_on_its_way_back_never_sees_it_return(desk: Stage) -> None:
    await returning(desk)
    status = await desk.ask(GetLinkStatus())
    assert (status.phase, status.office) == ("connecting", "lab")
    with pytest.raises(ConflictError):
        await desk.connect()
    await desk.ask(Disconnect(0.1))
    assert (await desk.ask(GetLinkStatus())).phase == "offline"
    before = len(desk.server.handshakes)
    await desk.server.start()
    await desk.quiet()
    assert len(desk.server.handshakes) == before
    await desk.join("den")
    assert desk.server.named() == ["server:join_office"]


@pytest.mark.spec("R-LIFE-14", "DEC-17")
async def test_who_leaves_with_an_actor_on_its_way_back_returns_to_the_server_only(desk: Stage) -> None:
    await returning(desk)
    await desk.ask(Leave(0.1))
    await desk.server.start()
    await desk.until(lambda: desk.changes[-1].phase == "connected")
    await desk.quiet()
    assert desk.server.named() == []
    assert (await desk.ask(GetLinkStatus())).office is None


@pytest.mark.spec("R-LIFE-14")
async def test_a_leave_that_meets_the_join_of_a_return_waits_for_it_and_leaves(desk: Stage) -> None:
    await desk.join()
    desk.server.events.clear()
    answered = anyio.Event()
    desk.server.before_join_ack = answered.wait
    assert desk.supervisor.kill_child(SOCKET)
    await desk.server.until(lambda: "server:join_office" in desk.server.named())
    async with asyncio.TaskGroup() as group:
        group.create_task(desk.ask(Leave(0.1)))
        await desk.until(desk.is_shut)
        answered.set()
    assert desk.server.named() == ["disconnect", "server:join_office", "server:leave_office"]
    assert (await desk.ask(GetLinkStatus())).phase == "connected"


@pytest.mark.spec("R-LIFE-14", "DEC-26")
async def test_a_leave_nobody_waits_for_any_longer_still_leaves(desk: Stage) -> None:
    await desk.join()
    async with asyncio.TaskGroup() as group:
        call = group.create_task(desk.call("wait"))
        await desk.until(lambda: desk.book.calls)
        leaving = asyncio.create_task(desk.ask(Leave(60.0), timeout=70))
        await desk.until(lambda: desk.book.drains)
        leaving.cancel()
        await desk.server.until(lambda: "server:leave_office" in desk.server.named())
    assert call.result()["meta"]["a2c_outcome"] == "unknown"
    await desk.until(lambda: desk.book.resumed)
    status = await desk.ask(GetLinkStatus())
    assert (status.phase, status.office, status.in_flight) == ("connected", None, 0)


@pytest.mark.spec("R-LIFE-14", "DEC-17")
async def test_a_leave_nobody_waits_for_leaves_once_the_join_it_met_is_answered(
    desk: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "GOODBYE_LIMIT", 0.02)
    await desk.join()
    desk.server.events.clear()
    answered = anyio.Event()
    desk.server.before_join_ack = answered.wait
    await desk.server.kick()
    await desk.server.until(lambda: "server:join_office" in desk.server.named())
    leaving = asyncio.create_task(desk.ask(Leave(0.1)))
    await desk.until(desk.is_shut)
    leaving.cancel()
    await desk.until(lambda: desk.book.resumed)
    answered.set()
    await desk.server.until(lambda: "server:leave_office" in desk.server.named())
    await desk.until(lambda: desk.changes[-1].phase == "connected")
    assert (await desk.ask(GetLinkStatus())).office is None


@pytest.mark.spec("DEC-27", "DEC-17")
async def test_back_after_a_death_together_with_reconcile_the_first_commit_is_announced_as_a_whole(desk: Stage) -> None:
    await desk.join()
    await desk.supervisor.stop_child(RECONCILE)
    desk.server.events.clear()
    assert desk.supervisor.kill_child(SOCKET)
    await desk.server.until(lambda: "server:join_office" in desk.server.named())
    desk.bus.publish(Committed(9, (), ("config", "skills")))
    await desk.server.until(lambda: "server:update_skills" in desk.server.named())
    assert desk.server.named() == ["disconnect", "server:join_office", "server:update_config", "server:update_skills"]
    desk.bus.publish(Committed(10, ("config",), ("config", "skills")))
    await desk.server.until(lambda: len(desk.server.named()) > 4)
    await desk.quiet()
    assert desk.server.named()[4:] == ["server:update_config"]


@pytest.mark.spec("DEC-18", "C-GEN-7")
async def test_an_answer_too_large_for_a_packet_is_an_error_and_the_connection_stays(desk: Stage) -> None:
    desk.book.tools = b'["' + b"x" * 1_000_000 + b'"]'
    await desk.join()
    assert (await desk.server.ask("client:get_tools", BASE))["code"] == 500
    assert (await desk.call())["isError"] is False
    assert "disconnect" not in desk.server.named()


@pytest.mark.spec("W-ARCH-6", "C-13")
async def test_more_requests_than_the_limit_are_refused_and_a_cancel_still_gets_through() -> None:
    async with stage(in_flight=5) as desk:
        await desk.join()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(desk.call("wait", req_id=f"r{n}")) for n in range(5)]
            await desk.until(lambda: len(desk.book.calls) == 5)
            busy = await desk.call(req_id="one-more")
            assert busy["meta"] == {"error_code": 4003, "a2c_busy": True, "a2c_outcome": "not_executed"}
            await desk.server.tell("notify:tool_call_cancel", {"agent": "a", "req_id": "r3"})
            await desk.until(lambda: desk.book.cancels == ["r3"])
            desk.book.released.set()
        assert all(task.result()["isError"] is False for task in running)


@pytest.mark.spec("R-LIFE-12")
async def test_a_version_refused_on_a_reconnect_ends_the_link_and_says_why(desk: Stage) -> None:
    await desk.join()
    desk.server.refusal = (400, b'{"code":4008,"message":"m"}', {})
    await desk.server.kick()
    await desk.until(lambda: desk.changes[-1].phase == "offline")
    failure = desk.changes[-1].error
    assert failure is not None
    assert failure.kind == "ProtocolVersionError"
    assert (await desk.ask(GetLinkStatus())).phase == "offline"
