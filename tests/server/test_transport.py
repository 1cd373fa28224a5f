"""What the engine does with bursts, giants, silence and greed, on every stack."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import anyio
import pytest

from smcp_runtime.server import security_log
from smcp_runtime.server.engine_parts import CLOSE_TIMEOUT
from smcp_runtime.server.limits import Limits
from smcp_runtime.server.websockets import AsgiWebSocket, WebSocket
from smcp_runtime.wire.protocol import POLLING_PACKETS_MAX
from support.office import request
from support.raw_socket import SEPARATOR, RawPeer, ended, member, probing, raw_peer
from support.servers import Serving, open_options, serving
from support.waiting import until

pytestmark = [pytest.mark.anyio]


@pytest.mark.spec("W-ARCH-2", "W-HS-3")
async def test_the_open_packet_says_what_the_protocol_expects(server: Serving) -> None:
    async with raw_peer(server.url) as peer:
        packet = peer.open_packet
        assert packet["upgrades"] == ["websocket"]
        assert (packet["pingInterval"], packet["pingTimeout"]) == (25_000, 20_000)
        assert packet["maxPayload"] == 1_000_000


@pytest.mark.spec("F-76")
async def test_a_burst_of_200_notices_in_one_polling_payload_loses_none(server: Serving) -> None:
    async with (
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "pc", transport="polling") as pc,
    ):
        await ag.next()
        notices = [f'2/smcp,["server:update_tool_list",{{"computer":"pc","n":{n}}}]' for n in range(200)]
        await pc.send(*notices)
        for _ in range(200):
            assert await ag.next() == '2/smcp,["notify:update_tool_list",{"computer":"pc"}]'
        await pc.settle()


@pytest.mark.spec("F-76", "DEC-17")
async def test_a_burst_of_200_notices_to_a_polling_peer_loses_none_and_fits_its_library(server: Serving) -> None:
    async with (
        member(server.url, "agent", "ag", transport="polling") as ag,
        member(server.url, "computer", "pc") as pc,
    ):
        await ag.next()
        for n in range(200):
            await pc.start("server:update_desktop", {"computer": "pc", "n": n})
        for _ in range(200):
            assert await ag.next() == '2/smcp,["notify:update_desktop",{"computer":"pc"}]'
        await ag.settle()
        # python-engineio's client gives up on a payload with more.
        assert max(ag.payload_sizes) <= POLLING_PACKETS_MAX == 16


@pytest.mark.spec("F-76", "W-SRV-5")
async def test_a_payload_with_more_packets_than_allowed_ends_the_connection_instead_of_losing_them(kind: str) -> None:
    options = open_options(limits=Limits(polling_packets=50))
    async with serving(kind, options) as server, aiohttp.ClientSession() as http:
        address = f"{server.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.4.0"
        async with http.get(address) as response:
            sid = json.loads((await response.text())[1:])["sid"]
        async with http.post(f"{address}&sid={sid}", data=SEPARATOR.join(["4x"] * 51)) as response:
            assert response.status == 400
        async with http.get(f"{address}&sid={sid}") as response:
            assert response.status == 400


@pytest.mark.spec("F-76", "W-GEN-7")
async def test_a_polling_body_without_a_length_is_read_all_the_same(server: Serving) -> None:
    async with member(server.url, "computer", "pc", transport="polling") as pc, aiohttp.ClientSession() as http:

        async def pieces() -> AsyncIterator[bytes]:
            for piece in (b'42/smcp,90["hel', b'lo"]\x1e42/smcp,91["hello"]'):
                yield piece

        address = f"{server.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.4.0&sid={pc.open_packet['sid']}"
        async with http.post(address, data=pieces()) as response:
            assert response.status == 200
        assert [await pc.next(), await pc.next()] == ["3/smcp,90[]", "3/smcp,91[]"]


@pytest.mark.parametrize("body", [b"\xff\xfe", b"4" + b"x" * 10_000])
async def test_a_polling_body_that_is_no_text_or_too_long_ends_the_connection(kind: str, body: bytes) -> None:
    options = open_options(limits=Limits(message_bytes=10_000))
    async with (
        serving(kind, options) as server,
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "pc", transport="polling") as pc,
        aiohttp.ClientSession() as http,
    ):
        address = f"{server.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.4.0&sid={pc.open_packet['sid']}"
        async with http.post(address, data=body) as response:
            assert response.status == 400
        await ag.next(lambda frame: "notify:leave_office" in frame)


@pytest.mark.spec("W-GEN-7")
async def test_a_polling_body_that_arrives_in_pieces_is_read_whole(server: Serving) -> None:
    async with member(server.url, "computer", "pc", transport="polling") as pc:
        await pc.send(f'2/smcp,90["hello",{{"big":"{"x" * 900_000}"}}]')
        assert await pc.next() == "3/smcp,90[]"


@pytest.mark.spec("W-GEN-7", "W-SRV-5")
@pytest.mark.parametrize("transport", ["websocket", "polling"])
async def test_a_packet_of_the_whole_limit_passes_and_one_byte_more_costs_the_connection(
    kind: str, transport: str
) -> None:
    options = open_options(limits=Limits(message_bytes=10_000))
    async with (
        serving(kind, options) as server,
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "pc", transport=transport) as pc,
    ):
        await ag.next()
        head, tail = '2/smcp,91["hello","', '"]'
        whole = head + "x" * (10_000 - 1 - len(head) - len(tail)) + tail
        await pc.send(whole)
        assert await pc.next() == "3/smcp,91[]"
        larger = whole.replace("xx", "xxx", 1)
        if transport == "polling":
            with pytest.raises(AssertionError):
                await pc.send(larger)
        else:
            await pc.send(larger)
        assert "notify:leave_office" in await ag.next()
        await pc.until_closed()
        await ag.settle()


@pytest.mark.spec("W-ROOM-25")
@pytest.mark.parametrize("transport", ["websocket", "polling"])
async def test_a_peer_that_answers_no_heartbeat_is_gone_after_interval_and_timeout(kind: str, transport: str) -> None:
    options = open_options(ping_interval=0.2, ping_timeout=0.2)
    async with (
        serving(kind, options) as server,
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "pc", transport=transport) as pc,
    ):
        await ag.next()

        async def deaf(*_: str) -> None:
            return None

        pc.send_raw = deaf  # type: ignore[method-assign]
        assert "notify:leave_office" in await ag.next(lambda frame: "notify:" in frame)
        await pc.until_closed()


@pytest.mark.spec("W-ROOM-25", "W-ROOM-6", "W-ERR-30")
async def test_a_peer_that_goes_while_its_connect_is_being_answered_leaves_its_office(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(kind) as server, raw_peer(server.url, transport="polling") as peer:
        manager = server.shell.server.manager  # type: ignore[attr-defined]
        connect, gone, gone_on_a_loop = manager.connect, threading.Event(), asyncio.Event()

        # The library tells the peer first and takes note afterwards; with threads anything may happen in between.
        def late(sid: str, namespace: str) -> Any:
            gone.wait(10)
            return connect(sid, namespace)

        async def late_on_a_loop(sid: str, namespace: str) -> Any:
            await gone_on_a_loop.wait()
            return await connect(sid, namespace)

        monkeypatch.setattr(manager, "connect", late if kind == "wsgi" else late_on_a_loop)
        connecting = asyncio.create_task(peer.send("0/smcp,"))
        await peer.next(lambda frame: frame.startswith("0/smcp"))
        try:
            assert await peer.join("agent", "ag") == [True, None]
            await peer.send_raw("1")
            await until(lambda: len(server.shell.rooms) == 0, 5)
        finally:
            gone.set()
            gone_on_a_loop.set()
            await asyncio.gather(connecting, return_exceptions=True)
        async with member(server.url, "agent", "ag") as again:
            await again.settle()


@pytest.mark.spec("W-ARCH-2")
@pytest.mark.parametrize("transport", ["websocket", "polling", "upgrade"])
async def test_a_peer_that_answers_its_heartbeats_stays(kind: str, transport: str) -> None:
    options = open_options(ping_interval=0.1, ping_timeout=0.5)
    async with serving(kind, options) as server, member(server.url, "agent", "ag", transport=transport) as ag:
        for _ in range(6):
            await asyncio.sleep(0.1)
            await ag.settle()


@pytest.mark.spec("W-SRV-5")
async def test_a_transport_that_never_connects_to_the_namespace_is_closed(kind: str) -> None:
    options = open_options(limits=Limits(namespace_timeout=0.2))
    async with serving(kind, options) as server, raw_peer(server.url) as idle, member(server.url, "agent", "ag") as ag:
        await idle.until_closed()
        await ag.settle()


@pytest.mark.spec("W-SRV-5", "W-ARCH-6")
async def test_a_peer_that_does_not_read_is_cut_off_and_slows_nobody(kind: str) -> None:
    options = open_options(limits=Limits(unsent_bytes=2_000_000))
    async with (
        serving(kind, options) as server,
        member(server.url, "computer", "stuck") as stuck,
        member(server.url, "computer", "pc") as pc,
        member(server.url, "agent", "ag") as ag,
    ):
        stuck.stop_reading()
        big = "x" * 500_000
        with anyio.fail_after(15):
            while not (lost := [frame for frame in ag.frames if "notify:leave_office" in frame]):
                await ag.start("client:get_tools", request("stuck", filler=big))
                waiting = asyncio.create_task(ag.call("client:get_config", request("pc")))
                await pc.answer(await pc.next(lambda frame: '["client:get_config"' in frame), {"servers": {}})
                assert await waiting == [{"servers": {}}]
        assert lost == ['2/smcp,["notify:leave_office",{"office_id":"o1","computer":"stuck"}]']
        # Not only its membership ended: the connection is closed too, although it never took part.
        with anyio.fail_after(6):
            while len(server.shell.engine.sockets) != 2:  # type: ignore[attr-defined]
                await ag.settle()
        await asyncio.sleep(CLOSE_TIMEOUT + 0.5)
        stuck.resume_reading()
        await stuck.until_closed(2)


@pytest.mark.spec("W-SRV-5")
@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u20ac", "\U0001f600"])
async def test_what_waits_for_a_peer_that_does_not_poll_is_counted_in_bytes(kind: str, letter: str) -> None:
    options = open_options(limits=Limits(unsent_bytes=1_000_000))
    filler = letter * (300_000 // len(letter.encode()))
    async with (
        serving(kind, options) as server,
        member(server.url, "agent", "ag") as ag,
        aiohttp.ClientSession() as http,
    ):
        stuck = RawPeer(http, f"{server.url}/socket.io", {"a2c_version": "0.4.0"})
        await stuck.open_polling()
        await stuck.send("0/smcp,")
        await stuck.start("server:join_office", {"role": "computer", "name": "stuck", "office_id": "o1"})
        await ag.next(lambda frame: "notify:enter_office" in frame)
        for n in range(4):
            assert not ag.frames, f"cut after {n} packets"
            event = json.dumps(["client:get_tools", request("stuck", filler=filler)], ensure_ascii=False)
            await ag.send(f"2/smcp,{100 + n}{event}")
            if n < 3:
                await ag.settle()
        await ag.next(lambda frame: "notify:leave_office" in frame)


@pytest.mark.spec("W-SRV-5")
def test_what_waits_for_the_writer_of_a_websocket_is_counted_in_bytes() -> None:
    async def nobody(_: WebSocket) -> None: ...

    limits = SimpleNamespace(limits=Limits(unsent_bytes=8), max_http_buffer_size=100)
    ws = AsgiWebSocket(nobody, limits)
    assert ws.write("4\u20ac\u20ac")
    assert not ws.write("4x")


@pytest.mark.spec("W-SRV-5", "DEC-28", "W-SRV-7")
async def test_connections_beyond_the_limit_of_an_address_are_refused_until_one_ends(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = open_options(limits=Limits(connections_per_address=2))
    async with serving(kind, options) as server, member(server.url, "agent", "ag") as ag:
        async with member(server.url, "computer", "pc"), aiohttp.ClientSession() as http:
            address = f"{server.url}/socket.io/?EIO=4&transport=polling&a2c_version=0.4.0"
            async with http.get(address, headers={"User-Agent": "greedy"}) as response:
                assert response.status == 403
                answer = json.loads(await response.read())
                assert (answer["code"], answer["details"]) == (403, {"reason": "rate_limited"})
        await ag.next(lambda frame: "notify:leave_office" in frame)
        async with member(server.url, "computer", "pc") as again:
            await again.settle()
    (line,) = [record for record in caplog.records if "too many connections" in record.getMessage()]
    assert (line.name, line.levelname) == (security_log.LOGGER, "WARNING")
    assert 'address="127.0.0.1"' in line.getMessage()
    assert 'user_agent="greedy"' in line.getMessage()


@pytest.mark.spec("W-SRV-5", "W-SRV-7", "DEC-28")
async def test_a_rate_limit_answers_403_and_keeps_the_connection(kind: str) -> None:
    options = open_options(limits=Limits(requests_per_second=5))
    async with serving(kind, options) as server, member(server.url, "agent", "ag") as ag:
        answers = [await ag.call("client:get_tools", request("ghost")) for _ in range(20)]
        codes = [answer[0]["code"] for answer in answers]
        assert codes.count(403) >= 10
        assert codes[-1] == 403
        refused = next(answer[0] for answer in answers if answer[0]["code"] == 403)
        assert refused["details"] == {"reason": "rate_limited"}


@pytest.mark.spec("W-ROOM-25")
async def test_a_server_that_stops_tells_every_peer_and_ends_within_seconds(kind: str) -> None:
    with anyio.fail_after(8):
        async with contextlib.AsyncExitStack() as peers:
            async with serving(kind) as server:
                ag = await peers.enter_async_context(member(server.url, "agent", "ag"))
                pc = await peers.enter_async_context(member(server.url, "computer", "pc", transport="polling"))
                ws = await peers.enter_async_context(probing(pc))
            await ag.until_closed()
            await pc.until_closed()
            await ended(ws)
        assert len(server.shell.rooms) == 0
