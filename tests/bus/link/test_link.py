"""Keeping a connection: loss, return, the office wished for, and what may leave when."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from smcp_runtime.bus.link import LinkChange, LinkOptions, Reply, RequestTooLarge, SmcpLink, office
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.errors import ConflictError, MalformedReplyError, NetworkError, PolicyError, SmcpError
from support.scripted_server import Relay, ScriptedServer

pytestmark = pytest.mark.anyio

QUICK = Backoff(initial=0.01, longest=0.02)


class Recorder:
    """Everything a link tells."""

    def __init__(self, url: str, **options: Any) -> None:
        options = {"backoff": QUICK, "rejoin_budget": 2.0} | options
        self.events: list[tuple[str, Any]] = []
        self.changes: list[LinkChange] = []
        self.link = SmcpLink(LinkOptions(url=url, **options), on_event=self._event, on_change=self.changes.append)

    def _event(self, event: str, data: msgspec.Raw | None, reply: Reply | None) -> None:
        self.events.append((event, msgspec.json.decode(data) if data is not None else None))

    @property
    def states(self) -> list[str]:
        return [change.state for change in self.changes]


async def joined(url: str, **options: Any) -> Recorder:
    recorder = Recorder(url, **options)
    await recorder.link.connect()
    await recorder.link.join("agent", "a", "o1")
    return recorder


@pytest.mark.spec("DEC-17", "W-ROOM-27", "W-D-10", "R-LIFE-13")
async def test_after_a_lost_connection_the_link_is_in_its_office_again() -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay:
        recorder = await joined(relay.url)
        relay.cut()
        await server.until(lambda: len(server.payloads("server:join_office")) == 2)
        with anyio.fail_after(5):
            await recorder.link.wait_for("joined")
        assert server.payloads("server:join_office") == [{"role": "agent", "name": "a", "office_id": "o1"}] * 2
        assert recorder.states == ["connecting", "connected", "joined", "connecting", "connected", "joined"]
        assert recorder.changes[-1].restored
        assert recorder.changes[3].error is not None
        await recorder.link.disconnect()


@pytest.mark.spec("DEC-17", "F-78")
async def test_a_restarted_server_sees_one_join() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        await server.stop()
        server.received.clear()
        await server.start()
        await server.until(lambda: "server:join_office" in server.names())
        with anyio.fail_after(5):
            await recorder.link.wait_for("joined")
        assert server.names() == ["server:join_office"]
        await recorder.link.disconnect()


@pytest.mark.spec("DEC-17")
@pytest.mark.parametrize(
    "text", ["[403] Name already in use", "[4101] Room already has an agent", "[500] starting", "no code at all", None]
)
async def test_a_rejoin_refused_by_our_own_ghost_is_repeated(text: str | None) -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        answers = iter([(False, text), (False, text), (True, None)])
        server.answers["server:join_office"] = lambda _request: next(answers)
        await server.kick()
        await server.until(lambda: len(server.payloads("server:join_office")) == 4)
        with anyio.fail_after(5):
            await recorder.link.wait_for("joined")
        await recorder.link.disconnect()


@pytest.mark.spec("DEC-17", "R-LIFE-12")
@pytest.mark.parametrize("text", ["[4102] Room not found", "[4104] Cross room access denied", "[400] bad"])
async def test_any_other_refusal_of_a_rejoin_ends_the_wish(text: str) -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        server.answers["server:join_office"] = lambda _request: (False, text)
        await server.kick()
        with anyio.fail_after(5), pytest.raises(PolicyError):
            await recorder.link.wait_for("idle")
        assert recorder.link.state == "connected"
        assert recorder.link.office is None
        assert len(server.payloads("server:join_office")) == 2
        await recorder.link.disconnect()


@pytest.mark.spec("DEC-17")
async def test_the_budget_bounds_how_long_a_rejoin_is_repeated() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url, rejoin_budget=0.1)
        server.answers["server:join_office"] = lambda _request: (False, "[403] Name already in use")
        await server.kick()
        with anyio.fail_after(5), pytest.raises(ConflictError):
            await recorder.link.wait_for("idle")
        assert 2 < len(server.payloads("server:join_office")) < 20
        await recorder.link.disconnect()


@pytest.mark.spec("R-LIFE-12")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((False, "[4101] Room already has an agent"), ConflictError),
        ((False, "[403] Name already in use"), ConflictError),
        ((False, "Internal server error: Agent already in room"), ConflictError),
        ((False, "[4102] Room not found"), PolicyError),
        (None, MalformedReplyError),
        ({"code": 1}, MalformedReplyError),
    ],
)
async def test_a_refused_first_join_is_a_typed_error_and_made_once(answer: Any, error: type[SmcpError]) -> None:
    async with ScriptedServer() as server:
        server.answers["server:join_office"] = lambda _request: answer
        recorder = Recorder(server.url)
        await recorder.link.connect()
        with pytest.raises(error) as refused:
            await recorder.link.join("agent", "a", "o")
        assert refused.value.code == "join_failed"
        assert recorder.link.state == "connected"
        assert server.names() == ["server:join_office"]
        await recorder.link.disconnect()


@pytest.mark.spec("R-LIFE-11")
async def test_a_join_given_up_before_its_answer_is_taken_back_after_it() -> None:
    async with ScriptedServer() as server:
        release = asyncio.Event()

        async def wait_then_accept(_request: Any) -> tuple[bool, None]:
            await release.wait()
            return True, None

        server.answers["server:join_office"] = wait_then_accept
        recorder = Recorder(server.url)
        await recorder.link.connect()
        joining = asyncio.create_task(recorder.link.join("computer", "c", "o1"))
        await server.until(lambda: "server:join_office" in server.names())
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        again = asyncio.create_task(recorder.link.join("computer", "c", "o2"))
        release.set()
        await again
        assert server.received == [
            ("server:join_office", {"role": "computer", "name": "c", "office_id": "o1"}),
            ("server:leave_office", {"office_id": "o1"}),
            ("server:join_office", {"role": "computer", "name": "c", "office_id": "o2"}),
        ]
        assert (recorder.link.office, recorder.states) == ("o2", ["connecting", "connected", "joined"])
        await recorder.link.disconnect()


@pytest.mark.spec("R-LIFE-11")
async def test_a_join_without_an_answer_in_time_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "AGENT_ACK_WAIT", 0.05)
    async with ScriptedServer() as server:
        server.answers["server:join_office"] = lambda _request: asyncio.sleep(30)
        recorder = Recorder(server.url)
        await recorder.link.connect()
        with pytest.raises(NetworkError) as unanswered:
            await recorder.link.join("computer", "c", "o1")
        assert unanswered.value.code == "join_failed"
        await server.until(lambda: server.names() == ["server:join_office", "server:leave_office"])
        assert (recorder.link.office, recorder.link.state) == (None, "connected")
        await recorder.link.disconnect()


@pytest.mark.spec("R-LIFE-11")
async def test_a_connection_ends_without_waiting_for_the_answer_to_a_join_that_was_given_up() -> None:
    async with ScriptedServer() as server:
        server.answers["server:join_office"] = lambda _request: asyncio.sleep(30)
        recorder = Recorder(server.url)
        await recorder.link.connect()
        joining = asyncio.create_task(recorder.link.join("computer", "c", "o1"))
        await server.until(lambda: "server:join_office" in server.names())
        joining.cancel()
        with anyio.fail_after(5):
            await recorder.link.disconnect()
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "smcp-join"]


async def test_after_leaving_a_lost_connection_returns_without_an_office() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        await recorder.link.leave()
        assert server.payloads("server:leave_office") == [{"office_id": "o1"}]
        await server.kick()
        await server.until(lambda: len(server.credentials) == 2)
        with anyio.fail_after(5):
            await recorder.link.wait_for("connected")
        assert server.names().count("server:join_office") == 1
        await recorder.link.disconnect()


@pytest.mark.spec("F-78")
async def test_nothing_leaves_before_the_office_is_confirmed_again() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        release = asyncio.Event()

        async def wait_then_accept(_request: Any) -> tuple[bool, None]:
            await release.wait()
            return True, None

        server.answers["server:join_office"] = wait_then_accept
        await server.kick()
        await server.until(lambda: len(server.payloads("server:join_office")) == 2)
        with pytest.raises(NetworkError) as refused:
            await recorder.link.emit("server:update_config", b'{"computer":"c"}')
        assert (refused.value.code, refused.value.details) == ("not_joined", {"executed": "no"})
        release.set()
        with anyio.fail_after(5):
            await recorder.link.wait_for("joined")
        await recorder.link.emit("server:update_config", b'{"computer":"c"}')
        await server.until(lambda: "server:update_config" in server.names())
        await recorder.link.disconnect()


@pytest.mark.spec("W-ERR-33")
async def test_a_lost_connection_ends_every_pending_call_at_once() -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay:
        server.answers["client:get_tools"] = lambda _request: asyncio.sleep(30)
        recorder = await joined(relay.url)
        ended: list[NetworkError] = []

        async def call() -> None:
            with pytest.raises(NetworkError) as lost:
                await recorder.link.call("client:get_tools", b"{}", 30)
            ended.append(lost.value)

        async with anyio.create_task_group() as calls:
            for _ in range(20):
                calls.start_soon(call)
            await server.until(lambda: len(server.payloads("client:get_tools")) == 20)
            with anyio.fail_after(1):
                relay.cut()
                while len(ended) < 20:
                    await anyio.lowlevel.checkpoint()
        assert {error.details["executed"] for error in ended} == {"unknown"}
        await recorder.link.disconnect()


@pytest.mark.spec("DEC-17")
async def test_a_retired_generation_delivers_and_answers_nothing() -> None:
    replies: list[Reply] = []
    async with ScriptedServer() as server:
        link = SmcpLink(
            LinkOptions(url=server.url, backoff=QUICK),
            on_event=lambda _event, _data, reply: replies.append(reply) if reply else None,
        )
        await link.connect()
        await link.join("computer", "c", "o")
        async with anyio.create_task_group() as asking:
            asking.start_soon(_ask_in_vain, server)
            await _until(lambda: bool(replies))
            old = link.generation
            await server.kick()
            await server.until(lambda: len(server.credentials) == 2)
            with anyio.fail_after(5):
                await link.wait_for("joined")
            assert link.generation == old + 1
            assert await replies[0].send(b'{"late":true}') is False
            asking.cancel_scope.cancel()
        await link.disconnect()


async def _ask_in_vain(server: ScriptedServer) -> None:
    await server.ask("client:get_tools", {})


async def _until(condition: Any, seconds: float = 5.0) -> None:
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110  what is waited for has no event of its own
            await anyio.sleep(0.005)


@pytest.mark.spec("F-82", "W-ARCH-6")
async def test_acknowledgements_in_reverse_order_reach_their_own_callers() -> None:
    held: list[tuple[Any, Reply]] = []
    async with ScriptedServer() as server:
        link = SmcpLink(
            LinkOptions(url=server.url),
            on_event=lambda _event, data, reply: held.append((msgspec.json.decode(data or b"null"), reply)),  # type: ignore[arg-type]
        )
        await link.connect()
        answers: dict[int, Any] = {}

        async def ask(number: int) -> None:
            answers[number] = await server.ask("client:tool_call", {"number": number})

        async with anyio.create_task_group() as asking:
            for number in range(50):
                asking.start_soon(ask, number)
            await _until(lambda: len(held) == 50)
            for data, reply in reversed(held):
                assert await reply.send(msgspec.json.encode({"echo": data["number"]}))
        assert answers == {number: {"echo": number} for number in range(50)}
        await link.disconnect()


@pytest.mark.spec("W-EVT-3")
async def test_a_reply_without_values_is_an_empty_acknowledgement() -> None:
    async with ScriptedServer() as server:
        replies: list[Reply] = []
        link = SmcpLink(LinkOptions(url=server.url), on_event=lambda _e, _d, reply: replies.append(reply))  # type: ignore[arg-type]
        await link.connect()
        async with anyio.create_task_group() as asking:

            async def ask() -> None:
                assert await server.ask("client:unknown", {}) is None

            asking.start_soon(ask)
            await _until(lambda: bool(replies))
            assert await replies[0].send()
        await link.disconnect()


@pytest.mark.spec("F-76", "DEC-17")
async def test_a_burst_over_polling_loses_nothing_in_either_direction() -> None:
    async with ScriptedServer(ping_interval=1) as server:
        recorder = await joined(server.url, transports=("polling",))
        async with anyio.create_task_group() as sending:
            for number in range(200):
                sending.start_soon(recorder.link.emit, "server:update_config", b'{"computer":"%d"}' % number)
        await server.until(lambda: len(server.payloads("server:update_config")) == 200)
        assert [p["computer"] for p in server.payloads("server:update_config")] == [str(n) for n in range(200)]

        for number in range(200):
            await server.emit("notify:update_config", {"computer": str(number)})
        await _until(lambda: len(recorder.events) == 200)
        assert [data["computer"] for _event, data in recorder.events] == [str(n) for n in range(200)]
        assert recorder.link.generation == 1
        await recorder.link.disconnect()


@pytest.mark.spec("F-83")
@pytest.mark.parametrize("transports", [("polling", "websocket"), ("polling",)])
async def test_what_was_sent_just_before_a_disconnect_arrives(transports: tuple[str, ...]) -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url, transports=transports)
        for number in range(40):
            await recorder.link.emit("server:update_config", b'{"computer":"%d"}' % number)
        await recorder.link.disconnect()
        await server.until(lambda: len(server.payloads("server:update_config")) == 40)
        await server.until(lambda: server.sids == [])


@pytest.mark.spec("F-83")
@pytest.mark.parametrize("transports", [("polling", "websocket"), ("polling",)])
async def test_a_disconnect_on_a_dead_network_still_ends(transports: tuple[str, ...]) -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay:
        recorder = await joined(relay.url, transports=transports)
        relay.freeze()
        begun = time.monotonic()
        with anyio.fail_after(6):
            await recorder.link.disconnect()
        assert time.monotonic() - begun < 5
        assert recorder.link.state == "ended"


@pytest.mark.spec("F-83")
@pytest.mark.parametrize("patience", [0.05, 0.5, 1.5])
async def test_a_disconnect_given_up_on_a_dead_network_leaves_nothing_open(
    patience: float, caplog: pytest.LogCaptureFixture
) -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay:
        recorder = await joined(relay.url)
        relay.freeze()
        with anyio.move_on_after(patience):
            await recorder.link.disconnect()
        del recorder
        gc.collect()
    gc.collect()
    assert "Unclosed" not in caplog.text


async def test_a_disconnect_while_reconnecting_stops_the_attempts() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        await server.stop()
        with anyio.fail_after(5):
            await recorder.link.wait_for("connecting")
            await recorder.link.disconnect()
        await server.start()
        server.requests.clear()
        await anyio.sleep(0.1)
        assert server.requests == []


@pytest.mark.spec("DEC-17")
async def test_a_disconnect_while_connecting_ends_the_attempt_and_nothing_acts_afterwards() -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    async def credentials() -> dict[str, str]:
        asked.set()
        await never.wait()
        return {}

    async with ScriptedServer() as server:
        recorder = Recorder(server.url, auth=credentials)
        connecting = asyncio.create_task(recorder.link.connect())
        with anyio.fail_after(5):
            await asked.wait()
            await recorder.link.disconnect()
            never.set()
            with pytest.raises(NetworkError) as closed:
                await connecting
        assert closed.value.details["executed"] == "no"
        assert (recorder.link.state, recorder.states) == ("ended", ["connecting", "ended"])
        assert server.requests == []
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("smcp-")]


@pytest.mark.spec("DEC-17")
async def test_a_disconnect_during_the_handshake_leaves_no_session_open(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay:
        relay.freeze()
        recorder = Recorder(relay.url)
        connecting = asyncio.create_task(recorder.link.connect())
        await _until(lambda: relay.connections > 0)
        with anyio.fail_after(5):
            await recorder.link.disconnect()
            with pytest.raises(NetworkError):
                await connecting
        del recorder, connecting
        gc.collect()
    gc.collect()
    assert "Unclosed" not in caplog.text


async def test_who_stops_waiting_for_a_connection_is_cancelled_and_may_connect_again() -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay:
        relay.freeze()
        recorder = Recorder(relay.url)
        for patience in (0, 0.05):
            with anyio.move_on_after(patience) as waiting:
                await recorder.link.connect()
            assert waiting.cancelled_caught
            assert recorder.link.state == "ended"
        relay.thaw()
        await recorder.link.connect()
        assert recorder.link.state == "connected"
        await recorder.link.disconnect()


async def test_a_silent_server_is_given_up_after_its_own_ping_times() -> None:
    async with ScriptedServer(ping_interval=1, ping_timeout=0.5) as server, Relay(server.port) as relay:
        recorder = await joined(relay.url, reconnect=False)
        await anyio.sleep(1.8)  # longer than its patience, but a ping came meanwhile
        assert recorder.link.state == "joined"
        relay.freeze()
        with anyio.fail_after(3), pytest.raises(NetworkError, match="silent"):
            await recorder.link.wait_for("idle")
        await recorder.link.disconnect()


@pytest.mark.spec("R-LIFE-12")
async def test_without_reconnect_a_lost_connection_ends_the_link() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url, reconnect=False)
        await server.kick()
        with anyio.fail_after(5), pytest.raises(NetworkError):
            await recorder.link.wait_for("idle")
        assert recorder.link.state == "ended"
        assert len(server.credentials) == 1
        await recorder.link.disconnect()


@pytest.mark.spec("W-GEN-7", "DEC-18")
async def test_a_request_above_the_budget_is_refused_here_and_the_connection_stays() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        big = msgspec.json.encode({"params": "x" * 900_000})
        with pytest.raises(RequestTooLarge) as refused:
            await recorder.link.call("client:tool_call", big, 5)
        assert refused.value.details["executed"] == "no"
        with pytest.raises(RequestTooLarge):
            await recorder.link.emit("server:update_config", big)
        server.answers["client:tool_call"] = lambda request: {"size": len(request["params"])}
        fits = msgspec.json.encode({"params": "é" * 449_000})
        (answer,) = await recorder.link.call("client:tool_call", fits, 5)
        assert msgspec.json.decode(answer) == {"size": 449_000}
        await recorder.link.disconnect()


@pytest.mark.spec("W-GEN-7")
async def test_a_server_with_a_smaller_buffer_lowers_the_budget() -> None:
    async with ScriptedServer(max_http_buffer_size=10_000) as server:
        recorder = await joined(server.url)
        assert recorder.link.budget == 10_000
        with pytest.raises(RequestTooLarge):
            await recorder.link.call("client:tool_call", b'"%b"' % (b"x" * 10_000), 5)
        await recorder.link.disconnect()


async def test_a_call_without_an_answer_ends_at_its_timeout_and_a_late_answer_is_nobodys() -> None:
    async with ScriptedServer() as server:
        release = asyncio.Event()

        async def late(_request: Any) -> Any:
            await release.wait()
            return {"late": True}

        server.answers["client:get_tools"] = late
        server.answers["client:get_config"] = lambda _request: {"servers": {}}
        recorder = await joined(server.url)
        with pytest.raises(TimeoutError):
            await recorder.link.call("client:get_tools", b"{}", 0.1)
        release.set()
        (answer,) = await recorder.link.call("client:get_config", b"{}", 5)
        assert msgspec.json.decode(answer) == {"servers": {}}
        await recorder.link.disconnect()


async def test_connecting_twice_is_a_conflict_and_after_a_disconnect_it_is_not() -> None:
    async with ScriptedServer() as server:
        recorder = await joined(server.url)
        with pytest.raises(ConflictError):
            await recorder.link.connect()
        await recorder.link.disconnect()
        await recorder.link.disconnect()
        await recorder.link.connect()
        assert recorder.link.state == "connected"
        await recorder.link.disconnect()


async def test_a_handler_that_raises_does_not_cost_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_event: object) -> None:
        raise RuntimeError("handler bug")

    async with ScriptedServer() as server:
        link = SmcpLink(LinkOptions(url=server.url), on_event=fail)
        await link.connect()
        await link.join("agent", "a", "o")
        await server.emit("notify:update_config", {"computer": "c"})
        await link.call("server:list_room", b'{"req_id":"1"}', 5)
        assert link.generation == 1
        assert "notify:update_config" in caplog.text
        await link.disconnect()
