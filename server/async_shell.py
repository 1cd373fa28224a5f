"""The asynchronous Server: Socket.IO outside, the rooms core inside.

A packet of the protocol's namespace is handed to the core and its orders are carried out
before the next packet is looked at, without a task, a future or a wait. So a pending relay
cannot delay anything else of the same peer (W-ARCH-6). Connecting and disconnecting go
through python-socketio.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import socketio
from socketio.exceptions import ConnectionRefusedError

from ..wire.protocol import CONNECTION_REFUSED, NAMESPACE
from .auth import Credentials, why_denied
from .engine import Engine, Socket
from .options import ServerOptions
from .shell import Shell


class _SocketServer(socketio.AsyncServer):  # type: ignore[misc]
    """python-socketio's server on our engine."""

    def _engineio_server_class(self) -> type[Engine]:
        return Engine


class AsyncShell(Shell):
    """A Server on asyncio.

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
        super().__init__(options)
        self.server = _SocketServer(async_mode=async_mode, **self.socketio_options())
        self.engine: Engine = self.server.eio
        self.engine.set_up(options.limits, self._receive, self.ended, websocket, client_address)
        self.server.on("connect", self._connect, namespace=NAMESPACE)
        self.server.on("disconnect", self._disconnect, namespace=NAMESPACE)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf

    async def close(self) -> None:
        """Ends every connection; members are told as if each had left (W-ROOM-25)."""
        await self.engine.shutdown()
        if self._alarm is not None:
            self._alarm.cancel()

    def _receive(self, socket: Socket, frame: str) -> Coroutine[Any, Any, None] | None:
        """One Engine.IO message; what the core does not handle is returned as work to await."""
        if not self.take(socket, frame, socket.loop.time()):
            return self._hand_on(socket, frame[1:])
        deadline = self.rooms.next_deadline()
        if deadline < self._alarm_at:
            self._set_alarm(socket.loop, deadline)
        return None

    async def _hand_on(self, socket: Socket, text: str) -> None:
        try:
            await self.server._handle_eio_message(socket.sid, text)
        except ValueError:
            self.complain(socket)

    def _set_alarm(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = None if at == math.inf else loop.call_at(at, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self.carry_out(self.rooms.expired(max(loop.time(), self._alarm_at)))
        self._set_alarm(loop, self.rooms.next_deadline())

    async def _connect(self, sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        """Asks the provider; python-socketio answers the peer by what this does."""
        socket = self.engine.sockets.get(self.server.manager.eio_sid_from_sid(sid, NAMESPACE))
        if socket is None:
            raise ConnectionRefusedError(CONNECTION_REFUSED)
        refusal = await why_denied(self.options.auth, Credentials(environ, auth))
        if refusal is None and socket.closing:
            refusal = "gone while it was authenticated"
        if refusal is not None:
            self.refuse(socket, sid, environ, refusal)
            raise ConnectionRefusedError(CONNECTION_REFUSED)
        socket.expect_namespace(connected=True)
        version = self.admit(socket, sid, environ, socket.loop.time())
        await self.server.save_session(sid, {"a2c_version": version}, namespace=NAMESPACE)

    async def _disconnect(self, sid: str, _reason: str = "") -> None:
        socket = self.dismiss(sid)
        if isinstance(socket, Socket):
            socket.expect_namespace(connected=False)
