"""Requests and answers over a transport that the test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest
from mcp import MCPError

from smcp_runtime.actors.mcp.failures import (
    ConnectionLost,
    ErrorAnswer,
    RequestFailed,
    TimeLimitReached,
    UnusableAnswer,
)
from smcp_runtime.actors.mcp.session.sdk.dispatcher import LibraryDispatcher
from smcp_runtime.actors.mcp.transports.dispatcher import (
    PEER_ID_MAX,
    PEER_REQUESTS,
    PeerRequestRefused,
    RawDispatcher,
)

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec


class Wire:
    """Keeps what was sent."""

    def __init__(self, **more: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.notified: list[tuple[str, bytes]] = []
        self.withdraws = False
        self.dispatcher = RawDispatcher(
            self, lambda method, params: self.notified.append((method, bytes(params))), **more
        )

    def send(self, message: bytes, request_id: int | str | None, headers: Mapping[str, str]) -> None:
        assert b"\n" not in message
        self.sent.append(json.loads(message))

    def withdraw(self, request_id: int | str) -> bool:
        return self.withdraws

    def feed(self, **message: Any) -> bool:
        return self.dispatcher.feed(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def sent_one(self, already: int = 0) -> dict[str, Any]:
        with anyio.fail_after(1.0):
            while len(self.sent) == already:
                await anyio.lowlevel.checkpoint()
        return self.sent[-1]


async def asked(wire: Wire, **more: Any) -> asyncio.Task[bytes]:
    already = len(wire.sent)
    task = asyncio.ensure_future(wire.dispatcher.request("tools/call", b"{}", **{"timeout": 5.0, **more}))
    await wire.sent_one(already)
    return task


async def test_answers_find_their_requests_in_any_order() -> None:
    wire = Wire()
    tasks = [asyncio.ensure_future(wire.dispatcher.request("x", None, timeout=5.0)) for _ in range(50)]
    await anyio.lowlevel.checkpoint()
    for message in reversed(wire.sent):
        wire.feed(id=message["id"], result={"id": message["id"]})
    results = [json.loads(await task)["id"] for task in tasks]
    assert results == [message["id"] for message in wire.sent]


async def test_a_result_is_the_bytes_that_came() -> None:
    wire = Wire()
    task = await asked(wire)
    wire.dispatcher.feed(b'{"id": 1, "result":  {"a" : 1.0e2} }')
    assert await task == b'{"a" : 1.0e2}'


async def test_an_id_that_comes_back_as_text_is_still_ours() -> None:
    wire = Wire()
    task = await asked(wire)
    wire.feed(id="1", result={})
    assert await task == b"{}"


@spec("DEC-6")
@pytest.mark.parametrize("digits", ["²", "٣", "9" * 5000], ids=["superscript", "arabic", "5000 digits"])
async def test_digits_that_are_no_id_of_ours_cost_nothing_behind_them(digits: str) -> None:
    wire = Wire()
    task = await asked(wire)
    first = {"id": digits, "result": {}}
    second = {"method": "notifications/progress", "params": {"progressToken": digits}}
    wire.dispatcher.feed(json.dumps([first, second, {"id": 1, "result": {"real": True}}]).encode())
    assert json.loads(await task) == {"real": True}


@spec("DEC-6")
async def test_a_message_that_nobody_can_take_in_costs_none_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire()

    def refuse(method: str, params: object) -> None:
        raise KeyError("secret")

    wire.dispatcher = RawDispatcher(wire, refuse)
    task = await asked(wire)
    wire.dispatcher.feed(json.dumps([{"method": "any"}, {"id": 1, "result": {}}]).encode())
    assert await task == b"{}"
    assert "secret" not in caplog.text


async def test_an_error_answer_raises_with_its_code() -> None:
    wire = Wire()
    task = await asked(wire)
    wire.feed(id=1, error={"code": -5, "message": "no"})
    with pytest.raises(ErrorAnswer) as refused:
        await task
    assert (refused.value.code, refused.value.message, refused.value.executed) == (-5, "no", "yes")


@spec("DEC-12", "W-CALL-10")
async def test_at_the_time_limit_the_server_is_told_and_a_late_answer_is_dropped() -> None:
    wire = Wire()
    task = await asked(wire, timeout=0.05)
    with pytest.raises(TimeLimitReached):
        await task
    assert wire.sent[-1]["method"] == "notifications/cancelled"
    assert wire.sent[-1]["params"]["requestId"] == 1
    wire.feed(id=1, result={})
    assert wire.dispatcher.late_answers == 1
    again = await asked(wire)
    wire.feed(id=2, result={})
    assert await again == b"{}"


@spec("DEC-12", "W-CALL-14")
async def test_a_caller_that_gives_up_is_told_to_the_server_with_the_right_id() -> None:
    wire = Wire()
    first, second = await asked(wire), await asked(wire)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert wire.sent[-1]["params"]["requestId"] == 2
    wire.feed(id=1, result={})
    assert await first == b"{}"


async def test_the_handshake_is_never_cancelled_by_a_message() -> None:
    wire = Wire()
    with pytest.raises(TimeLimitReached):
        await (await asked(wire, timeout=0.02, cancellable=False))
    assert len(wire.sent) == 1


async def test_a_transport_that_can_withdraw_needs_no_message() -> None:
    wire = Wire()
    wire.withdraws = True
    with pytest.raises(TimeLimitReached):
        await (await asked(wire, timeout=0.02))
    assert len(wire.sent) == 1


@spec("F-25")
async def test_the_end_of_the_connection_ends_everything_in_flight_at_once() -> None:
    wire = Wire()
    tasks = [await asked(wire) for _ in range(3)]
    wire.dispatcher.close(ConnectionLost("gone"))
    wire.dispatcher.close(ConnectionLost("too late to matter"))
    for task in tasks:
        with pytest.raises(ConnectionLost, match="gone"):
            await task
    with pytest.raises(ConnectionLost) as refused:
        await wire.dispatcher.request("x", None, timeout=1.0)
    assert refused.value.executed == "no"


@spec("DEC-10")
async def test_what_was_sent_before_a_server_became_unreachable_is_not_called_unsent() -> None:
    wire = Wire()
    task = await asked(wire)
    wire.dispatcher.close(ConnectionLost("nobody listens any more", sent=False))
    with pytest.raises(ConnectionLost, match="nobody listens") as lost:
        await task
    assert lost.value.executed == "unknown"


@spec("DEC-11")
async def test_only_progress_for_its_own_token_renews_the_idle_limit_of_a_call() -> None:
    wire = Wire()
    token = wire.dispatcher.new_id()
    task = await asked(wire, request_id=token, idle=0.2)
    other = await asked(wire, idle=0.2)
    for _ in range(4):
        await anyio.sleep(0.1)
        wire.feed(method="notifications/progress", params={"progressToken": token, "progress": 1})
    with pytest.raises(TimeLimitReached, match="progress"):
        await other
    wire.feed(id=token, result={})
    assert await task == b"{}"


@spec("DEC-11")
async def test_nothing_extends_the_time_limit() -> None:
    wire = Wire()
    token = wire.dispatcher.new_id()
    task = await asked(wire, request_id=token, idle=5.0, timeout=0.15)
    for _ in range(4):
        await anyio.sleep(0.05)
        wire.feed(method="notifications/progress", params={"progressToken": token, "progress": 1})
    with pytest.raises(TimeLimitReached, match=r"answer within 0\.15"):
        await task


@spec("DEC-2")
async def test_only_work_counts_as_work_in_flight() -> None:
    wire = Wire()
    probe = await asked(wire)
    assert wire.dispatcher.last_work() is None
    work = await asked(wire, work=True)
    assert wire.dispatcher.last_work() is not None
    for task in (probe, work):
        task.cancel()


async def test_an_answer_that_is_not_utf8_is_unusable_unless_the_plan_replaces() -> None:
    wire = Wire()
    task = await asked(wire)
    wire.dispatcher.feed(b'{"id":1,"result":"\xe9"}')
    with pytest.raises(UnusableAnswer):
        await task
    lenient = Wire(encoding_errors="replace")
    task = await asked(lenient)
    lenient.dispatcher.feed(b'{"id":1,"result":"\xe9"}')
    assert (await task).decode() == '"�"'


class TestTheServersRequests:
    async def test_ping_is_answered_in_place(self) -> None:
        wire = Wire()
        wire.feed(id="p", method="ping")
        assert wire.sent == [{"jsonrpc": "2.0", "id": "p", "result": {}}]

    async def test_without_a_session_everything_else_is_refused(self) -> None:
        wire = Wire()
        wire.feed(id=1, method="roots/list")
        assert wire.sent[0]["error"]["code"] == -32601

    async def test_one_whose_id_is_too_long_to_be_repeated_is_passed_over(self) -> None:
        wire = Wire()
        wire.feed(id="x" * (PEER_ID_MAX + 1), method="ping")
        wire.feed(id="x" * PEER_ID_MAX, method="ping")
        assert [message["id"] for message in wire.sent] == ["x" * PEER_ID_MAX]

    async def test_a_flood_of_them_is_bounded(self) -> None:
        wire = Wire()
        hold = anyio.Event()

        async def hang(request_id: object, method: str, params: Any) -> dict[str, Any]:
            await hold.wait()
            return {}

        async with anyio.create_task_group() as group:
            await group.start(wire.dispatcher.serve, hang)
            for number in range(PEER_REQUESTS + 3):
                wire.feed(id=number, method="sampling/createMessage")
            assert [message["error"]["message"] for message in wire.sent] == ["too many requests at once"] * 3
            hold.set()
            await anyio.sleep(0.01)
            assert len(wire.sent) == PEER_REQUESTS + 3
            wire.dispatcher.close(ConnectionLost("over"))

    async def test_what_the_handler_raises_becomes_an_error_answer(self) -> None:
        wire = Wire()

        async def refuse(request_id: object, method: str, params: Any) -> dict[str, Any]:
            if method == "known":
                raise PeerRequestRefused(-7, "said so")
            raise KeyError("secret")

        async with anyio.create_task_group() as group:
            await group.start(wire.dispatcher.serve, refuse)
            wire.feed(id=1, method="known")
            wire.feed(id=2, method="broken")
            await anyio.sleep(0.01)
            wire.dispatcher.close(ConnectionLost("over"))
        errors = {message["id"]: message["error"] for message in wire.sent}
        assert errors[1] == {"code": -7, "message": "said so"}
        assert "secret" not in errors[2]["message"]


@spec("R-MCP-27")
async def test_a_notification_is_handed_on_before_the_next_message_is_read() -> None:
    wire = Wire()
    task = await asked(wire)
    wire.feed(method="notifications/tools/list_changed")
    wire.feed(id=1, result={})
    assert wire.notified == [("notifications/tools/list_changed", b"")]
    assert await task == b"{}"


class TestAsTheLibraryCallsIt:
    async def test_results_are_objects_and_errors_are_the_librarys(self) -> None:
        wire = Wire()
        task = asyncio.ensure_future(
            LibraryDispatcher(wire.dispatcher).send_raw_request("initialize", {"a": 1}, {"timeout": 5.0})
        )
        assert (await wire.sent_one())["params"] == {"a": 1}
        wire.feed(id=1, result={"b": 2})
        assert await task == {"b": 2}
        task = asyncio.ensure_future(
            LibraryDispatcher(wire.dispatcher).send_raw_request("x", None, {"request_id": "listen-1"})
        )
        await anyio.lowlevel.checkpoint()
        wire.feed(id="listen-1", error={"code": -9, "message": "m", "data": {"supported": []}})
        with pytest.raises(MCPError) as refused:
            await task
        assert (refused.value.code, refused.value.error.data) == (-9, {"supported": []})

    async def test_a_result_that_is_no_object_is_unusable(self) -> None:
        wire = Wire()
        task = asyncio.ensure_future(LibraryDispatcher(wire.dispatcher).send_raw_request("initialize", None))
        await wire.sent_one()
        wire.feed(id=1, result=[1])
        with pytest.raises(RequestFailed):
            await task

    async def test_an_announcement_of_a_stream_is_offered_to_the_session_first(self) -> None:
        wire = Wire()
        offered: list[str] = []

        async with anyio.create_task_group() as group:

            async def run(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                await LibraryDispatcher(wire.dispatcher).run(
                    None,  # type: ignore[arg-type]
                    None,  # type: ignore[arg-type]
                    lambda method, params: bool(offered.append(method)),
                    task_status=task_status,
                )

            await group.start(run)
            meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": "listen-1"}}
            wire.feed(method="notifications/subscriptions/acknowledged", params=meta)
            wire.feed(method="notifications/message", params={})
            wire.dispatcher.close(ConnectionLost("over"))
        assert offered == ["notifications/subscriptions/acknowledged"]


def test_raw_is_false_only_when_there_is_nothing() -> None:
    """What the reading of messages relies on."""
    assert not msgspec.Raw()
    assert msgspec.Raw(b"null")
