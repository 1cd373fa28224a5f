"""WebSockets of a Server: text out without waiting, text in one message at a time.

python-engineio puts a queue and a writer task between a handler and the socket, which a
relay pays for twice per call. Here a packet is handed over at once: to the transport where
we run on aiohttp, to one writer per connection where ASGI leaves no other way. Neither ever
makes the sender wait for a peer that does not read; what piles up for it is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from aiohttp.web import WebSocketResponse

from .engine_parts import CLOSE_TIMEOUT, Ready

_TEXT = 0x81


class WebSocket(Protocol):
    """What the engine needs of a WebSocket."""

    def write(self, text: str) -> bool:
        """Sends a text message; false if the peer has let too much pile up. Dropped in silence once closed."""

    async def read(self) -> str | bytes | None:
        """The next message; `None` once the connection has ended."""

    async def close(self) -> None:
        """Ends the connection, after a short while even if the peer does not take part."""


Handler = Callable[[WebSocket], Awaitable[None]]


class AiohttpWebSocket:
    """On aiohttp: frames go straight to the transport, which sends what one turn of the loop wrote in one go.

    Compression is off: for small JSON it costs more than the bytes it saves.
    """

    def __init__(self, handler: Handler, server: Any) -> None:
        from aiohttp.web import WebSocketResponse  # noqa: PLC0415 - only where aiohttp serves

        self._handler = handler
        self._unsent_max: int = server.limits.unsent_bytes
        # aiohttp refuses what reaches its limit, the protocol what exceeds it.
        self._response: WebSocketResponse = WebSocketResponse(
            max_msg_size=server.max_http_buffer_size + 1, compress=False, timeout=CLOSE_TIMEOUT / 2
        )
        self._transport: asyncio.WriteTransport | None = None

    async def __call__(self, environ: dict[str, Any]) -> WebSocketResponse:
        request = environ["aiohttp.request"]
        await self._response.prepare(request)
        self._transport = request.transport
        await self._handler(self)
        return self._response

    def write(self, text: str) -> bool:
        transport = self._transport
        if transport is None or self._response.closed or transport.is_closing():
            return True
        data = text.encode()
        length = len(data)
        if length < 126:
            head = bytes((_TEXT, length))
        elif length < 65_536:
            head = struct.pack("!BBH", _TEXT, 126, length)
        else:
            head = struct.pack("!BBQ", _TEXT, 127, length)
        transport.write(head + data)
        return transport.get_write_buffer_size() <= self._unsent_max

    async def read(self) -> str | bytes | None:
        message = await self._response.receive()
        data = message.data
        return data if isinstance(data, str | bytes) else None

    async def close(self) -> None:
        with contextlib.suppress(Exception):
            # A peer that does not read would keep the closing handshake from ever leaving this machine.
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._response.close()
            return
        if self._transport is not None:
            self._transport.abort()


class AsgiWebSocket:
    """On ASGI: `send` may wait for the peer, so one writer per connection does that for everybody."""

    def __init__(self, handler: Handler, server: Any) -> None:
        self._handler = handler
        self._unsent_max: int = server.limits.unsent_bytes
        self._message_max: int = server.max_http_buffer_size
        self._outbox: deque[Ready] = deque()
        self._unsent = 0
        self._news = asyncio.Event()
        self._ending = False
        self._cut = False
        self._finished = False
        self._reader: asyncio.Task[Any] | None = None

    async def __call__(self, environ: dict[str, Any]) -> str:
        self._receive = environ["asgi.receive"]
        self._send = environ["asgi.send"]
        self._reader = asyncio.current_task()
        await self._send({"type": "websocket.accept"})
        writer = asyncio.create_task(self._write_all())
        try:
            await self._handler(self)
        finally:
            self._ending = self._finished = True
            self._news.set()
            await asyncio.wait([writer], timeout=CLOSE_TIMEOUT)
            writer.cancel()
            await asyncio.wait([writer])
        return ""

    def write(self, text: str) -> bool:
        if self._ending:
            return True
        ready = Ready(text)
        self._outbox.append(ready)
        self._unsent += ready.size
        self._news.set()
        return self._unsent <= self._unsent_max

    async def read(self) -> str | bytes | None:
        try:
            event = await self._receive()
        except asyncio.CancelledError:
            if not self._cut or self._reader is None:
                raise
            self._reader.uncancel()
            return None
        if event["type"] != "websocket.receive":
            return None
        text = event.get("text")
        data: str | bytes | None = text if text is not None else event.get("bytes")
        return None if data is not None and len(data) > self._message_max else data

    async def close(self) -> None:
        if not self._ending:
            self._ending = True
            self._news.set()
            # A peer that does not read blocks the writer, and then nothing but this ends the connection.
            asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, self._cut_off)

    def _cut_off(self) -> None:
        if self._reader is not None and not self._finished:
            self._cut = True
            self._reader.cancel()

    async def _write_all(self) -> None:
        """Sends what was written, in order, then closes. Ends early when the server says the peer is gone."""
        with contextlib.suppress(Exception):
            while self._outbox or not self._ending:
                while self._outbox:
                    ready = self._outbox.popleft()
                    await self._send({"type": "websocket.send", "text": ready.frame})
                    self._unsent -= ready.size
                self._news.clear()
                if not self._ending:
                    await self._news.wait()
            await self._send({"type": "websocket.close"})
