"""Servers of ours on real sockets, one way of running for each stack: aiohttp, ASGI (uvicorn), WSGI (werkzeug)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import uvicorn
from werkzeug.serving import make_server

from smcp_runtime.server.app import create_asgi_app, serve
from smcp_runtime.server.auth import ANONYMOUS
from smcp_runtime.server.options import ServerOptions
from smcp_runtime.server.shell import Shell
from smcp_runtime.server.sync_shell import create_wsgi_app

KINDS = ("aiohttp", "asgi", "wsgi")


class Serving(NamedTuple):
    """A Server that listens: its base URL, its shell, and the way it runs."""

    url: str
    shell: Shell
    kind: str


def open_options(**options: Any) -> ServerOptions:
    """Options that let everybody in."""
    return ServerOptions(**{"auth": ANONYMOUS, **options})


@contextlib.asynccontextmanager
async def serving(kind: str, options: ServerOptions | None = None) -> AsyncIterator[Serving]:
    """Runs a Server while the context is open."""
    options = options or open_options()
    if kind == "aiohttp":
        async with serve(options=options) as running:
            yield Serving(running.url, running.shell, kind)
    elif kind == "asgi":
        app = create_asgi_app(options)
        async with asgi_server(app) as url:
            yield Serving(url, app.shell, kind)
    else:
        app_ = create_wsgi_app(options)
        async with wsgi_server(app_, app_.close) as url:
            yield Serving(url, app_.shell, kind)


@contextlib.asynccontextmanager
async def asgi_server(app: Any, **config: Any) -> AsyncIterator[str]:
    """uvicorn in this loop; yields the base URL."""
    server = _Uvicorn(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, **config))
    running = asyncio.create_task(server.serve())
    try:
        with anyio.fail_after(5):
            await server.bound.wait()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        with anyio.fail_after(10, shield=True):
            await running


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.bound = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.bound.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def wsgi_server(app: Any, close: Callable[[], None]) -> AsyncIterator[str]:
    """werkzeug with a thread per connection; yields the base URL."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        with anyio.fail_after(10, shield=True):
            await anyio.to_thread.run_sync(close)
            await anyio.to_thread.run_sync(server.shutdown)
            await anyio.to_thread.run_sync(thread.join)
        server.server_close()
