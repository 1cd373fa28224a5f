"""HTTP servers over real sockets: refusals, redirects, forgotten sessions and optional streams."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest
from aiohttp import web

from smcp_runtime.actors.mcp.transports.opener import Opener
from smcp_runtime.wire.errors import ActorLost, PeerError
from smcp_runtime.wire.messages.mcp import (
    HealthCheck,
    LaunchPlan,
    ListResources,
    ReconnectPolicy,
    StartServer,
    ToolOutcome,
    WatchResources,
)

from .conftest import Host
from .http_server import HttpServer, serving

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

NEVER = ReconnectPolicy(enabled=False)


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with serving() as made:
        yield made


def plan(server: HttpServer, transport: str = "streamable", **more: Any) -> LaunchPlan:
    url = server.url if transport == "streamable" else server.sse_url
    given: dict[str, Any] = {"url": url, **more}
    return LaunchPlan("web", "web (display)", transport, **given)  # type: ignore[arg-type]


def text_of(outcome: ToolOutcome) -> str:
    assert outcome.result is not None, outcome
    return str(json.loads(outcome.result.data)["content"][0]["text"])


both = pytest.mark.parametrize("transport", ["streamable", "sse"])


class TestServing:
    @both
    async def test_a_server_is_listed_called_and_stopped(self, host: Host, server: HttpServer, transport: str) -> None:
        await host.start(plan(server, transport))
        assert host.tools("web") == ["echo"]
        assert text_of(await host.call("web", "echo", {"text": "hello"})) == "hello"
        assert (await host.stop("web")).phase == "stopped"

    async def test_an_answer_may_come_as_a_stream_of_events(self, host: Host, server: HttpServer) -> None:
        server.stream_answers = True
        await host.start(plan(server))
        assert text_of(await host.call("web", "echo", {"text": "hello"})) == "hello"

    @both
    async def test_a_result_of_many_megabytes_arrives(self, host: Host, server: HttpServer, transport: str) -> None:
        await host.start(plan(server, transport))
        text = "x" * 4_000_000
        assert text_of(await host.call("web", "echo", {"text": text}, timeout=20.0)) == text

    async def test_a_broken_answer_stream_is_taken_up_where_it_stopped(self, host: Host, server: HttpServer) -> None:
        await host.start(plan(server))
        server.stream_answers = server.break_answers = True
        assert text_of(await host.call("web", "echo", {"text": "hello"})) == "hello"
        assert server.methods().count("tools/call") == 1

    @spec("DEC-10", "C-6")
    @pytest.mark.parametrize("listening", [True, False])
    async def test_a_call_whose_server_cannot_be_reached_again_may_have_been_executed(
        self, host: Host, server: HttpServer, listening: bool
    ) -> None:
        server.listening = listening
        await host.start(plan(server, reconnect=NEVER))
        server.stream_answers = server.break_answers = True
        server.hold = asyncio.Event()
        outcomes: list[ToolOutcome] = []

        async def call() -> None:
            outcomes.append(await host.call("web", "echo", timeout=20.0))

        with anyio.fail_after(5.0):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await server.hold.wait()
                await server.close()
        assert [(outcome.ended, outcome.executed) for outcome in outcomes] == [("failed", "unknown")]

    @spec("DEC-10", "C-6")
    @pytest.mark.parametrize(
        "answer",
        [
            {"status": 202},
            {"text": "hello", "content_type": "text/plain"},
            {"text": "", "content_type": "text/event-stream"},
            {"text": "{broken", "content_type": "application/json"},
            {"text": "[]", "content_type": "application/json"},
        ],
    )
    async def test_an_answer_that_is_none_ends_the_call_at_once(
        self, host: Host, server: HttpServer, answer: dict[str, Any]
    ) -> None:
        await host.start(plan(server))
        server.fault = lambda message: web.Response(**answer) if message.get("method") == "tools/call" else None
        with anyio.fail_after(2.0):
            assert (await host.call("web", "echo", timeout=60.0)).ended == "failed"
        server.fault = lambda _: None
        assert (await host.call("web", "echo")).ended == "answered"

    async def test_the_session_is_ended_with_the_server_unless_the_plan_says_otherwise(
        self, host: Host, server: HttpServer
    ) -> None:
        await host.start(plan(server))
        await host.stop("web")
        assert server.deleted == 1
        host.reconcile.plans["web"] = plan(server, terminate_on_close=False)
        await host.bus.ask(host.address("web"), StartServer())
        await host.until("web", phase="ready")
        await host.stop("web")
        assert server.deleted == 1

    @spec("F-28")
    async def test_a_refused_listening_stream_is_said_once_and_blocks_nothing(
        self, host: Host, server: HttpServer
    ) -> None:
        server.listening = False
        await host.start(plan(server))
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(host.call, "web", "echo")
        notes = [note for note in (await host.status("web")).notes if "listening stream" in note]
        assert (notes, server.gets) == (["the server offers no listening stream"], 1)

    async def test_a_server_that_wants_no_delay_between_empty_streams_gets_one(
        self, host: Host, server: HttpServer
    ) -> None:
        server.hurry = True
        await host.start(plan(server))
        await host.eventually_true(lambda: server.gets)
        before, began = server.gets, anyio.current_time()
        await host.eventually_true(lambda: server.gets > before + 2)
        assert anyio.current_time() - began > 0.2

    @spec("R-MCP-27")
    async def test_a_change_announced_on_the_listening_stream_is_listed(self, host: Host, server: HttpServer) -> None:
        await host.start(plan(server))
        await host.eventually_true(lambda: server.streams)
        server.tools = [*server.tools, {"name": "fresh", "inputSchema": {"type": "object"}}]
        await server.announce("notifications/tools/list_changed")
        await host.eventually(lambda: host.tools("web") == ["echo", "fresh"])

    async def test_the_first_request_does_not_overtake_the_end_of_the_handshake(
        self, host: Host, server: HttpServer
    ) -> None:
        await host.start(plan(server))
        methods = server.methods()
        assert methods.index("notifications/initialized") < methods.index("tools/list")
        assert server.headers[-1]["mcp-protocol-version"] == "2025-06-18"

    @spec("F-53", "C-DESK-8")
    async def test_each_uri_is_subscribed_to_once_per_session_over_all_channels(
        self, host: Host, server: HttpServer
    ) -> None:
        address = await host.start(plan(server))
        live = await host.bus.ask(address, WatchResources("desktop", ("window://a", "window://b")))
        assert live.uris == ("window://a", "window://b")
        assert (await host.bus.ask(address, WatchResources("finder", ("window://b",)))).uris == ("window://b",)
        await host.bus.ask(address, WatchResources("desktop", ("window://a",)))
        told = [message for message in server.received if message.get("method", "").startswith("resources/s")]
        assert [message["params"]["uri"] for message in told] == ["window://a", "window://b"]


class TestAuthorization:
    @spec("W-UP-2", "W-UP-4", "W-UP-6", "W-UP-7", "U-2", "U-3", "C-9", "F-04")
    @both
    @pytest.mark.parametrize(
        "refusal",
        [(403, {}, 4007), (401, {}, 4006), (401, {"WWW-Authenticate": 'Bearer realm="mcp"'}, 4006)],
    )
    async def test_a_refused_call_ends_at_once_with_its_code_and_the_connection_stays_usable(
        self, host: Host, server: HttpServer, transport: str, refusal: tuple[int, dict[str, str], int]
    ) -> None:
        status, headers, code = refusal
        await host.start(plan(server, transport))
        server.refuse_calls(status, headers)
        with anyio.fail_after(2.0):
            outcome = await host.call("web", "echo", timeout=60.0)
        assert (outcome.ended, outcome.error_code, outcome.executed) == ("unauthorized", code, "no")
        server.fault = lambda _: None
        assert text_of(await host.call("web", "echo", {"text": "again"})) == "again"
        assert host.phases("web").count("ready") == 1

    @spec("U-7", "W-UP-5", "C-6")
    @both
    @pytest.mark.parametrize("status", [500, 503, 429])
    async def test_a_failure_without_a_sign_of_authorization_is_none(
        self, host: Host, server: HttpServer, transport: str, status: int
    ) -> None:
        await host.start(plan(server, transport))
        server.refuse_calls(status)
        with anyio.fail_after(2.0):
            outcome = await host.call("web", "echo", timeout=60.0)
        assert (outcome.ended, outcome.error_code, outcome.executed) == ("failed", None, "unknown")

    @spec("W-UP-4", "U-8")
    async def test_a_challenge_makes_any_failure_one_of_authorization(self, host: Host, server: HttpServer) -> None:
        await host.start(plan(server))
        server.refuse_calls(400, {"WWW-Authenticate": "Bearer"})
        assert (await host.call("web", "echo")).error_code == 4006

    async def test_an_error_answer_in_the_body_of_a_refusal_is_the_servers_word(
        self, host: Host, server: HttpServer
    ) -> None:
        await host.start(plan(server))
        server.refuse_calls(
            400,
            {"content-type": "application/json"},
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"wrong"}}',
        )
        outcome = await host.call("web", "echo")
        assert (outcome.ended, outcome.error_code, outcome.text) == ("error", -32602, "wrong")

    @spec("W-UP-3", "W-UP-8")
    async def test_nothing_the_peer_wrote_is_in_the_text(self, host: Host, server: HttpServer) -> None:
        await host.start(plan(server))
        server.refuse_calls(401, {"WWW-Authenticate": 'Bearer error="token abc123"'}, "access_token=abc123")
        assert "abc123" not in (await host.call("web", "echo")).text

    @spec("R-MCP-25")
    @both
    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_server_that_refuses_the_handshake_waits_for_authorization(
        self, host: Host, server: HttpServer, transport: str, status: int
    ) -> None:
        server.fault = lambda _: web.Response(status=status)
        await host.bus.ask(await host.add(plan(server, transport)), StartServer())
        status_ = await host.until("web", phase="parked")
        assert (status_.activation, status_.connection) == ("started", "authorization_required")
        assert (status_.category, status_.next_try_at is not None) == ("auth", True)

    @spec("W-RES-3", "DEC-34")
    @pytest.mark.parametrize(
        ("status", "code", "reason"), [(401, 4006, None), (403, 4007, None), (500, 4014, "upstream_error")]
    )
    async def test_a_refused_listing_of_resources_has_a_code_that_travels(
        self, host: Host, server: HttpServer, status: int, code: int, reason: str | None
    ) -> None:
        address = await host.start(plan(server))
        server.fault = lambda _: web.Response(status=status)
        with pytest.raises(PeerError) as refused:
            await host.bus.ask(address, ListResources())
        payload = refused.value.payload
        assert (payload["code"], payload["mcp_server"]) == (code, "web")
        assert payload.get("details", {}).get("reason") == reason


class TestForgottenSessions:
    @spec("DEC-9", "F-29")
    async def test_fifty_calls_that_meet_a_forgotten_session_share_one_handshake_and_all_are_answered(
        self, host: Host, server: HttpServer
    ) -> None:
        await host.start(plan(server))
        outcomes: list[ToolOutcome] = []

        async def call(number: int) -> None:
            if number == 10:
                server.forget_sessions()
            outcomes.append(await host.call("web", "echo", {"text": str(number)}))

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(call, number)
        assert [outcome.ended for outcome in outcomes] == ["answered"] * 50
        assert sorted(int(text_of(outcome)) for outcome in outcomes) == list(range(50))
        assert server.handshakes == 2
        assert host.phases("web").count("ready") == 1

    @spec("DEC-9", "C-DESK-8")
    async def test_a_new_session_is_listed_and_subscribed_anew(self, host: Host, server: HttpServer) -> None:
        address = await host.start(plan(server))
        await host.bus.ask(address, WatchResources("desktop", ("window://a",)))
        server.forget_sessions()
        server.tools = [{"name": "changed", "inputSchema": {"type": "object"}}]
        await host.call("web", "echo")
        await host.eventually(lambda: host.tools("web") == ["changed"])
        assert host.sessions("web") == 2
        await host.eventually_true(lambda: server.methods().count("resources/subscribe") == 2)

    @spec("DEC-9", "R-MCP-22")
    async def test_a_handshake_that_fails_makes_it_a_loss(self, host: Host, server: HttpServer) -> None:
        await host.start(plan(server, reconnect=NEVER))
        server.forget_sessions()
        server.fault = lambda message: web.Response(status=500) if message.get("method") == "initialize" else None
        outcome = await host.call("web", "echo")
        assert (outcome.ended, outcome.executed) == ("failed", "no")
        await host.until("web", phase="parked")

    @spec("DEC-9")
    async def test_a_session_forgotten_while_idle_is_renewed_by_the_listening_stream(
        self, host: Host, server: HttpServer
    ) -> None:
        await host.start(plan(server))
        await host.eventually_true(lambda: server.streams)
        server.forget_sessions()
        for stream in list(server.streams):
            stream.task.cancel() if stream.task is not None else None
        await host.eventually_true(lambda: server.handshakes == 2)
        assert text_of(await host.call("web", "echo", {"text": "on"})) == "on"


class TestRedirects:
    @spec("DEC-16")
    @both
    async def test_a_redirect_to_another_origin_is_refused_and_credentials_do_not_follow(
        self, host: Host, server: HttpServer, transport: str
    ) -> None:
        async with serving() as elsewhere:
            there = elsewhere.url if transport == "streamable" else elsewhere.sse_url
            here = server.url if transport == "streamable" else server.sse_url

            async def redirect(_: web.Request) -> web.StreamResponse:
                raise web.HTTPTemporaryRedirect(there + "?secret=1")

            async with redirecting(redirect) as url:
                headers = {"Authorization": "Bearer hunter22"}
                moved = LaunchPlan("web", "web (display)", transport, url=url, headers=headers, reconnect=NEVER)  # type: ignore[arg-type]
                await host.bus.ask(await host.add(moved), StartServer())
                status = await host.until("web", phase="parked")
        assert (status.category, status.code) == ("network", "redirect_refused")
        assert status.reason is not None
        assert there in status.reason
        assert "secret" not in status.reason
        assert elsewhere.received == []
        assert here != there

    async def test_a_redirect_on_the_same_origin_that_keeps_the_method_is_followed(self, host: Host) -> None:
        async with serving() as server:
            base = server.url.removesuffix("/mcp")
            await host.start(LaunchPlan("web", "web (display)", "streamable", url=f"{base}/moved"))
            assert text_of(await host.call("web", "echo", {"text": "hello"})) == "hello"

    async def test_an_endless_redirect_is_refused(self, host: Host) -> None:
        async def around(request: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(request.path)

        async with redirecting(around) as url:
            turning = LaunchPlan("web", "web (display)", "streamable", url=url, reconnect=NEVER)
            await host.bus.ask(await host.add(turning), StartServer())
            assert (await host.until("web", phase="parked")).code == "redirect_refused"

    @spec("DEC-16")
    async def test_an_endpoint_for_messages_on_another_origin_is_refused(self, host: Host) -> None:
        async def elsewhere(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"event: endpoint\ndata: http://127.0.0.2:1/messages\n\n")
            await asyncio.Event().wait()
            return response

        async with redirecting(elsewhere) as url:
            leading = LaunchPlan("web", "web (display)", "sse", url=url, reconnect=NEVER)
            await host.bus.ask(await host.add(leading), StartServer())
            assert (await host.until("web", phase="parked")).code == "redirect_refused"


class TestUnusable:
    @spec("W-UP-6", "R-LIFE-7")
    @pytest.mark.parametrize("endpoint", [b"http://[::1", b"http://x:abc/", b"http://\xff\xfe/"])
    async def test_an_endpoint_for_messages_that_is_no_url_ends_the_start_with_that_reason(
        self, host: Host, endpoint: bytes
    ) -> None:
        async def naming(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"event: endpoint\ndata: " + endpoint + b"\n\n")
            await asyncio.Event().wait()
            return response

        async with redirecting(naming) as url:
            odd = LaunchPlan("web", "web (display)", "sse", url=url, reconnect=NEVER)
            await host.bus.ask(await host.add(odd), StartServer())
            status = await host.until("web", phase="parked")
        assert (status.reason, status.code) == ("the server named an endpoint that is no URL", "upstream_failed")

    @spec("W-UP-6", "R-LIFE-7")
    async def test_a_session_that_no_header_can_carry_ends_the_start_with_that_reason(
        self, host: Host, server: HttpServer
    ) -> None:
        def fault(message: dict[str, Any]) -> web.StreamResponse | None:
            if message["method"] != "initialize":
                return None
            return web.json_response(server.result(message), headers={"mcp-session-id": "é"})

        server.fault = fault
        await host.bus.ask(await host.add(plan(server, reconnect=NEVER)), StartServer())
        status = await host.until("web", phase="parked")
        assert status.reason == "the server named a session that no header can carry"

    @spec("W-UP-6")
    @both
    async def test_a_call_whose_exchange_ends_in_a_way_nobody_expected_ends_at_once(
        self, host: Host, server: HttpServer, transport: str
    ) -> None:
        credentials = Unforeseen()
        host.opener = Opener(credentials=lambda _: credentials)
        await host.start(plan(server, transport))
        credentials.fails = True
        outcome = await host.call("web", "echo", timeout=30.0)
        assert (outcome.ended, outcome.executed) == ("failed", "unknown")
        assert "LookupError" in outcome.text


class TestLoss:
    @spec("F-64", "R-MCP-22")
    async def test_an_endpoint_that_is_gone_is_noticed_by_the_listening_stream(self, host: Host) -> None:
        async with serving() as server:
            await host.start(plan(server, reconnect=NEVER))
            await host.eventually_true(lambda: server.streams)
        await host.until("web", phase="parked", timeout=2.0)
        assert host.tools("web") == []

    @spec("DEC-10")
    async def test_a_call_that_finds_nobody_at_the_endpoint_was_not_executed(self, host: Host) -> None:
        async with serving() as server:
            server.listening = False
            await host.start(plan(server, reconnect=NEVER))
        outcome = await host.call("web", "echo")
        assert (outcome.ended, outcome.executed) == ("failed", "no")
        await host.until("web", phase="parked")

    @spec("R-MCP-22", "DEC-2")
    async def test_two_probes_without_an_answer_make_it_unhealthy(self, host: Host, server: HttpServer) -> None:
        await host.start(plan(server, health=HealthCheck(interval=0.2, timeout=0.2), reconnect=NEVER))
        await host.eventually_true(lambda: "ping" in server.methods())
        server.fault = lambda message: web.Response(status=500) if message.get("method") == "ping" else None
        status = await host.until("web", phase="parked")
        assert status.reason == "the server no longer answers"

    @spec("DEC-29", "F-61")
    async def test_five_transport_failures_open_the_servers_breaker_and_a_probe_closes_it(
        self, host: Host, server: HttpServer
    ) -> None:
        law = ReconnectPolicy(initial_delay=0.3, max_delay=0.3)
        await host.start(plan(server, reconnect=law))
        server.refuse_calls(500)
        for _ in range(5):
            assert (await host.call("web", "echo")).ended == "failed"
        calls = server.methods().count("tools/call")
        assert (await host.call("web", "other tool")).ended == "busy"
        assert server.methods().count("tools/call") == calls
        server.fault = lambda _: None
        await host.eventually_true(lambda: "ping" in server.methods())
        with anyio.fail_after(2.0):
            while (await host.call("web", "echo")).ended != "answered":  # noqa: ASYNC110
                await anyio.sleep(0.02)

    @spec("DEC-9", "DEC-10")
    async def test_a_call_that_was_accepted_before_the_connection_broke_is_unknown_and_not_repeated(
        self, host: Host
    ) -> None:
        async with serving() as server:
            accepted = anyio.Event()

            async def hang(message: dict[str, Any]) -> None:
                if message.get("method") == "tools/call":
                    accepted.set()
                    await asyncio.Event().wait()

            server.slow = hang
            await host.start(plan(server, reconnect=NEVER))
            outcomes: list[ToolOutcome] = []

            async def call() -> None:
                outcomes.append(await host.call("web", "echo", timeout=60.0))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await accepted.wait()
                await server.close()
                with anyio.fail_after(3.0):
                    while not outcomes:  # noqa: ASYNC110
                        await anyio.sleep(0.01)
        assert (outcomes[0].ended, outcomes[0].executed, outcomes[0].attempts) == ("failed", "unknown", 1)
        assert server.methods().count("tools/call") == 1

    @spec("DEC-12", "W-CALL-10")
    async def test_a_time_limit_is_told_to_the_server_with_the_right_id(self, host: Host, server: HttpServer) -> None:
        async def hang(message: dict[str, Any]) -> None:
            if message.get("method") == "tools/call":
                await asyncio.Event().wait()

        server.slow = hang
        await host.start(plan(server))
        assert (await host.call("web", "echo", timeout=0.2)).ended == "timeout"
        await host.eventually_true(lambda: "notifications/cancelled" in server.methods())
        call = next(message for message in server.received if message.get("method") == "tools/call")
        told = next(message for message in server.received if message.get("method") == "notifications/cancelled")
        assert told["params"]["requestId"] == call["id"]

    @spec("F-56")
    async def test_a_notification_that_hangs_keeps_no_call_from_going_out(self, host: Host, server: HttpServer) -> None:
        async def hang(message: dict[str, Any]) -> None:
            if message.get("params", {}).get("arguments", {}).get("text") == "hang":
                await asyncio.Event().wait()

        server.slow = hang
        await host.start(plan(server))
        await host.call("web", "echo", {"text": "hang"}, timeout=0.1)
        assert text_of(await host.call("web", "echo", {"text": "on"})) == "on"


class TestSecrets:
    @spec("R-INPUT-23")
    async def test_no_header_and_no_query_reaches_the_log(
        self, host: Host, server: HttpServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        secret = plan(server, url=f"{server.url}?key=hunter22", headers={"Authorization": "Bearer hunter22"})
        await host.start(secret)
        server.refuse_calls(401)
        await host.call("web", "echo")
        await host.stop("web")
        ours = [record for record in caplog.records if not record.name.startswith("aiohttp")]
        assert ours
        assert [record for record in ours if "hunter22" in record.getMessage()] == []


class redirecting:
    """An endpoint that answers every request as `handler` says."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    async def __aenter__(self) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handler)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/mcp"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


class Unforeseen(httpx2.Auth):
    """Fails, from then on, in a way that is no failure of HTTP."""

    fails = False

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self.fails:
            raise LookupError("secret")
        yield request


class Fickle(httpx2.Auth):
    """An authorization that is kept elsewhere, where nobody answers while it is `gone`."""

    gone = False

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self.gone:
            raise ActorLost("the hub closes")
        yield request


@both
@spec("DEC-10")
async def test_a_call_whose_authorization_cannot_be_looked_up_ends_at_once_as_not_executed(
    host: Host, server: HttpServer, transport: str
) -> None:
    auth = Fickle()
    host.opener = Opener(credentials=lambda _: auth)
    await host.start(plan(server, transport))
    auth.gone = True
    with anyio.fail_after(1):
        ended = await host.call("web", "echo", {"text": "hello"})
    assert (ended.ended, ended.executed) == ("failed", "no")
    auth.gone = False
    assert text_of(await host.call("web", "echo", {"text": "hello"})) == "hello"
