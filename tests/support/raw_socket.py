"""A Socket.IO peer made of frames: what it sends is what stands in the test, what it gets is recorded as text."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import aiohttp
import anyio

NAMESPACE = "/smcp"
SEPARATOR = "\x1e"


class RawPeer:
    """One Engine.IO 4 connection.

    Attributes:
        frames: Socket.IO packets received, as text without the Engine.IO type.
        sid: Session id in the namespace, once connected there.
        closed: Whether the connection has ended.
    """

    def __init__(self, http: aiohttp.ClientSession, url: str, query: dict[str, str]) -> None:
        self._http = http
        self._url = url
        self._query = query
        self._ws: aiohttp.ClientWebSocketResponse | None = None
        self._news = asyncio.Event()
        self._id = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.open_packet: dict[str, Any] = {}
        self.frames: list[str] = []
        self.payload_sizes: list[int] = []
        self.sid = ""
        self.closed = False
        self._pausing = False
        self._transport: asyncio.Transport | None = None
        self.close_code: int | None = None

    async def open_polling(self) -> None:
        async with self._http.get(self._address(transport="polling")) as response:
            assert response.status == 200, await response.text()
            [packet] = (await response.text()).split(SEPARATOR)
        assert packet[0] == "0"
        self.open_packet = json.loads(packet[1:])
        self._query["sid"] = self.open_packet["sid"]

    async def upgrade(self) -> None:
        self._ws = await self._http.ws_connect(self._address(transport="websocket"), max_msg_size=0)
        await self._ws.send_str("2probe")
        assert await self._ws.receive_str() == "3probe"
        # As every client does: the poll that waits is answered, and no other one sent, before the transport changes.
        self._pausing = True
        await asyncio.gather(*self._tasks)
        await self._ws.send_str("5")
        self._tasks.append(asyncio.create_task(self._read()))

    async def open_websocket(self) -> None:
        self._ws = await self._http.ws_connect(self._address(transport="websocket"), max_msg_size=0)
        packet = await self._ws.receive_str()
        self.open_packet = json.loads(packet[1:])
        self._tasks.append(asyncio.create_task(self._read()))

    def start_polling(self) -> None:
        self._tasks.append(asyncio.create_task(self._poll()))

    async def send(self, *packets: str) -> None:
        """Sends Socket.IO packets; those of a polling peer in one payload."""
        await self.send_raw(*(f"4{packet}" for packet in packets))

    async def send_raw(self, *packets: str) -> None:
        if self._ws is not None:
            for packet in packets:
                await self._ws.send_str(packet)
        else:
            async with self._http.post(self._address(transport="polling"), data=SEPARATOR.join(packets)) as response:
                assert response.status == 200, await response.text()

    async def send_bytes(self, data: bytes) -> None:
        assert self._ws is not None
        await self._ws.send_bytes(data)

    async def connect(self, auth: str = "") -> str:
        """Connects to the namespace; returns the answer, whatever it is."""
        await self.send(f"0{NAMESPACE},{auth}")
        answer = await self.next(lambda frame: frame.startswith((f"0{NAMESPACE}", f"4{NAMESPACE}")))
        if answer[0] == "0":
            self.sid = json.loads(answer[answer.index(",") + 1 :])["sid"]
        return answer

    async def call(self, event: str, *payload: Any) -> list[Any]:
        """Sends an event with an id; the values of its acknowledgement."""
        head = f"3{NAMESPACE},{await self.start(event, *payload)}["
        answer = await self.next(lambda frame: frame.startswith(head))
        return list(json.loads(answer[len(head) - 1 :]))

    async def start(self, event: str, *payload: Any) -> int:
        """Sends an event with an id, without waiting; the id."""
        self._id += 1
        await self.send(f"2{NAMESPACE},{self._id}{json.dumps([event, *payload], separators=(',', ':'))}")
        return self._id

    async def emit(self, event: str, *payload: Any) -> None:
        await self.send(f"2{NAMESPACE},{json.dumps([event, *payload], separators=(',', ':'))}")

    async def answer(self, frame: str, *values: Any) -> None:
        """Acknowledges a received event."""
        number = frame[len(f"2{NAMESPACE},") : frame.index("[")]
        await self.send(f"3{NAMESPACE},{number}{json.dumps(values, separators=(',', ':'))}")

    async def join(self, role: str, name: str, office: str = "o1") -> list[Any]:
        return await self.call("server:join_office", {"role": role, "name": name, "office_id": office})

    async def next(self, wanted: Any = lambda _: True, *, seconds: float = 5.0) -> str:
        """Takes the first recorded frame that fits, waiting for it."""
        with anyio.fail_after(seconds):
            while True:
                for frame in self.frames:
                    if wanted(frame):
                        self.frames.remove(frame)
                        return frame
                if self.closed:
                    raise AssertionError(f"closed before it came; had {self.frames}")
                self._news.clear()
                await self._news.wait()

    async def until_closed(self, seconds: float = 5.0) -> None:
        with anyio.fail_after(seconds):
            while not self.closed:
                self._news.clear()
                await self._news.wait()

    async def settle(self) -> None:
        """Returns when all that the Server had sent so far has been recorded: an unknown event is answered last."""
        assert await self.call("settle:now") == []

    async def close(self) -> None:
        """Ends the connection properly."""
        if self._ws is not None:
            await self._ws.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tls_cipher(self) -> str:
        """Name of the negotiated cipher suite."""
        assert self._ws is not None
        return str(self._ws.get_extra_info("ssl_object").cipher()[0])

    def stop_reading(self) -> None:
        """Takes nothing more off the TCP connection."""
        assert self._ws is not None
        self._transport = self._ws._response.connection.transport  # type: ignore[union-attr]
        self._transport.pause_reading()  # type: ignore[union-attr]

    def resume_reading(self) -> None:
        """Takes the rest."""
        self._transport.resume_reading()  # type: ignore[union-attr]

    def cut(self) -> None:
        """Tears the TCP connection without a word."""
        assert self._ws is not None
        transport = self._ws.get_extra_info("socket")
        assert transport is not None
        self._ws._response.connection.transport.abort()  # type: ignore[union-attr]

    def _address(self, **more: str) -> str:
        return f"{self._url}/?{urlencode({**self._query, 'EIO': '4', **more})}"

    async def _read(self) -> None:
        assert self._ws is not None
        async for message in self._ws:
            if message.type is aiohttp.WSMsgType.TEXT:
                await self._take(message.data)
        self.close_code = self._ws.close_code
        self._ended()

    async def _poll(self) -> None:
        with contextlib.suppress(aiohttp.ClientError):
            while not self.closed and not self._pausing:
                async with self._http.get(self._address(transport="polling")) as response:
                    if response.status != 200:
                        break
                    packets = (await response.text()).split(SEPARATOR)
                self.payload_sizes.append(len(packets))
                for packet in packets:
                    await self._take(packet)
        if not self._pausing:
            self._ended()

    async def _take(self, packet: str) -> None:
        if packet.startswith("2"):
            await self.send_raw("3")
        elif packet.startswith("4"):
            self.frames.append(packet[1:])
        elif packet.startswith("1"):
            self._ended()
        self._news.set()

    def _ended(self) -> None:
        self.closed = True
        self._news.set()


@contextlib.asynccontextmanager
async def raw_peer(
    url: str, *, path: str = "/socket.io", version: str = "0.4.0", transport: str = "upgrade"
) -> AsyncIterator[RawPeer]:
    """An open connection, not yet in the namespace; `transport` is `upgrade`, `websocket` or `polling`."""
    async with aiohttp.ClientSession() as http:
        peer = RawPeer(http, url + path, {"a2c_version": version})
        try:
            if transport == "websocket":
                await peer.open_websocket()
            else:
                await peer.open_polling()
                await (peer.upgrade() if transport == "upgrade" else _started(peer))
            yield peer
        finally:
            await peer.close()


@contextlib.asynccontextmanager
async def member(url: str, role: str, name: str, office: str = "o1", **options: Any) -> AsyncIterator[RawPeer]:
    """A connected member of an office."""
    async with raw_peer(url, **options) as peer:
        assert (await peer.connect()).startswith("0"), "refused"
        assert await peer.join(role, name, office) == [True, None]
        yield peer


@contextlib.asynccontextmanager
async def probing(peer: RawPeer) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A WebSocket opened for the upgrade of a polling peer, on which nothing has been said."""
    async with aiohttp.ClientSession() as http, http.ws_connect(peer._address(transport="websocket")) as ws:
        yield ws


async def ended(ws: aiohttp.ClientWebSocketResponse) -> None:
    """Returns once the other side has ended a WebSocket."""
    with anyio.fail_after(6):
        while not ws.closed:
            await ws.receive()


async def _started(peer: RawPeer) -> None:
    peer.start_polling()
