"""A Socket.IO Server whose every answer the test writes, on real sockets in the test's own event loop.

It is python-socketio's server, so an implementation of the transport that is not ours, with
a gate before it that can refuse requests, spoil the WebSocket, and counts what arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import socketio
from aiohttp import web

NAMESPACE = "/smcp"

Answer = Callable[[Any], Any]


class ScriptedServer:
    """Listens on 127.0.0.1; `async with ScriptedServer() as server`.

    Attributes:
        answers: What to acknowledge an event with, by event name: a function of the payload (may be async).
        received: Events in order, as (name, payload).
        credentials: The `auth` object of every connect, in order.
        requests: Every HTTP request, as (method or `WEBSOCKET`, query).
        refusal: Called with each request; a response instead of `None` refuses it.
        websocket: `normal`, `refuse` (status 403), `silent` (accepts, then says nothing), a close code, or a
            conversation to hold instead of python-socketio's.
        deny: Whether connects of the namespace are denied.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self.answers: dict[str, Answer] = {
            "server:join_office": lambda _request: (True, None),
            "server:leave_office": lambda _request: (True, None),
            "server:list_room": lambda request: {"sessions": [], "req_id": request["req_id"]},
        }
        self.received: list[tuple[str, Any]] = []
        self.credentials: list[Any] = []
        self.requests: list[tuple[str, str]] = []
        self.refusal: Callable[[web.Request], web.Response | None] = lambda _request: None
        self.websocket: str | int | Callable[[web.WebSocketResponse], Awaitable[None]] = "normal"
        self.deny = False
        self.port = 0
        self._news = asyncio.Event()

    # --- life ---

    async def start(self) -> None:
        """Starts, on the same port as before when it was stopped."""
        self.sids: list[str] = []
        self.sio = socketio.AsyncServer(async_mode="aiohttp", cors_allowed_origins="*", **self._options)
        self.sio.on("connect", self._connect, namespace=NAMESPACE)
        self.sio.on("disconnect", self._disconnect, namespace=NAMESPACE)
        self.sio.on("*", self._event, namespace=NAMESPACE)
        app = web.Application(middlewares=[self._gate], client_max_size=10**8)
        self.sio.attach(app)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stops and cuts every connection."""
        with contextlib.suppress(Exception):
            await self.sio.shutdown()
        await self._runner.cleanup()

    async def __aenter__(self) -> ScriptedServer:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- what it does ---

    async def emit(self, event: str, payload: Any) -> None:
        """Sends an event to everybody."""
        await self.sio.emit(event, payload, namespace=NAMESPACE)

    async def ask(self, event: str, payload: Any) -> Any:
        """Sends an event to the one client and returns its acknowledgement."""
        return await self.sio.call(event, payload, to=self.sids[-1], namespace=NAMESPACE, timeout=5)

    async def kick(self) -> None:
        """Closes the namespace of everybody (`41`)."""
        for sid in list(self.sids):
            await self.sio.disconnect(sid, namespace=NAMESPACE)

    # --- what it saw ---

    def names(self) -> list[str]:
        """Names of the events received."""
        return [name for name, _payload in self.received]

    def payloads(self, event: str) -> list[Any]:
        """Payloads of the events of one name."""
        return [payload for name, payload in self.received if name == event]

    async def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        """Waits until a condition about this server holds."""
        with anyio.fail_after(seconds):
            while not condition():
                self._news.clear()
                await self._news.wait()

    # --- how ---

    @web.middleware
    async def _gate(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        upgrade = request.headers.get("Upgrade", "").lower() == "websocket"
        self.requests.append(("WEBSOCKET" if upgrade else request.method, request.query_string))
        self._news.set()
        if refused := self.refusal(request):
            return refused
        if upgrade and self.websocket != "normal":
            return await self._spoil(request)
        return await handler(request)

    async def _spoil(self, request: web.Request) -> web.StreamResponse:
        if self.websocket == "refuse":
            return web.Response(status=403)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        if isinstance(self.websocket, int):
            await ws.close(code=self.websocket, message=b"protocol version")
        elif callable(self.websocket):
            await self.websocket(ws)
        else:
            async for _message in ws:
                pass
        return ws

    async def _connect(self, sid: str, _environ: Any, auth: Any = None) -> bool:
        self.credentials.append(auth)
        self._news.set()
        if self.deny:
            return False
        self.sids.append(sid)
        return True

    async def _disconnect(self, sid: str, *_reason: Any) -> None:
        if sid in self.sids:
            self.sids.remove(sid)
        self._news.set()

    async def _event(self, event: str, _sid: str, payload: Any = None) -> Any:
        self.received.append((event, payload))
        self._news.set()
        answer = self.answers.get(event)
        if answer is None:
            return None
        answered = answer(payload)
        return await answered if asyncio.iscoroutine(answered) else answered


class Relay:
    """A TCP relay before a server, whose cable the test can cut or freeze."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._server.close()
        self._open.set()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """How many pass through it now."""
        return len(self._pairs)

    def cut(self) -> None:
        """Resets every connection."""
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()
        self._pairs.clear()

    def freeze(self) -> None:
        """Lets nothing through any more, in neither direction, without closing anything."""
        self._open.clear()

    def thaw(self) -> None:
        """Lets everything through again."""
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._pairs.append((writer, up_writer))
        for source, sink in ((reader, up_writer), (up_reader, writer)):
            task = asyncio.ensure_future(self._pipe(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await source.read(65536):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        sink.close()
