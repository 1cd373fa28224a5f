"""An HTTP proxy in front of a real MCP server that lets everything pass but `tools/call`, when it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

NOT_PASSED_ON = {"host", "connection", "content-length", "transfer-encoding", "keep-alive"}


class Doorman:
    """Stands at `url` for a server elsewhere.

    Attributes:
        refused: How many calls it turned away.
        credentials: Every value of the Authorization header it has seen.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._refusal: tuple[int, dict[str, str]] | None = None
        self.url = ""
        self.refused = 0
        self.credentials: set[str | None] = set()

    def refuse(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        """Answers calls with this status from now on."""
        self._refusal = (status, dict(headers or {}))

    def admit(self) -> None:
        """Lets calls pass again."""
        self._refusal = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.credentials.add(request.headers.get("authorization"))
        if self._refusal is not None and b'"tools/call"' in body:
            self.refused += 1
            status, headers = self._refusal
            return web.Response(status=status, headers=headers, text="no")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_PASSED_ON}
        async with (
            aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout()) as session,
            session.request(request.method, f"{self._upstream}{request.path_qs}", headers=headers, data=body) as answer,
        ):
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in NOT_PASSED_ON}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        return response


@asynccontextmanager
async def doorman(url: str) -> AsyncIterator[Doorman]:
    """A doorman for the server at this URL; its own `url` has the same path."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    standing = Doorman(f"{scheme}://{host}")
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", standing.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    standing.url = f"http://127.0.0.1:{runner.addresses[0][1]}/{path}"
    try:
        yield standing
    finally:
        await runner.cleanup()
