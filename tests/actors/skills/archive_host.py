"""A real HTTP server for archives that does as a test says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ArchiveHost:
    """Serves `files` by path, and `answers` instead where there is one; remembers what it was asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.answers: dict[str, Answer] = {}
        self.requests: list[web.BaseRequest] = []
        self.url = ""

    def redirect(self, path: str, location: str, status: int = 302) -> str:
        """Has a path lead somewhere else; its URL."""

        async def answer(_: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": location, "Set-Cookie": "session=canary"})

        self.answers[path] = answer
        return self.url + path

    def drip(self, path: str, chunk: bytes, delay: float, declare: int | None = None) -> str:
        """Has a path send a chunk again and again; its URL."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            if declare is not None:
                response.content_length = declare
            await response.prepare(request)
            while True:
                await response.write(chunk)
                await asyncio.sleep(delay)

        self.answers[path] = answer
        return self.url + path

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.path in self.answers:
            return await self.answers[request.path](request)
        if request.path not in self.files:
            raise web.HTTPNotFound
        return web.Response(body=self.files[request.path])


@asynccontextmanager
async def archive_host(tls: ssl.SSLContext | None = None) -> AsyncIterator[ArchiveHost]:
    """A host on a free port of this machine."""
    host = ArchiveHost()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", host.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield host
    finally:
        await runner.cleanup()
