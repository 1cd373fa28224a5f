"""The asynchronous Server: Socket.IO outside, the rooms core inside, nothing decided here.

A packet of the protocol's namespace takes the short way: cut at its joints, handed to the
core, orders carried out, all before the next packet is looked at and without a task, a
future or a wait. So a pending relay cannot delay anything else of the same peer
(W-ARCH-6). Connecting and disconnecting go through python-socketio.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Any

import socketio
from socketio.exceptions import ConnectionRefusedError

from ..wire.packet import ACK, EVENT, MalformedPacket, RawPacket, split
from ..wire.protocol import CONNECTION_REFUSED, NAMESPACE
from ..wire.version import declared_version
from . import security_log
from .auth import Credentials, allowed
from .engine import Engine, Socket
from .options import ServerOptions
from .orders import Ack, Emit, Log, Relay
from .rooms import Orders, Rooms
from .security_log import Record

EVENT_HEAD = f"4{EVENT}{NAMESPACE},"
ACK_HEAD = f"4{ACK}{NAMESPACE},"


class SocketServer(socketio.AsyncServer):  # type: ignore[misc]
    """python-socketio's server on our engine."""

    def _engineio_server_class(self) -> type[Engine]:
        return Engine


class AsyncShell:
    """Carries packets to the core and orders back.

    Args:
        options: Choices of the deployer.
        async_mode: `aiohttp` or `asgi`, as python-socketio names its drivers.
        websocket: The WebSocket class of that driver.
        client_address: Address of a client by the environment of its request.
    """

    def __init__(
        self,
        options: ServerOptions,
        *,
        async_mode: str,
        websocket: Callable[..., Any],
        client_address: Callable[[dict[str, Any]], str],
    ) -> None:
        self._options = options
        self.rooms = Rooms(
            options.limits,
            known_offices=options.known_offices,
            hide_names=options.hide_names,
            audit=options.audit and logging.getLogger(security_log.LOGGER).isEnabledFor(logging.INFO),
        )
        self.server = SocketServer(
            async_mode=async_mode,
            serializer=RawPacket,
            always_connect=False,
            namespaces=[NAMESPACE],
            ping_interval=options.ping_interval,
            ping_timeout=options.ping_timeout,
            max_http_buffer_size=options.limits.message_bytes,
            cors_allowed_origins=options.cors_allowed_origins,
            logger=quiet_logger(),
            engineio_logger=quiet_logger(),
        )
        self.engine: Engine = self.server.eio
        self.engine.set_up(options.limits, self._receive, websocket, client_address)
        self.server.on("connect", self._connect, namespace=NAMESPACE)
        self.server.on("disconnect", self._disconnect, namespace=NAMESPACE)
        self._peers: dict[str, Socket] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    async def close(self) -> None:
        """Ends every connection; members are told as if each had left (W-ROOM-25)."""
        await self.engine.shutdown()
        if self._alarm is not None:
            self._alarm.cancel()

    def _receive(self, socket: Socket, frame: str) -> Coroutine[Any, Any, None] | None:
        """One Socket.IO packet; what is not an event or an acknowledgement of ours is returned as work to await."""
        if frame.startswith(EVENT_HEAD):
            start = frame.find("[", len(EVENT_HEAD))
            digits = frame[len(EVENT_HEAD) : start]
            if start > 0 and len(digits) < 16 and (not digits or (digits.isascii() and digits.isdigit())):
                self._event(socket, frame[start:], int(digits) if digits else None)
                return None
        elif frame.startswith(ACK_HEAD):
            start = frame.find("[", len(ACK_HEAD))
            digits = frame[len(ACK_HEAD) : start]
            if start > 0 and len(digits) < 16 and digits.isascii() and digits.isdigit():
                self._carry_out(self.rooms.acknowledged(socket.peer, int(digits), frame[start:]))
                return None
        return self._receive_unusual(socket, frame)

    def _receive_unusual(self, socket: Socket, frame: str) -> Coroutine[Any, Any, None] | None:
        """The same for packets that look different: no array, many digits, attachments, other namespaces."""
        try:
            parts = split(frame[1:])
        except MalformedPacket:
            self._complain(socket)
            return None
        if parts.namespace != NAMESPACE or parts.type not in (EVENT, ACK):
            return self._hand_on(socket, frame[1:])
        if parts.type == EVENT:
            self._event(socket, parts.body, parts.id, binary=parts.binary)
        elif parts.id is not None:
            self._carry_out(self.rooms.acknowledged(socket.peer, parts.id, parts.body, binary=parts.binary))
        return None

    async def _hand_on(self, socket: Socket, text: str) -> None:
        try:
            await self.server._handle_eio_message(socket.sid, text)
        except (MalformedPacket, ValueError):
            self._complain(socket)

    def _event(self, socket: Socket, body: str, ack_id: int | None, *, binary: bool = False) -> None:
        now = socket.loop.time()
        self._carry_out(self.rooms.event(socket.peer, body, ack_id, now, binary=binary))
        deadline = self.rooms.next_deadline()
        if deadline < self._alarm_at:
            self._set_alarm(socket.loop, deadline)

    def _carry_out(self, orders: Orders) -> None:
        peers = self._peers
        for order in orders:
            if isinstance(order, Relay):
                self._push(peers.get(order.sid), f"{EVENT_HEAD}{order.id}{order.body}")
            elif isinstance(order, Ack):
                self._push(peers.get(order.sid), f"{ACK_HEAD}{order.id}{order.body}")
            elif isinstance(order, Emit):
                frame = EVENT_HEAD + order.body
                for sid in order.sids:
                    self._push(peers.get(sid), frame)
            else:
                security_log.write(order.record)

    def _push(self, socket: Socket | None, frame: str) -> None:
        if socket is not None:
            socket.push(frame)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = None if at == math.inf else loop.call_at(at, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._carry_out(self.rooms.expired(max(loop.time(), self._alarm_at)))
        self._set_alarm(loop, self.rooms.next_deadline())

    async def _connect(self, sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        """Asks the provider; python-socketio answers the peer by what this does."""
        engine_sid = self.server.manager.eio_sid_from_sid(sid, NAMESPACE)
        socket = self.engine.sockets.get(engine_sid)
        agent = str(environ.get("HTTP_USER_AGENT", ""))
        if socket is None:
            raise ConnectionRefusedError(CONNECTION_REFUSED)
        try:
            refused = None if await allowed(self._options.auth, Credentials(environ, auth)) else "authentication failed"
        except Exception as error:  # a provider that breaks must not let anybody in (W-AUTH-4)
            refused = f"authentication failed with {type(error).__name__}"
        if refused is not None:
            security_log.write(
                Record(level="warning", action=refused, address=socket.address, user_agent=agent, sid=sid, code=401)
            )
            raise ConnectionRefusedError(CONNECTION_REFUSED)
        version = declared_version(environ.get("QUERY_STRING", ""))
        await self.server.save_session(sid, {"a2c_version": version}, namespace=NAMESPACE)
        socket.expect_namespace(connected=True)
        socket.peer = sid
        self._peers[sid] = socket
        now = socket.loop.time()
        self._carry_out(self.rooms.connected(sid, now, version=version, address=socket.address, user_agent=agent))

    async def _disconnect(self, sid: str, _reason: str = "") -> None:
        socket = self._peers.pop(sid, None)
        if socket is not None:
            socket.peer = ""
            socket.expect_namespace(connected=False)
        self._carry_out(self.rooms.disconnected(sid))

    def _complain(self, socket: Socket) -> None:
        record = Record(level="warning", action="malformed packet", address=socket.address, sid=socket.peer)
        self._carry_out((Log(record),))


def quiet_logger() -> logging.Logger:
    """For the libraries: their information lines quote packets, so they never get that far (W-SRV-8)."""
    logger = logging.getLogger("smcp_runtime.server.socketio")
    logger.setLevel(max(logging.WARNING, logger.level))
    return logger
