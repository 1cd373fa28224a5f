"""The synchronous Server: the same core as the asynchronous one, behind a lock and threads (W-ARCH-7).

The lock is held while one packet is decided and its orders are queued, never while anybody
waits for a peer. A WSGI server with threads runs it: `create_wsgi_app`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any

import socketio
from socketio.exceptions import ConnectionRefusedError

from ..wire.protocol import CONNECTION_REFUSED, NAMESPACE
from ..wire.version import on_path
from .auth import Credentials, why_denied_sync
from .options import ServerOptions
from .shell import Peer, Shell
from .sync_clock import Clock, Timer
from .sync_engine import SyncEngine, SyncSocket
from .version_gate import WsgiVersionGate


class _SocketServer(socketio.Server):  # type: ignore[misc]
    """python-socketio's threaded server on our engine."""

    def _engineio_server_class(self) -> type[SyncEngine]:
        return SyncEngine


class SyncShell(Shell):
    """A Server on threads."""

    def __init__(self, options: ServerOptions) -> None:
        super().__init__(options)
        self.clock = Clock()
        self.server = _SocketServer(async_mode="threading", async_handlers=False, **self.socketio_options())
        self.engine: SyncEngine = self.server.eio
        self.engine.set_up(options.limits, self._receive, self.ended, self.clock)
        self.server.on("connect", self._connect, namespace=NAMESPACE)
        self.server.on("disconnect", self._disconnect, namespace=NAMESPACE)
        self._lock = threading.Lock()
        self._alarm: Timer | None = None
        self._alarm_at = math.inf

    def close(self) -> None:
        """Ends every connection; members are told as if each had left (W-ROOM-25)."""
        self.engine.shutdown()
        self.clock.stop()

    def ended(self, socket: Peer) -> None:
        with self._lock:
            super().ended(socket)

    def _receive(self, socket: SyncSocket, frame: str) -> None:
        """One Engine.IO message."""
        with self._lock:
            taken = self.take(socket, frame, self.clock.now())
            deadline = self.rooms.next_deadline()
            if deadline < self._alarm_at:
                self._set_alarm(deadline)
        if not taken:
            try:
                self.server._handle_eio_message(socket.sid, frame[1:])
            except ValueError:
                self.complain(socket)

    def _set_alarm(self, at: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = None if at == math.inf else self.clock.call_at(at, self._expire)

    def _expire(self) -> None:
        with self._lock:
            self.carry_out(self.rooms.expired(self.clock.now()))
            self._set_alarm(self.rooms.next_deadline())

    def _connect(self, sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        """Asks the provider; python-socketio answers the peer by what this does."""
        socket = self.engine.sockets.get(self.server.manager.eio_sid_from_sid(sid, NAMESPACE))
        if socket is None:
            raise ConnectionRefusedError(CONNECTION_REFUSED)
        refusal = why_denied_sync(self.options.auth, Credentials(environ, auth))
        with self._lock:
            if refusal is None and socket.closing:
                refusal = "gone while it was authenticated"
            version = None if refusal is not None else self.admit(socket, sid, environ, self.clock.now())
        if refusal is not None:
            self.refuse(socket, sid, environ, refusal)
            raise ConnectionRefusedError(CONNECTION_REFUSED)
        socket.expect_namespace(connected=True)
        self.server.save_session(sid, {"a2c_version": version}, namespace=NAMESPACE)

    def _disconnect(self, sid: str, _reason: str = "") -> None:
        with self._lock:
            socket = self.dismiss(sid)
        if isinstance(socket, SyncSocket):
            socket.expect_namespace(connected=False)


class SmcpWsgiApp:
    """The WSGI application of a Server; answers 404 outside its Socket.IO path.

    Run it with one process and a thread per connection (werkzeug, gunicorn's gthread worker). `close` ends all
    connections.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.shell = SyncShell(options)
        self._path = options.socketio_path
        self._gate = WsgiVersionGate(
            self._behind_the_gate, socketio_path=options.socketio_path, version=options.protocol_version
        )

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._gate(environ, start_response)

    def close(self) -> None:
        """Ends every connection."""
        self.shell.close()

    def _behind_the_gate(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if on_path(environ.get("PATH_INFO", ""), self._path):
            answer: Iterable[bytes] = self.shell.engine.handle_request(environ, start_response)
            return answer
        start_response("404 Not Found", [("content-length", "0")])
        return [b""]


def create_wsgi_app(options: ServerOptions | None = None) -> SmcpWsgiApp:
    """A WSGI application with one Server in it; the same wire as the asynchronous one (W-ARCH-7)."""
    return SmcpWsgiApp(options or ServerOptions())
