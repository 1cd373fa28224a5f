"""Engine.IO with threads: python-engineio's threaded server with our limits and heartbeat.

The same behaviour as `engine`, which see. Sending never waits: frames go into the queue of
the connection, which its writer thread or its polling requests empty.
"""

from __future__ import annotations

import contextlib
import queue
import socket as sockets
import threading
from collections.abc import Callable, Iterable
from typing import Any

import engineio
from engineio import exceptions, packet
from engineio.socket import Socket as LibrarySocket

from ..wire.protocol import POLLING_PACKETS_MAX
from . import engine_parts as parts
from .limits import AddressBook, Limits
from .sync_clock import Clock, Timer

_LOOK_AGAIN = 1.0

StartResponse = Callable[..., Any]


class ThreadedWebSocket:
    """A WebSocket of simple-websocket, on werkzeug or gunicorn."""

    def __init__(self, handler: Callable[[ThreadedWebSocket], Iterable[bytes]], server: Any) -> None:
        self._handler = handler
        self._message_max: int = server.max_http_buffer_size

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        import simple_websocket  # noqa: PLC0415 - only where threads serve

        self._closed: type[Exception] = simple_websocket.ConnectionClosed
        self._ws = simple_websocket.Server(environ, max_message_size=self._message_max)
        answer = self._handler(self)
        # How the two servers are told that there is no response to send.
        if self._ws.mode == "gunicorn":
            raise StopIteration
        if self._ws.mode == "werkzeug":
            raise ConnectionError
        return answer

    def wait(self) -> str | bytes | None:
        """The next message; `None` once the connection has ended."""
        try:
            # The library wakes its reader before it takes note of a message that is too big, so an end can be missed.
            while (data := self._ws.receive(_LOOK_AGAIN)) is None:
                if not self._ws.connected:
                    return None
        except self._closed:
            return None
        return data  # type: ignore[no-any-return]

    def send(self, text: str) -> None:
        """Sends a text message; waits for a peer that does not read.

        Raises:
            OSError: The connection has ended.
        """
        try:
            self._ws.send(text)
        except self._closed:
            raise OSError("closed") from None

    def close(self) -> None:
        """Starts the closing handshake."""
        with contextlib.suppress(Exception):
            self._ws.close()

    def cut(self) -> None:
        """Ends the TCP connection, which wakes whoever reads or writes."""
        with contextlib.suppress(OSError):
            self._ws.sock.shutdown(sockets.SHUT_RDWR)
        self._ws.connected = False
        self._ws.event.set()


class SyncSocket(LibrarySocket):  # type: ignore[misc]
    """One Engine.IO connection; attributes as those of `engine.Socket`."""

    server: SyncEngine
    connected: bool
    upgrading: bool

    def __init__(self, server: SyncEngine, sid: str, address: str) -> None:
        super().__init__(server, sid)
        self.address = address
        self.peer = ""
        self._websocket: ThreadedWebSocket | None = None
        self._probing: ThreadedWebSocket | None = None
        self._unsent = 0
        self._counting = threading.Lock()
        self._ending = threading.Lock()
        self._upgrade = threading.Lock()
        self._heartbeat: Timer | None = None
        self._idle: Timer | None = None

    def push(self, frame: str) -> None:
        """Sends an Engine.IO text packet without waiting. A peer that lets too much pile up is cut off."""
        if self.closed:
            return
        ready = parts.Ready(frame)
        with self._counting:
            self._unsent += ready.size
            fine = self._unsent <= self.server.limits.unsent_bytes
        self.queue.put(ready)
        if not fine and not self.closing:
            self.server.logger.warning("%s does not read what it is sent, closing", self.sid)
            self.server.clock.call_later(0, lambda: self._end(self.server.reason.TRANSPORT_ERROR))

    def send(self, pkt: Any) -> None:
        self.push(pkt.encode())

    def poll(self) -> list[Any]:
        """The packets to send next, at most as many as a polling client takes; empty once the connection is closed.

        Raises:
            QueueEmpty: There was nothing, not even a ping, for too long.
        """
        try:
            frames = [self.queue.get(timeout=self.server.ping_interval + self.server.ping_timeout)]
        except queue.Empty:
            raise exceptions.QueueEmpty from None
        with contextlib.suppress(queue.Empty):
            while len(frames) < POLLING_PACKETS_MAX and frames[-1] is not None:
                frames.append(self.queue.get_nowait())
        if frames[-1] is None:
            self.queue.put(frames.pop())  # for whoever polls after us
        with self._counting:
            self._unsent -= sum(ready.size for ready in frames)
        return frames

    def handle_post_request(self, environ: dict[str, Any]) -> None:
        """Receives a polling payload, whole or not at all.

        Raises:
            BadPayload: It exceeds the limits; the connection ends.
        """
        length = parts.payload_length(environ, self.server.max_http_buffer_size)
        for frame in parts.payload_frames(environ["wsgi.input"].read(length), self.server.limits):
            self._take(frame)

    def close(self, wait: bool = True, abort: bool = False, reason: str | None = None) -> None:
        """Ends the connection, as `engine.Socket.close` does."""
        if not self._ending.acquire(blocking=False):
            return
        super().close(wait=False, abort=abort, reason=reason)
        self.server.ended(self)
        for timer in (self._heartbeat, self._idle):
            if timer is not None:
                timer.cancel()
        self.server.forget(self)
        if (probing := self._probing) is not None:
            probing.cut()
        if self._websocket is not None:
            # The writer closes politely; a peer that does not read would keep it from that.
            self.server.clock.call_later(parts.CLOSE_TIMEOUT, self._websocket.cut)

    def schedule_ping(self) -> None:
        """Starts the next round of the heartbeat."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if not self.closed:
            self._heartbeat = self.server.clock.call_later(self.server.ping_interval, self._ping)

    def expect_namespace(self, *, connected: bool) -> None:
        """A transport outside the namespace has to connect to it in time, or to go."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not connected and not self.closed:
            wait = self.server.limits.namespace_timeout
            self._idle = self.server.clock.call_later(wait, lambda: self._end(self.server.reason.TRANSPORT_ERROR))

    def _websocket_handler(self, ws: ThreadedWebSocket) -> Iterable[bytes]:
        """Serves a WebSocket from its opening to its end."""
        if self.connected:
            if not self._probe(ws):
                ws.close()
                return []
        else:
            self.connected = self.upgraded = True
        self._websocket = ws
        writer = threading.Thread(target=self._write_all, args=(ws,), daemon=True)
        writer.start()
        try:
            while not self.closed and (data := ws.wait()) is not None:
                if isinstance(data, str):
                    self._take(data)
        finally:
            self.close(wait=False, abort=True, reason=self.server.reason.TRANSPORT_CLOSE)
            writer.join(parts.CLOSE_TIMEOUT)
            ws.cut()
            writer.join()
        return []

    def _write_all(self, ws: ThreadedWebSocket) -> None:
        """Sends what is pushed, in order, until the connection ends."""
        with contextlib.suppress(OSError, exceptions.QueueEmpty):
            while frames := self.poll():
                for ready in frames:
                    if (frame := ready.frame) != parts.NOOP:
                        ws.send(frame)
        ws.close()

    def _probe(self, ws: ThreadedWebSocket) -> bool:
        """The upgrade of a polling connection, as `engine.Socket` has it."""
        if not self._upgrade.acquire(blocking=False):
            return False
        self.upgrading, self._probing = True, ws
        patience = self.server.clock.call_later(parts.PROBE_TIMEOUT, ws.cut)
        try:
            # Looked at after `_probing` is set, so that a `close` in another thread either is seen or sees us.
            if self.closing or ws.wait() != parts.PROBE:
                return False
            ws.send(parts.PROBED)
            self.push(parts.NOOP)  # ends a poll that is waiting
            self.upgraded = ws.wait() == parts.UPGRADE and not self.closed
            return bool(self.upgraded)
        finally:
            patience.cancel()
            self.upgrading, self._probing = False, None
            if not self.upgraded:
                self._upgrade.release()

    def _take(self, frame: str) -> None:
        """Handles one packet from the client."""
        kind = frame[:1]
        if kind == parts.MESSAGE:
            self.server.receiver(self, frame)
        elif kind == parts.PONG:
            self.schedule_ping()
        elif kind == parts.CLOSE:
            self.close(wait=False, abort=True, reason=self.server.reason.CLIENT_DISCONNECT)

    def _ping(self) -> None:
        wait = self.server.ping_timeout
        # First, because the answer may come in another thread before `push` returns, and has to find it.
        self._heartbeat = self.server.clock.call_later(wait, lambda: self._end(self.server.reason.PING_TIMEOUT))
        self.push(parts.PING)

    def _end(self, reason: str) -> None:
        self.close(wait=False, abort=True, reason=reason)


class SyncEngine(engineio.Server):  # type: ignore[misc]
    """The threaded Engine.IO server under a shell, which completes it with `set_up` before the first request."""

    receiver: Callable[[SyncSocket, str], None]
    ended: Callable[[SyncSocket], None]
    limits: Limits
    clock: Clock
    _async: dict[str, Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(monitor_clients=False, **options)
        self._addresses = AddressBook(None)
        self._counting = threading.Lock()

    def set_up(
        self,
        limits: Limits,
        receiver: Callable[[SyncSocket, str], None],
        ended: Callable[[SyncSocket], None],
        clock: Clock,
    ) -> None:
        """Completes the construction, which the Socket.IO library begins."""
        self.limits, self.clock = limits, clock
        self.receiver, self.ended = receiver, ended
        self._addresses = AddressBook(limits.connections_per_address)
        self._async = {**self._async, "websocket": ThreadedWebSocket}

    def forget(self, socket: SyncSocket) -> None:
        """Drops a closed connection."""
        with self._counting:
            if self.sockets.pop(socket.sid, None) is not None:
                self._addresses.release(socket.address)

    def shutdown(self) -> None:
        """Closes all connections; peers will try to come back."""
        for socket in list(self.sockets.values()):
            socket.close(wait=False, abort=True, reason=self.reason.SERVER_DISCONNECT)

    def _handle_connect(
        self, environ: dict[str, Any], start_response: StartResponse, transport: str, jsonp_index: int | None = None
    ) -> Any:
        """Opens a connection, unless its address has too many (W-SRV-5)."""
        address = environ.get("REMOTE_ADDR", "")
        with self._counting:
            if not self._addresses.admit(address):
                return parts.too_many_connections(environ, address)
            socket = SyncSocket(self, self.generate_id(), address)
            self.sockets[socket.sid] = socket
        socket.send(packet.Packet(packet.OPEN, parts.open_packet(self, socket.sid, transport)))
        self._trigger_event("connect", socket.sid, environ, run_async=False)
        socket.schedule_ping()
        socket.expect_namespace(connected=False)
        if transport == "websocket":
            return socket.handle_get_request(environ, start_response)
        socket.connected = True
        return self._ok(socket.poll(), jsonp_index=jsonp_index)
