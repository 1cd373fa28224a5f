"""Engine.IO for a relay: python-engineio's server with a short way through it.

Kept from the library: the HTTP side of both transports, session bookkeeping and everything
a client can observe. Replaced: the per-connection queue and writer task (`websockets`), the
task and timer per received packet, and the background sweep for silent peers, whose work a
timer per connection does at the exact moment. A payload of a polling client may hold as
many packets as the limits say, and never more than 16 are given to it at once, because that
is what the library's own client takes (F-76, DEC-17).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import engineio
from engineio import exceptions, packet
from engineio.async_socket import AsyncSocket

from ..wire.protocol import POLLING_PACKETS_MAX
from . import engine_parts as parts
from .limits import AddressBook, Limits
from .websockets import WebSocket

_SHUTDOWN = 3.0

Receiver = Callable[["Socket", str], Coroutine[Any, Any, None] | None]
"""Takes an Engine.IO message; returns something to await only when it must wait."""


class Socket(AsyncSocket):  # type: ignore[misc]
    """One Engine.IO connection.

    Attributes:
        peer: Session id in the protocol's namespace; `""` until it is connected there.
        address: Address of the client.
        loop: The event loop that serves it.
    """

    server: Engine
    connected: bool
    upgrading: bool

    def __init__(self, server: Engine, sid: str, address: str) -> None:
        super().__init__(server, sid)
        self.address = address
        self.peer = ""
        self.loop = asyncio.get_running_loop()
        self._websocket: WebSocket | None = None
        self._probing: WebSocket | None = None
        self._waiting: deque[parts.Ready] = deque()
        self._unsent = 0
        self._news = asyncio.Event()
        self._heartbeat: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None

    def push(self, frame: str) -> None:
        """Sends an Engine.IO text packet without waiting. A peer that lets too much pile up is cut off."""
        if self._websocket is not None:
            fine = self._websocket.write(frame)
        elif self.closed:
            return
        else:
            ready = parts.Ready(frame)
            self._waiting.append(ready)
            self._unsent += ready.size
            self._news.set()
            fine = self._unsent <= self.server.limits.unsent_bytes
        if not fine and not self.closing:
            self.server.logger.warning("%s does not read what it is sent, closing", self.sid)
            self._end_soon(self.server.reason.TRANSPORT_ERROR)

    async def send(self, pkt: Any) -> None:
        self.push(pkt.encode())

    async def poll(self) -> list[Any]:
        """The packets of one polling response; empty once the connection was closed meanwhile.

        Raises:
            QueueEmpty: The client was sent nothing, not even a ping, for too long.
        """
        if not self._waiting and not self.closed:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), self.server.ping_interval + self.server.ping_timeout)
            except TimeoutError:
                raise exceptions.QueueEmpty from None
        frames = [self._waiting.popleft() for _ in range(min(len(self._waiting), POLLING_PACKETS_MAX))]
        self._unsent -= sum(ready.size for ready in frames)
        return frames

    async def handle_post_request(self, environ: dict[str, Any]) -> None:
        """Receives a polling payload, whole or not at all.

        Raises:
            BadPayload: It exceeds the limits; the connection ends.
        """
        length = parts.payload_length(environ, self.server.max_http_buffer_size)
        body = b""
        # A long body arrives in pieces, and a read gives whatever is there.
        while len(body) < length and (piece := await environ["wsgi.input"].read(length - len(body))):
            body += piece
        for frame in parts.payload_frames(body, self.server.limits):
            await self._take(frame)

    async def close(self, wait: bool = True, abort: bool = False, reason: str | None = None) -> None:
        """Ends the connection; the peer's session has been taken care of when this returns.

        With `abort` the peer is sent no CLOSE packet: its library would take that as a wish never to see it again,
        while it comes back by itself after an end of the transport.
        """
        if self.closed or self.closing:
            return
        await super().close(wait=False, abort=abort, reason=reason)
        self.server.ended(self)
        for timer in (self._heartbeat, self._idle):
            if timer is not None:
                timer.cancel()
        self._news.set()
        self.server.forget(self)
        if (ws := self._websocket or self._probing) is not None:
            await ws.close()

    def schedule_ping(self) -> None:
        """Starts the next round of the heartbeat."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self._heartbeat = self.loop.call_later(self.server.ping_interval, self._ping)

    def expect_namespace(self, *, connected: bool) -> None:
        """A transport outside the namespace has to connect to it in time, or to go."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not connected and not self.closed:
            reason = self.server.reason.TRANSPORT_ERROR
            self._idle = self.loop.call_later(self.server.limits.namespace_timeout, self._end_soon, reason)

    async def _websocket_handler(self, ws: WebSocket) -> None:
        """Serves a WebSocket from its opening to its end."""
        if self.connected:
            if not await self._probe(ws):
                await ws.close()
                return
        else:
            self.connected = self.upgraded = True
        self._websocket = ws
        while self._waiting:
            frame = self._waiting.popleft().frame
            if frame != parts.NOOP:
                ws.write(frame)
        try:
            while not self.closed and (data := await ws.read()) is not None:
                if isinstance(data, str):
                    await self._take(data)
        finally:
            await self.close(wait=False, abort=True, reason=self.server.reason.TRANSPORT_CLOSE)
            await ws.close()

    async def _probe(self, ws: WebSocket) -> bool:
        """The upgrade of a polling connection; what is sent meanwhile waits for the new transport.

        One at a time and soon over: the limits count connections, not WebSockets, and a poll is not held meanwhile.
        """
        if self.upgrading or self.upgraded or self.closing:
            return False
        self.upgrading, self._probing = True, ws
        try:
            async with asyncio.timeout(parts.PROBE_TIMEOUT):
                if await ws.read() != parts.PROBE:
                    return False
                ws.write(parts.PROBED)
                self.push(parts.NOOP)  # ends a poll that is waiting
                self.upgraded = await ws.read() == parts.UPGRADE and not self.closed
                return bool(self.upgraded)
        except TimeoutError:
            return False
        finally:
            self.upgrading, self._probing = False, None

    async def _take(self, frame: str) -> None:
        """Handles one packet from the client."""
        kind = frame[:1]
        if kind == parts.MESSAGE:
            waiting = self.server.receiver(self, frame)
            if waiting is not None:
                await waiting
        elif kind == parts.PONG:
            self.schedule_ping()
        elif kind == parts.CLOSE:
            await self.close(wait=False, abort=True, reason=self.server.reason.CLIENT_DISCONNECT)

    def _ping(self) -> None:
        self.push(parts.PING)
        reason = self.server.reason.PING_TIMEOUT
        self._heartbeat = self.loop.call_later(self.server.ping_timeout, self._end_soon, reason)

    def _end_soon(self, reason: str) -> None:
        self.server.own(self.close(wait=False, abort=True, reason=reason))


class Engine(engineio.AsyncServer):  # type: ignore[misc]
    """The Engine.IO server under a shell, which completes it with `set_up` before the first request."""

    receiver: Receiver
    ended: Callable[[Socket], None]
    limits: Limits
    client_address: Callable[[dict[str, Any]], str]
    _async: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(monitor_clients=False, **options)
        self._addresses = AddressBook(None)
        self._tasks: set[asyncio.Task[None]] = set()

    def set_up(
        self,
        limits: Limits,
        receiver: Receiver,
        ended: Callable[[Socket], None],
        websocket: Callable[..., Any],
        client_address: Callable[[dict[str, Any]], str],
    ) -> None:
        """Completes the construction, which the Socket.IO library begins."""
        self.limits, self.client_address = limits, client_address
        self.receiver, self.ended = receiver, ended
        self._addresses = AddressBook(limits.connections_per_address)
        self._async = {**self._async, "websocket": websocket}

    def own(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something to its end; `shutdown` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, socket: Socket) -> None:
        """Drops a closed connection."""
        if self.sockets.pop(socket.sid, None) is not None:
            self._addresses.release(socket.address)

    async def shutdown(self) -> None:
        """Closes all connections within a few seconds; peers will try to come back."""
        for socket in list(self.sockets.values()):
            self.own(socket.close(wait=False, abort=True, reason=self.reason.SERVER_DISCONNECT))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_SHUTDOWN)

    async def _handle_connect(self, environ: dict[str, Any], transport: str, jsonp_index: int | None = None) -> Any:
        """Opens a connection, unless its address has too many (W-SRV-5)."""
        address = self.client_address(environ)
        if not self._addresses.admit(address):
            return parts.too_many_connections(environ, address)
        socket = Socket(self, self.generate_id(), address)
        self.sockets[socket.sid] = socket
        await socket.send(packet.Packet(packet.OPEN, parts.open_packet(self, socket.sid, transport)))
        await self._trigger_event("connect", socket.sid, environ, run_async=False)
        socket.schedule_ping()
        socket.expect_namespace(connected=False)
        if transport == "websocket":
            return await socket.handle_get_request(environ)
        socket.connected = True
        return self._ok(await socket.poll(), jsonp_index=jsonp_index)
