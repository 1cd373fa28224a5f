"""A Socket.IO server that is no Server of ours: it records what a Computer does and answers as the test wants.

For one Computer at a time, in the test's own event loop, on a free port of 127.0.0.1::

    async with RecordingServer() as server:
        ...
        reply = await server.ask("client:get_tools", {...})
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import anyio
import socketio
from aiohttp import web

NAMESPACE = "/smcp"


class RecordingServer:
    """Records in the order of arrival.

    Attributes:
        handshakes: Query of every polling or WebSocket handshake request.
        connects: `auth` and headers of every namespace connect.
        events: Name and payload of every event, join and leave included.
        refusal: Status, body and headers every HTTP request is answered with; `None` for none.
        admit: Whether a namespace connect is accepted.
        on_join: The acknowledgement of a join: `(True, None)`, or a refusal.
    """

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.handshakes: list[dict[str, str]] = []
        self.connects: list[tuple[Any, dict[str, str]]] = []
        self.events: list[tuple[str, Any]] = []
        self.refusal: tuple[int, bytes, dict[str, str]] | None = None
        self.admit = True
        self.on_join: Callable[[dict[str, Any]], tuple[bool, str | None]] = lambda _request: (True, None)
        self.before_join_ack: Callable[[], Any] | None = None
        self.sid: str | None = None
        self._news = anyio.Event()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> RecordingServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens, again on the same port after a stop."""
        self.sio = socketio.AsyncServer(async_mode="aiohttp", namespaces=[NAMESPACE], ping_interval=5)
        self.sio.on("connect", self._on_connect, namespace=NAMESPACE)
        self.sio.on("disconnect", self._on_disconnect, namespace=NAMESPACE)
        self.sio.on("*", self._on_event, namespace=NAMESPACE)
        app = web.Application(middlewares=[self._record])
        self.sio.attach(app)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    async def stop(self) -> None:
        """Drops every connection and stops listening."""
        if self._runner is not None:
            await self.sio.shutdown()
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def ask(self, event: str, payload: Any, timeout: float = 5.0) -> Any:
        """Sends an event to the Computer and returns its acknowledgement."""
        return await self.sio.call(event, payload, to=self.sid, namespace=NAMESPACE, timeout=timeout)

    async def tell(self, event: str, payload: Any) -> None:
        """Sends an event nobody acknowledges."""
        await self.sio.emit(event, payload, to=self.sid, namespace=NAMESPACE)

    async def kick(self) -> None:
        """Cuts the transport, as a lost connection does."""
        assert self.sid is not None
        await self.sio.eio.disconnect(self.sio.manager.eio_sid_from_sid(self.sid, NAMESPACE))

    async def until(self, condition: Callable[[], bool], timeout: float = 5.0) -> None:
        """Waits until something recorded makes the condition true."""
        with anyio.fail_after(timeout):
            while not condition():
                self._news = anyio.Event()
                await self._news.wait()

    def named(self, *names: str) -> list[str]:
        """The names of recorded events, of these only if given."""
        return [name for name, _ in self.events if not names or name in names]

    @web.middleware
    async def _record(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if "sid" not in request.query:
            self.handshakes.append(dict(request.query))
            self._news.set()
        if self.refusal is not None:
            status, body, headers = self.refusal
            return web.Response(status=status, body=body, headers=headers)
        response: web.StreamResponse = await handler(request)
        return response

    async def _on_connect(self, sid: str, environ: dict[str, Any], auth: Any) -> bool:
        headers = {name: value for name, value in environ.items() if name.startswith("HTTP_")}
        self.connects.append((auth, headers))
        self.sid = sid
        self._news.set()
        return self.admit

    async def _on_disconnect(self, sid: str, *_: Any) -> None:
        self.events.append(("disconnect", None))
        self._news.set()

    async def _on_event(self, event: str, _: str, payload: Any = None) -> Any:
        self.events.append((event, payload))
        self._news.set()
        if event == "server:join_office":
            if self.before_join_ack is not None:
                await self.before_join_ack()
            return self.on_join(payload)
        return (True, None) if event == "server:leave_office" else None
