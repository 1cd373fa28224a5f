"""Connecting: what a refusal does, and how the transport is chosen."""

from __future__ import annotations

import gzip
import logging
from urllib.parse import parse_qs

import anyio
import pytest
from aiohttp import web

from smcp_runtime.bus.link import LinkOptions, SmcpLink
from smcp_runtime.bus.link.engine import MESSAGE_MAX
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.errors import AuthError, ConfigValidationError, NetworkError, ProtocolVersionError
from support.scripted_server import Relay, ScriptedServer

pytestmark = pytest.mark.anyio

REFUSED = (
    b'{"code": 4008, "message": "Protocol version mismatch", "server_version": "0.5.0", "client_version": "0.4.0", '
    b'"min_supported": "0.5.0", "max_supported": "0.5.999"}'
)
QUICK = Backoff(initial=0.01, longest=0.02)


def link_to(url: str, **options: object) -> SmcpLink:
    return SmcpLink(LinkOptions(url=url, backoff=QUICK, **options), on_event=lambda *_event: None)  # type: ignore[arg-type]


def refuse(body: bytes, status: int = 400, **headers: str) -> object:
    return lambda _request: web.Response(status=status, body=body, content_type="application/json", headers=headers)


@pytest.mark.spec("W-HS-1", "W-HS-2", "R-LIFE-10", "V-1")
async def test_every_request_declares_the_version_and_keeps_the_callers_query() -> None:
    async with ScriptedServer() as server:
        link = link_to(f"{server.url}?tenant=a%20b&a2c_version=9.9.9")
        await link.connect()
        await link.disconnect()
        assert {kind for kind, _query in server.requests} == {"GET", "WEBSOCKET"}
        for _kind, query in server.requests:
            assert parse_qs(query)["a2c_version"] == ["0.4.0"]
            assert parse_qs(query)["tenant"] == ["a b"]


@pytest.mark.spec("W-HS-3", "DEC-17")
async def test_the_first_request_polls_and_traffic_starts_after_the_upgrade() -> None:
    async with ScriptedServer() as server:
        link = link_to(server.url)
        await link.connect()
        assert link.transport == "websocket"
        await link.join("agent", "a", "o")
        await link.disconnect()
        assert [kind for kind, _query in server.requests] == ["GET", "WEBSOCKET"]
        assert "transport=polling" in server.requests[0][1]


@pytest.mark.spec("W-HS-3")
async def test_a_websocket_only_list_is_corrected_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedServer() as server:
        with caplog.at_level(logging.WARNING):
            link = link_to(server.url, transports=("websocket",))
        await link.connect()
        await link.disconnect()
        assert server.requests[0][0] == "GET"
        assert "transports" in caplog.text


@pytest.mark.spec("H-11", "W-HS-4", "R-LIFE-12", "R-ERR-4")
async def test_a_version_refusal_ends_the_connection_after_one_request() -> None:
    async with ScriptedServer() as server:
        server.refusal = refuse(REFUSED, **{"X-A2C-Error-Code": "4008"})  # type: ignore[assignment]
        link = link_to(server.url)
        with pytest.raises(ProtocolVersionError) as refused:
            await link.connect()
        assert link.state == "ended"
        assert refused.value.client_version == "0.4.0"
        assert refused.value.server_version == "0.5.0"
        assert refused.value.min_supported == "0.5.0"
        assert refused.value.max_supported == "0.5.999"
        assert len(server.requests) == 1


@pytest.mark.spec("W-HS-5")
@pytest.mark.parametrize("body", [b"", b"not json", b'{"message": "?"}'])
async def test_a_version_refusal_is_recognised_by_its_header_alone(body: bytes) -> None:
    async with ScriptedServer() as server:
        server.refusal = refuse(body, **{"X-A2C-Error-Code": "4008"})  # type: ignore[assignment]
        with pytest.raises(ProtocolVersionError) as refused:
            await link_to(server.url).connect()
        assert refused.value.server_version is None
        assert len(server.requests) == 1


@pytest.mark.spec("W-HS-4", "R-LIFE-12")
async def test_a_version_refusal_during_a_reconnect_is_not_retried() -> None:
    async with ScriptedServer() as server:
        link = link_to(server.url)
        await link.connect()
        server.requests.clear()
        server.refusal = refuse(REFUSED)  # type: ignore[assignment]
        await server.kick()
        with anyio.fail_after(5), pytest.raises(ProtocolVersionError):
            await link.wait_for("joined")
        await anyio.sleep(0.1)  # several retries would fit in here
        assert [kind for kind, _query in server.requests] == ["GET"]
        assert isinstance(link.failure, ProtocolVersionError)
        await link.disconnect()


@pytest.mark.spec("W-HS-6", "W-HS-20")
async def test_a_plain_400_is_no_version_error() -> None:
    async with ScriptedServer() as server:
        server.refusal = refuse(b'{"code": 400, "message": "Missing a2c_version query parameter"}')  # type: ignore[assignment]
        with pytest.raises(NetworkError) as refused:
            await link_to(server.url).connect()
        assert refused.value.details == {"status": 400, "code": 400}
        assert "Missing a2c_version query parameter" in str(refused.value)


@pytest.mark.spec("W-HS-7")
async def test_close_code_4900_is_explained_by_one_polling_request() -> None:
    async with ScriptedServer() as server:
        server.websocket = 4900
        polls = 0

        def second_poll_is_refused(request: web.Request) -> web.Response | None:
            nonlocal polls
            polls += request.method == "GET" and "Upgrade" not in request.headers
            return web.Response(status=400, body=REFUSED) if polls == 2 else None

        server.refusal = second_poll_is_refused
        with pytest.raises(ProtocolVersionError) as refused:
            await link_to(server.url).connect()
        assert refused.value.server_version == "0.5.0"
        assert [kind for kind, _query in server.requests] == ["GET", "WEBSOCKET", "GET"]


@pytest.mark.spec("W-HS-7")
async def test_close_code_4900_without_a_body_leaves_the_versions_empty() -> None:
    async with ScriptedServer() as server:
        server.websocket = 4900
        with pytest.raises(ProtocolVersionError) as refused:
            await link_to(server.url).connect()
        assert (refused.value.server_version, refused.value.client_version) == (None, None)
        assert "WebSocket" in str(refused.value)


@pytest.mark.spec("W-HS-7")
async def test_close_code_4900_on_a_running_connection_ends_the_link() -> None:
    async with ScriptedServer() as server:
        revoked = anyio.Event()

        async def accept_then_revoke(ws: web.WebSocketResponse) -> None:
            assert await ws.receive_str() == "2probe"
            await ws.send_str("3probe")
            assert await ws.receive_str() == "5"
            assert (await ws.receive_str()).startswith("40/smcp,")
            await ws.send_str('40/smcp,{"sid":"1"}')
            await revoked.wait()
            await ws.close(code=4900)

        server.websocket = accept_then_revoke
        link = link_to(server.url)
        await link.connect()
        server.requests.clear()
        server.refusal = refuse(REFUSED)  # type: ignore[assignment]
        revoked.set()
        with anyio.fail_after(5), pytest.raises(ProtocolVersionError) as refused:
            await link.wait_for("joined")
        assert refused.value.min_supported == "0.5.0"
        await anyio.sleep(0.1)
        assert [kind for kind, _query in server.requests] == ["GET"]
        await link.disconnect()


@pytest.mark.spec("DEC-17")
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_an_answer_to_a_poll_is_read_only_up_to_the_bound_of_a_message(encoding: str) -> None:
    body = b"4" * (MESSAGE_MAX + 1)
    body = gzip.compress(body) if encoding == "gzip" else body
    async with ScriptedServer() as server:
        server.refusal = lambda request: (
            web.Response(body=body, headers={"Content-Encoding": encoding, "Content-Type": "text/plain"})
            if request.method == "GET" and "sid" in request.query
            else None
        )
        with anyio.fail_after(10), pytest.raises(NetworkError, match=f"more than {MESSAGE_MAX} bytes") as lost:
            await link_to(server.url, transports=("polling",)).connect()
        assert lost.value.code == "connection_lost"


@pytest.mark.spec("DEC-17", "W-HS-2")
@pytest.mark.parametrize("obstacle", ["refuse", "silent"])
async def test_without_an_upgrade_the_link_goes_on_polling(obstacle: str) -> None:
    async with ScriptedServer() as server:
        server.websocket = obstacle
        link = link_to(server.url, connect_timeout=1.0)
        with anyio.fail_after(5):
            await link.connect()
            assert link.transport == "polling"
            await link.join("agent", "a", "o")
            await link.disconnect()
        assert {kind for kind, _query in server.requests} >= {"GET", "POST"}
        assert all(parse_qs(query)["a2c_version"] == ["0.4.0"] for _kind, query in server.requests)


@pytest.mark.spec("R-LIFE-12")
async def test_a_server_that_cannot_be_reached_is_a_network_error() -> None:
    with pytest.raises(NetworkError) as failed:
        await link_to("http://127.0.0.1:1").connect()
    assert failed.value.code == "unreachable"
    assert failed.value.retryable


@pytest.mark.spec("R-LIFE-12")
async def test_a_server_that_does_not_answer_is_given_up_at_the_connect_timeout() -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay:
        relay.freeze()
        with anyio.fail_after(3), pytest.raises(NetworkError) as failed:
            await link_to(relay.url, connect_timeout=0.3).connect()
        assert failed.value.code == "connect_timeout"


@pytest.mark.spec("W-HS-6")
async def test_what_is_no_socketio_server_is_a_network_error() -> None:
    async with ScriptedServer() as server:
        server.refusal = lambda _request: web.Response(text="<html>hello</html>")
        with pytest.raises(NetworkError) as failed:
            await link_to(server.url).connect()
        assert failed.value.code == "handshake_refused"


@pytest.mark.spec("W-AUTH-5", "W-AUTH-8", "R-LIFE-12")
async def test_a_refused_namespace_is_an_authentication_error_and_not_retried() -> None:
    async with ScriptedServer() as server:
        server.deny = True
        link = link_to(server.url, auth={"token": "wrong"})
        with pytest.raises(AuthError) as refused:
            await link.connect()
        assert "wrong" not in str(refused.value)
        await anyio.sleep(0.1)
        assert server.credentials == [{"token": "wrong"}]


@pytest.mark.spec("R-LIFE-12")
@pytest.mark.parametrize("status", [401, 403])
async def test_http_status_401_and_403_are_authentication_errors(status: int) -> None:
    async with ScriptedServer() as server:
        server.refusal = lambda _request: web.Response(status=status)
        with pytest.raises(AuthError):
            await link_to(server.url).connect()


@pytest.mark.spec("W-AUTH-8", "R-LIFE-13")
async def test_credentials_are_asked_for_again_at_every_attempt() -> None:
    issued = 0

    async def fresh() -> dict[str, str]:
        nonlocal issued
        issued += 1
        return {"token": f"t{issued}"}

    async with ScriptedServer() as server:
        link = link_to(server.url, auth=fresh)
        await link.connect()
        await server.kick()
        await server.until(lambda: len(server.credentials) == 2)
        assert server.credentials == [{"token": "t1"}, {"token": "t2"}]
        await link.disconnect()


@pytest.mark.spec("W-AUTH-8", "R-LIFE-12")
async def test_credentials_refused_at_a_reconnect_end_the_link() -> None:
    async with ScriptedServer() as server:
        link = link_to(server.url)
        await link.connect()
        server.deny = True
        await server.kick()
        with anyio.fail_after(5), pytest.raises(AuthError):
            await link.wait_for("joined")
        await anyio.sleep(0.1)
        assert len(server.credentials) == 2
        await link.disconnect()


async def test_a_credential_source_that_fails_once_does_not_end_the_link() -> None:
    outcomes = iter([{"token": "1"}, OSError("vault is down"), {"token": "2"}])

    def source() -> dict[str, str]:
        outcome = next(outcomes)
        if isinstance(outcome, OSError):
            raise outcome
        return outcome

    async with ScriptedServer() as server:
        link = link_to(server.url, auth=source)
        await link.connect()
        await server.kick()
        await server.until(lambda: server.credentials == [{"token": "1"}, {"token": "2"}])
        await link.disconnect()


async def test_a_credential_source_that_hangs_costs_one_attempt_and_not_the_link() -> None:
    asked = 0

    async def source() -> dict[str, str]:
        nonlocal asked
        asked += 1
        if asked in {1, 3}:
            await anyio.sleep(60)
        return {"token": str(asked)}

    async with ScriptedServer() as server:
        link = link_to(server.url, auth=source, connect_timeout=0.5)
        with anyio.fail_after(5), pytest.raises(NetworkError) as refused:
            await link.connect()
        assert refused.value.code == "no_credentials"
        await link.connect()
        await server.kick()
        await server.until(lambda: server.credentials == [{"token": "2"}, {"token": "4"}])
        await link.disconnect()


@pytest.mark.spec("W-AUTH-3", "R-LIFE-22")
async def test_a_role_in_the_credentials_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigValidationError) as refused:
        link_to("http://127.0.0.1:1", auth={"role": "agent"})
    assert refused.value.field == "auth.role"


@pytest.mark.spec("W-GEN-7", "DEC-18")
async def test_credentials_no_server_would_take_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigValidationError) as refused:
        link_to("http://127.0.0.1:1", auth={"token": "x" * 1_000_000})
    assert (refused.value.field, refused.value.code) == ("auth", "too_large")


@pytest.mark.spec("W-AUTH-1")
@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"x-token": "s3cret\r\nx-other: 1"}, "headers.x-token"),
        ({"x-token": "s3cret\0"}, "headers.x-token"),
        ({"x-token": 5}, "headers.x-token"),
        ({"x-token": None}, "headers.x-token"),
        ({"x token": "s3cret"}, "headers"),
        ({"": "s3cret"}, "headers"),
        ({5: "s3cret"}, "headers"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused_and_not_quoted(headers: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigValidationError) as refused:
        link_to("http://127.0.0.1:1", headers=headers)
    assert refused.value.field == field
    assert "s3cret" not in str(refused.value)


@pytest.mark.spec("W-AUTH-1", "W-AUTH-2")
async def test_headers_travel_with_every_request_and_an_empty_auth_is_an_empty_object() -> None:
    seen = []

    def look(request: web.Request) -> None:
        seen.append(request.headers.get("x-api-key"))

    async with ScriptedServer() as server:
        server.refusal = look
        link = link_to(server.url, headers={"x-api-key": "k"})
        await link.connect()
        await link.disconnect()
        assert server.credentials == [None]  # python-socketio hands an empty object over as nothing
        assert seen == ["k", "k"]


async def test_a_path_in_the_url_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    link_to("http://127.0.0.1:1/smcp")
    assert "/smcp" in caplog.text
