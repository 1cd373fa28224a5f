"""Authentication over real sockets, on every stack (01 §3)."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable
from typing import Any

import aiohttp
import pytest

from smcp_runtime.server import auth as auth_module
from smcp_runtime.server.auth import Credentials, Headers, TokenAuth
from smcp_runtime.server.options import ServerOptions
from support.raw_socket import RawPeer, raw_peer
from support.servers import Serving, serving

pytestmark = [pytest.mark.anyio]

REFUSED = '4/smcp,{"message":"Connection refused by server"}'


async def connect(server: Serving, auth: str = "") -> str:
    async with raw_peer(server.url) as peer:
        return await peer.connect(auth)


@pytest.mark.spec("W-AUTH-1", "W-AUTH-5", "W-ARCH-7", "W-ERR-2")
@pytest.mark.parametrize(
    ("auth", "allowed"),
    [
        ('{"token":"s3cret"}', True),
        ('{"token":"other"}', True),
        ('{"token":"wrong"}', False),
        ('{"token":""}', False),
        ('{"token":5}', False),
        ('{"TOKEN":"s3cret"}', False),
        ("{}", False),
        ("", False),
        ('"s3cret"', False),
        ("[]", False),
    ],
)
async def test_a_token_decides_and_a_refused_peer_never_sees_itself_connected(
    kind: str, auth: str, allowed: bool
) -> None:
    async with serving(kind, ServerOptions(auth=TokenAuth(["s3cret", "other"]))) as server:
        answer = await connect(server, auth)
        assert answer.startswith('0/smcp,{"sid":') if allowed else answer == REFUSED


@pytest.mark.spec("W-AUTH-1")
async def test_a_token_may_also_come_in_the_configured_header(kind: str) -> None:
    async with (
        serving(kind, ServerOptions(auth=TokenAuth(["s3cret"]))) as server,
        aiohttp.ClientSession(headers={"X-API-Key": "s3cret"}) as http,
    ):
        peer = RawPeer(http, server.url + "/socket.io", {"a2c_version": "0.4.0"})
        await peer.open_websocket()
        assert (await peer.connect()).startswith("0")
        await peer.close()


@pytest.mark.spec("W-AUTH-10")
async def test_a_server_nobody_gave_a_secret_denies_everybody(kind: str) -> None:
    async with serving(kind, ServerOptions()) as server:
        for auth in ("", "{}", '{"token":""}', '{"token":"guess"}', '{"token":null}'):
            assert await connect(server, auth) == REFUSED


@pytest.mark.spec("W-AUTH-2", "W-AUTH-3")
@pytest.mark.parametrize("auth", ["", "{}", '{"role":"computer"}', '{"any":{"thing":[1]}}'])
async def test_anonymous_access_once_switched_on_takes_any_auth_and_derives_nothing_from_it(
    server: Serving, auth: str
) -> None:
    async with raw_peer(server.url) as peer:
        assert (await peer.connect(auth)).startswith("0")
        assert await peer.join("agent", "ag") == [True, None]


@pytest.mark.spec("W-AUTH-4")
@pytest.mark.parametrize("flavour", ["function", "coroutine", "object"])
async def test_a_provider_sees_environment_auth_and_headers_and_may_be_sync_or_async(kind: str, flavour: str) -> None:
    seen: list[Credentials] = []

    def function(credentials: Credentials) -> bool:
        seen.append(credentials)
        return bool(credentials.auth == {"a": 1})

    async def coroutine(credentials: Credentials) -> bool:
        await asyncio.sleep(0)
        return function(credentials)

    class Provider:
        async def __call__(self, credentials: Credentials) -> bool:
            return await coroutine(credentials)

    provider: Any = {"function": function, "coroutine": coroutine, "object": Provider()}[flavour]
    async with serving(kind, ServerOptions(auth=provider)) as server:
        assert (await connect(server, '{"a":1}')).startswith("0")
        assert await connect(server, '{"a":2}') == REFUSED
        assert await connect(server) == REFUSED
    assert [credentials.auth for credentials in seen] == [{"a": 1}, {"a": 2}, {}]
    assert "aiohttp" in seen[0].headers["user-agent"]
    assert seen[0].headers["USER-AGENT"] == seen[0].environ["HTTP_USER_AGENT"]
    assert "a2c_version=0.4.0" in seen[0].environ["QUERY_STRING"]


@pytest.mark.spec("W-AUTH-4", "W-AUTH-5", "W-SRV-7", "W-SRV-8")
@pytest.mark.parametrize("error", [TypeError("leak me"), RuntimeError("leak me"), KeyError("leak me")])
async def test_a_provider_that_raises_denies_and_leaks_nothing(
    kind: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Credentials) -> bool:
        raise error

    async with serving(kind, ServerOptions(auth=broken)) as server:
        assert await connect(server, '{"token":"leak me"}') == REFUSED
    assert "leak me" not in caplog.text
    assert f"authentication failed with {type(error).__name__}" in caplog.text


@pytest.mark.spec("W-AUTH-4")
@pytest.mark.parametrize("blocks", [False, True])
async def test_a_provider_that_never_answers_denies(
    monkeypatch: pytest.MonkeyPatch, kind: str, *, blocks: bool
) -> None:
    monkeypatch.setattr(auth_module, "PROVIDER_TIMEOUT", 0.1)
    ending = threading.Event()

    async def stuck(_: Credentials) -> bool:
        await asyncio.Event().wait()
        return True

    def blocked(_: Credentials) -> bool:
        return ending.wait(10)

    async with serving(kind, ServerOptions(auth=blocked if blocks else stuck)) as server:
        assert await connect(server) == REFUSED
        ending.set()


@pytest.mark.spec("W-AUTH-4", "W-ARCH-7")
@pytest.mark.parametrize("allowed", [False, True])
async def test_a_plain_function_may_return_something_to_await(kind: str, *, allowed: bool) -> None:
    async def decide(_: Credentials) -> bool:
        return allowed

    def plain(credentials: Credentials) -> Awaitable[bool]:
        return decide(credentials)

    async with serving(kind, ServerOptions(auth=plain)) as server:
        assert (await connect(server) == REFUSED) is not allowed


@pytest.mark.spec("W-AUTH-5")
async def test_a_blocking_provider_stops_nobody_else() -> None:
    gate = threading.Event()

    def slow(credentials: Credentials) -> bool:
        return credentials.auth == {} or gate.wait(5)

    async with (
        serving("aiohttp", ServerOptions(auth=slow)) as server,
        raw_peer(server.url) as waiting,
        raw_peer(server.url) as quick,
    ):
        await waiting.send('0/smcp,{"wait":1}')
        assert (await quick.connect()).startswith("0")
        gate.set()
        assert (await waiting.next()).startswith("0/smcp")


@pytest.mark.spec("W-AUTH-6", "W-ARCH-7")
async def test_events_before_or_after_a_refused_connect_are_ignored_without_an_ack(kind: str) -> None:
    async with serving(kind, ServerOptions(auth=TokenAuth(["s3cret"]))) as server, raw_peer(server.url) as peer:
        join = '["server:join_office",{"role":"agent","name":"ag","office_id":"o1"}]'
        await peer.send(f"2/smcp,1{join}")
        assert await peer.connect('{"token":"wrong"}') == REFUSED
        await peer.send(f"2/smcp,2{join}", "3/smcp,1[{}]")
        assert (await peer.connect('{"token":"s3cret"}')).startswith("0")
        await peer.settle()
        assert peer.frames == []
        assert len(server.shell.rooms.offices) == 0


@pytest.mark.spec("W-AUTH-6", "W-ARCH-2")
@pytest.mark.parametrize("namespace", ["/", "/other", "/smcp2"])
async def test_any_other_namespace_is_refused(server: Serving, namespace: str) -> None:
    async with raw_peer(server.url) as peer:
        await peer.send("0" if namespace == "/" else f"0{namespace},")
        expected = '4"Unable to connect"' if namespace == "/" else f'4{namespace},"Unable to connect"'
        assert await peer.next() == expected


@pytest.mark.spec("W-AUTH-6")
async def test_a_second_connect_on_one_transport_is_refused_and_harms_nothing(server: Serving) -> None:
    async with raw_peer(server.url) as peer:
        assert (await peer.connect()).startswith("0")
        assert (await peer.connect()).startswith("4")
        assert await peer.join("agent", "ag") == [True, None]


@pytest.mark.spec("W-SRV-7", "W-SRV-8", "W-AUTH-5")
async def test_a_refusal_is_logged_with_address_and_user_agent_and_without_the_credential(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(kind, ServerOptions(auth=TokenAuth(["s3cret"]))) as server:
        await connect(server, json.dumps({"token": "hunter2", "password": "hunter3"}))
    [line] = [r.getMessage() for r in caplog.records if r.name == "smcp_runtime.server.security" and r.levelno >= 30]
    assert line.startswith('authentication failed address="127.0.0.1" user_agent="')
    assert line.endswith("code=401")
    assert "hunter" not in caplog.text
    assert "s3cret" not in caplog.text
    assert logging.getLogger("smcp_runtime.server.socketio").level >= logging.WARNING


@pytest.mark.spec("W-AUTH-10")
@pytest.mark.parametrize("tokens", [[], [""]])
def test_an_empty_token_is_no_token(tokens: list[str]) -> None:
    provider = TokenAuth(tokens)
    for auth in ({}, {"token": ""}, {"token": None}, None):
        assert not provider(Credentials({"HTTP_X_API_KEY": ""}, auth))


@pytest.mark.spec("W-AUTH-10")
def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    genuine = auth_module.hmac.compare_digest

    def watch(shown: bytes, known: bytes) -> bool:
        compared.append((len(shown), len(known)))
        return genuine(shown, known)

    monkeypatch.setattr(auth_module.hmac, "compare_digest", watch)
    provider = TokenAuth(["a", "b" * 100, "c"])
    assert provider(Credentials({}, {"token": "a"}))
    assert not provider(Credentials({}, {"token": "x"}))
    # Every token every time, and always digests of one length.
    assert compared == [(32, 32)] * 6


@pytest.mark.spec("W-AUTH-1")
def test_field_and_header_are_configuration() -> None:
    provider = TokenAuth(["t"], field="api_key", header="authorization")
    assert provider(Credentials({}, {"api_key": "t"}))
    assert provider(Credentials({"HTTP_AUTHORIZATION": "t"}, None))
    assert not provider(Credentials({"HTTP_X_API_KEY": "t"}, {"token": "t"}))
    assert not TokenAuth(["t"], field=None)(Credentials({}, {"token": "t"}))


def test_a_single_string_of_tokens_is_a_mistake() -> None:
    with pytest.raises(TypeError):
        TokenAuth("secret")


def test_headers_are_a_mapping_without_regard_to_case() -> None:
    headers = Headers({"HTTP_X_API_KEY": "1", "CONTENT_TYPE": "text/plain", "wsgi.input": None})
    assert dict(headers) == {"x-api-key": "1", "content-type": "text/plain"}
    assert (headers["X-Api-Key"], headers.get("missing"), len(headers)) == ("1", None, 2)


@pytest.mark.spec("W-SRV-8")
def test_neither_provider_nor_credentials_show_secrets_when_printed() -> None:
    assert "s3cret" not in repr(TokenAuth(["s3cret"]))
    assert "s3cret" not in repr(Credentials({"HTTP_X_API_KEY": "s3cret"}, {"token": "s3cret"}))
