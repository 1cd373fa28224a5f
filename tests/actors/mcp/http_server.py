"""An HTTP MCP server in the test's own event loop, which misbehaves in the one way that a test asks for.

Real sockets, hand-made protocol: streamable HTTP under `/mcp`, the older SSE under `/sse` and `/messages`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Json = dict[str, Any]
Fault = Callable[[Json], web.StreamResponse | None]
"""Looks at a request of the client and answers it, or lets the server answer."""


class HttpServer:
    """Its state, and the knobs.

    Attributes:
        received: Messages of the client, in order.
        fault: Answers instead of the server where it wants to.
        listening: Whether there is a GET stream.
        sessions: Ids the server knows.
        hurry: End each GET stream at once, and ask for it to be opened again without any delay.
        break_answers: End each answer stream after a first, empty event; the answer comes to whoever resumes it.
        hold: Do not even end that of a call; set when one is held.
    """

    def __init__(self) -> None:
        self.received: list[Json] = []
        self.headers: list[Any] = []
        self.fault: Fault = lambda _: None
        self.slow: Callable[[Json], Awaitable[None]] | None = None
        self.listening = True
        self.streams: list[web.StreamResponse] = []
        self.sessions: set[str] = set()
        self.handshakes = 0
        self.deleted = 0
        self.gets = 0
        self.stream_answers = False
        self.hurry = self.break_answers = False
        self.hold: asyncio.Event | None = None
        self._owed: dict[str, bytes] = {}
        self.url = self.sse_url = ""
        self.close: Callable[[], Awaitable[None]]
        self.tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
        self._sse: dict[str, asyncio.Queue[bytes]] = {}

    # -- knobs --

    def refuse_calls(self, status: int, headers: dict[str, str] | None = None, body: str = "no") -> None:
        """Answers `tools/call`, and nothing else, with this status."""

        def fault(message: Json) -> web.StreamResponse | None:
            if message.get("method") != "tools/call":
                return None
            return web.Response(status=status, headers=headers or {}, text=body)

        self.fault = fault

    def forget_sessions(self) -> None:
        self.sessions.clear()

    async def announce(self, method: str, params: Json | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}
        for stream in self.streams:
            await stream.write(b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n")

    def methods(self) -> list[str]:
        return [message.get("method", "") for message in self.received]

    # -- streamable HTTP --

    async def post(self, request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        self.received.append(message)
        self.headers.append(request.headers)
        refused = self.fault(message)
        if refused is not None:
            return refused
        method = message.get("method")
        if method == "initialize":
            self.handshakes += 1
            session = f"session-{self.handshakes}"
            self.sessions.add(session)
            return self._answer(message, {"mcp-session-id": session})
        if method == "server/discover":
            return web.json_response(_error(message, -32601, "Method not found"), status=400)
        if request.headers.get("mcp-session-id") not in self.sessions:
            return web.json_response(_error(message, -32001, "Session not found"), status=404)
        if "id" not in message:
            return web.Response(status=202)
        return await self._work(request, message)

    async def _work(self, request: web.Request, message: Json) -> web.StreamResponse:
        if self.slow is not None:
            await self.slow(message)
        return await self._stream_answer(request, message) if self.stream_answers else self._answer(message)

    async def get(self, request: web.Request) -> web.StreamResponse:
        self.gets += 1
        if not self.listening:
            return web.Response(status=405)
        if request.headers.get("mcp-session-id") not in self.sessions:
            return web.Response(status=404)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if self.hurry:
            await response.write(b"retry: 0\n\n")
            return response
        if (owed := self._owed.pop(request.headers.get("last-event-id", ""), None)) is not None:
            await response.write(b"data: " + owed + b"\n\n")
            return response
        self.streams.append(response)
        try:
            await asyncio.Event().wait()
        finally:
            self.streams.remove(response)
        return response

    async def delete(self, request: web.Request) -> web.StreamResponse:
        self.deleted += 1
        self.sessions.discard(request.headers.get("mcp-session-id", ""))
        return web.Response(status=200)

    async def _stream_answer(self, request: web.Request, message: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        data = json.dumps(self.result(message)).encode()
        if self.break_answers:
            event_id = f"event-{message['id']}"
            self._owed[event_id] = data
            await response.write(f"id: {event_id}\nretry: 20\ndata:\n\n".encode())
            if self.hold is not None and message["method"] == "tools/call":
                self.hold.set()
                await asyncio.sleep(60)
            await response.write_eof()
            return response
        await response.write(b"event: message\r\ndata: " + data[:10])
        await response.write(data[10:] + b"\r\n\r\n")
        await response.write_eof()
        return response

    def _answer(self, message: Json, headers: dict[str, str] | None = None) -> web.StreamResponse:
        return web.json_response(self.result(message), headers=headers or {})

    def result(self, message: Json) -> Json:
        match message["method"]:
            case "initialize":
                capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
                result: Json = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": capabilities,
                    "serverInfo": {"name": "http", "version": "1"},
                }
            case "tools/list":
                result = {"tools": self.tools}
            case "resources/list":
                result = {"resources": []}
            case "tools/call":
                result = {"content": [{"type": "text", "text": message["params"]["arguments"].get("text", "")}]}
            case _:
                result = {}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    async def moved(self, _: web.Request) -> web.StreamResponse:
        raise web.HTTPPermanentRedirect("/mcp")

    # -- the older transport --

    async def sse(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        name = str(len(self._sse))
        queue = self._sse[name] = asyncio.Queue()
        await response.write(f"event: endpoint\ndata: /messages?session={name}\n\n".encode())
        while data := await queue.get():
            await response.write(b"event: message\ndata: " + data + b"\n\n")
        return response

    async def message(self, request: web.Request) -> web.StreamResponse:
        message = json.loads(await request.read())
        self.received.append(message)
        refused = self.fault(message)
        if refused is not None:
            return refused
        if "id" in message:
            answer = self.result(message)
            if message["method"] == "server/discover":
                answer = _error(message, -32601, "Method not found")
            self._sse[request.query["session"]].put_nowait(json.dumps(answer).encode())
        return web.Response(status=202)


def _error(message: Json, code: int, text: str) -> Json:
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": text}}


@asynccontextmanager
async def serving() -> AsyncIterator[HttpServer]:
    """A server on a free port of the loopback interface."""
    server = HttpServer()
    app = web.Application(client_max_size=2**27)
    app.router.add_post("/mcp", server.post)
    app.router.add_get("/mcp", server.get)
    app.router.add_delete("/mcp", server.delete)
    app.router.add_route("*", "/moved", server.moved)
    app.router.add_get("/sse", server.sse)
    app.router.add_post("/messages", server.message)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    server.close = runner.cleanup
    server.url, server.sse_url = f"http://127.0.0.1:{port}/mcp", f"http://127.0.0.1:{port}/sse"
    try:
        yield server
    finally:
        await runner.cleanup()
