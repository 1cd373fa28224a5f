"""The version check over real HTTP and WebSocket, on every stack (01 §2.2…§2.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import aiohttp
import pytest
from yarl import URL

from smcp_runtime.server.app import create_asgi_app
from smcp_runtime.server.version_gate import AsgiVersionGate, WsgiVersionGate
from support.raw_socket import member, raw_peer
from support.servers import Serving, asgi_server, open_options, serving

pytestmark = [pytest.mark.anyio, pytest.mark.spec("W-ARCH-7")]

MISSING = b'{"code": 400, "message": "Missing a2c_version query parameter"}'


def invalid(raw: str) -> bytes:
    return b'{"code": 400, "message": "Invalid a2c_version: Invalid version: %s"}' % raw.encode()


def mismatch(client: str) -> bytes:
    return (
        b'{"code": 4008, "message": "Protocol version mismatch", "server_version": "0.4.0", "client_version": "%s", '
        b'"min_supported": "0.4.0", "max_supported": "0.4.999"}' % client.encode()
    )


class Answer:
    """Status, body and headers of an HTTP answer."""

    def __init__(self, status: int, body: bytes, headers: Any) -> None:
        self.status, self.body, self.headers = status, body, headers


async def get(url: str, query: str, path: str = "/socket.io/", headers: dict[str, str] | None = None) -> Answer:
    """One request whose query string is sent exactly as given."""
    address = URL(f"{url}{path}?{query}", encoded=True)
    async with aiohttp.ClientSession() as http, http.get(address, headers=headers) as response:
        return Answer(response.status, await response.read(), response.headers)


async def polling(url: str, version_query: str, path: str = "/socket.io/") -> Answer:
    return await get(url, "&".join(part for part in ("EIO=4", "transport=polling", version_query) if part), path)


def assert_rejected(answer: Answer, body: bytes) -> None:
    assert (answer.status, answer.body) == (400, body)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-length"] == str(len(body))
    expected = "4008" if b"4008" in body else None
    assert answer.headers.get("X-A2C-Error-Code") == expected


@pytest.mark.spec("H-1", "H-10", "W-HS-14", "W-HS-16")
@pytest.mark.parametrize(
    "query",
    [
        "a2c_version=0.4.0",
        "a2c_version=0.4.99",
        "a2c_version=0.4.0&a2c_version=0.3.0",
        "a2c_version=0%2E4%2E0",
        "x=1&a2c_version=0.4.0&y=2",
    ],
)
async def test_a_compatible_version_opens_a_connection(server: Serving, query: str) -> None:
    answer = await polling(server.url, query)
    assert answer.status == 200
    assert answer.body.startswith(b'0{"sid":')


@pytest.mark.spec("H-2", "W-HS-22", "W-HS-17", "W-HS-25", "W-ERR-2")
@pytest.mark.parametrize("version", ["0.3.0", "0.5.0", "1.4.0"])
async def test_an_incompatible_version_gets_the_exact_4008_body(server: Serving, version: str) -> None:
    assert_rejected(await polling(server.url, f"a2c_version={version}"), mismatch(version))


@pytest.mark.spec("H-3", "W-HS-16", "W-HS-17", "W-HS-19")
async def test_from_version_one_on_a_newer_server_takes_older_clients_only(kind: str) -> None:
    async with serving(kind, open_options(protocol_version="1.2.0")) as server:
        assert (await polling(server.url, "a2c_version=1.0.0")).status == 200
    async with serving(kind, open_options(protocol_version="1.0.0")) as server:
        assert_rejected(
            await polling(server.url, "a2c_version=1.2.0"),
            b'{"code": 4008, "message": "Protocol version mismatch", "server_version": "1.0.0", '
            b'"client_version": "1.2.0", "min_supported": "1.0.0", "max_supported": "1.0.999"}',
        )


@pytest.mark.spec("H-4", "W-HS-20", "W-HS-14")
@pytest.mark.parametrize("query", ["", "a2c_version=", "a2c_version", "A2C_VERSION=0.4.0"])
async def test_a_missing_or_empty_version_gets_its_exact_body(server: Serving, query: str) -> None:
    assert_rejected(await polling(server.url, query), MISSING)


@pytest.mark.spec("H-4", "W-HS-13")
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_every_later_request_is_checked_too(server: Serving, method: str) -> None:
    async with raw_peer(server.url, transport="polling") as peer:
        query = f"EIO=4&transport=polling&sid={peer.open_packet['sid']}"
        async with (
            aiohttp.ClientSession() as http,
            http.request(
                method, f"{server.url}/socket.io/?{query}", data=b"40/smcp," if method == "POST" else None
            ) as r,
        ):
            assert_rejected(Answer(r.status, await r.read(), r.headers), MISSING)
        assert (await peer.connect()).startswith("0")


@pytest.mark.spec("H-5", "H-6", "W-HS-15", "W-HS-21")
@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("abc", "abc"),
        ("0.4", "0.4"),
        ("0.4.0.1", "0.4.0.1"),
        ("0.4.x", "0.4.x"),
        ("v0.4.0", "v0.4.0"),
        ("0.4.0-dev", "0.4.0-dev"),
        ("-0.4.0", "-0.4.0"),
        ("0_0.4.0", "0_0.4.0"),
        ("%200.4.0", " 0.4.0"),
        ("+0.4.0", " 0.4.0"),
        ("0.4.0%0a", "0.4.0\\n"),
        ("%D9%A0.4.0", "\\u0660.4.0"),
        ("0.4.0%22", '0.4.0\\"'),
        ("1234567890.4.0", "1234567890.4.0"),
    ],
)
async def test_a_malformed_version_gets_its_exact_body(server: Serving, sent: str, shown: str) -> None:
    assert_rejected(await polling(server.url, f"a2c_version={sent}"), invalid(shown))


@pytest.mark.spec("H-7", "W-HS-11")
async def test_a_websocket_alone_is_accepted_after_the_check(server: Serving) -> None:
    async with member(server.url, "computer", "pc", transport="websocket") as pc:
        await pc.settle()


@pytest.mark.spec("H-7", "W-HS-23")
async def test_an_incompatible_websocket_gets_the_bytes_of_polling(server: Serving) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for query, body in (("a2c_version=0.3.0", mismatch("0.3.0")), ("", MISSING), ("a2c_version=x", invalid("x"))):
        assert_rejected(await get(server.url, f"EIO=4&transport=websocket&{query}", headers=upgrade), body)


@pytest.mark.spec("H-7", "W-HS-24", "W-HS-25", "DEC-20")
@pytest.mark.parametrize("query", ["a2c_version=0.3.0", "", "a2c_version=x"])
async def test_a_stack_without_denial_responses_shows_close_code_4900(query: str) -> None:
    app = create_asgi_app(open_options())

    async def poorer(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        extensions = {name: value for name, value in (scope.get("extensions") or {}).items() if "http" not in name}
        await app({**scope, "extensions": extensions}, receive, send)

    async with asgi_server(poorer) as url, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{url}/socket.io/?EIO=4&transport=websocket&{query}") as ws:
            message = await ws.receive()
            assert message.type is aiohttp.WSMsgType.CLOSE
            assert ws.close_code == 4900
            assert message.extra
            assert len(message.extra.encode()) <= 123
        assert app.shell.engine.sockets == {}


@pytest.mark.spec("H-8", "W-HS-10")
async def test_a_broken_connect_handler_does_not_get_around_the_check(kind: str) -> None:
    def broken(_: Any) -> bool:
        raise RuntimeError

    async with serving(kind, open_options(auth=broken)) as server:
        assert_rejected(await polling(server.url, "a2c_version=0.3.0"), mismatch("0.3.0"))


@pytest.mark.spec("H-9", "W-HS-12")
@pytest.mark.parametrize(
    ("path", "intercepted"),
    [
        ("/socket.io", True),
        ("/socket.io/", True),
        ("/socket.io/deeper", True),
        ("/socket.iofoo/", False),
        ("/other", False),
        ("/", False),
        ("/x/socket.io/", False),
    ],
)
async def test_only_the_socketio_path_is_intercepted(server: Serving, path: str, intercepted: bool) -> None:
    answer = await polling(server.url, "", path)
    if intercepted:
        assert_rejected(answer, MISSING)
    else:
        assert answer.status == 404


@pytest.mark.spec("W-ARCH-3", "W-HS-12")
@pytest.mark.parametrize("path", ["/smcp", "smcp/", "/deep/er/path/"])
async def test_the_mount_path_is_a_choice_of_the_deployment(kind: str, path: str) -> None:
    async with serving(kind, open_options(socketio_path=path)) as server:
        mount = "/" + path.strip("/")
        assert_rejected(await polling(server.url, "", mount + "/"), MISSING)
        assert (await polling(server.url, "", "/socket.io/")).status == 404
        async with member(server.url, "computer", "pc", path=mount) as pc:
            await pc.settle()


@pytest.mark.spec("W-HS-18", "W-ROOM-3")
async def test_the_declared_version_is_shown_raw_in_the_room(server: Serving) -> None:
    async with member(server.url, "agent", "ag", version="0.4.00007") as ag:
        [room] = await ag.call("server:list_room", {"agent": "ag", "req_id": "1", "office_id": "o1"})
        assert room["sessions"] == [
            {"sid": ag.sid, "name": "ag", "office_id": "o1", "role": "agent", "a2c_version": "0.4.00007"}
        ]


@pytest.mark.spec("W-HS-11")
async def test_other_scopes_pass_the_gate_untouched() -> None:
    seen: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError("the gate must not touch this")

    gate = AsgiVersionGate(app)
    receive: Callable[[], Awaitable[Any]] = nothing
    await gate({"type": "lifespan"}, receive, nothing)
    await gate({"type": "http", "path": "/elsewhere", "query_string": b""}, receive, nothing)
    assert seen == ["lifespan", "http"]


@pytest.mark.spec("W-HS-24")
async def test_a_client_that_is_gone_before_the_refusal_gets_nothing() -> None:
    async def disconnected() -> dict[str, Any]:
        return {"type": "websocket.disconnect", "code": 1006}

    async def send(_: Any) -> None:
        raise AssertionError("nobody is there")

    async def app(*_: Any) -> None:
        raise AssertionError("not admitted")

    scope = {"type": "websocket", "path": "/socket.io/", "query_string": b""}
    await AsgiVersionGate(app)(scope, disconnected, send)


def test_a_gate_for_no_version_is_a_mistake_of_the_deployer() -> None:
    for gate in (AsgiVersionGate, WsgiVersionGate):
        with pytest.raises(ValueError, match="MAJOR"):
            gate(lambda *_: None, version="0.4")  # type: ignore[operator, arg-type, return-value]
