"""Running a Server: on its own with aiohttp, or inside somebody's ASGI application.

`serve` is what `smcp server` uses. `create_asgi_app` gives an application that can be
mounted under any path of a Starlette or FastAPI application, or run by any ASGI server;
its options' `socketio_path` counts from the mount point.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import anyio
import msgspec

from ..wire.http_log import http_logger
from ..wire.version import on_path
from . import security_log
from .async_shell import AsyncShell
from .options import ServerOptions
from .version_gate import AsgiApp, AsgiVersionGate, Receive, Scope, Send, aiohttp_gate, path_below_mount
from .websockets import AiohttpWebSocket, AsgiWebSocket

_STOP = 8.0
_LAST_REQUESTS = 2.0


class Running(msgspec.Struct, frozen=True):
    """A Server that listens.

    Attributes:
        url: Base URL with the bound port; clients add the Socket.IO path.
        host: Address it is bound to.
        port: Port it is bound to.
        shell: Its shell, for looking at `shell.rooms`.
    """

    url: str
    host: str
    port: int
    shell: Any


@contextlib.asynccontextmanager
async def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    options: ServerOptions | None = None,
    *,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncIterator[Running]:
    """Listens while the context is open; prints nothing.

    Leaving it closes the port, ends every connection as if its peer had left, and takes a few seconds at most.

    Args:
        port: 0 picks a free one.
        ssl_context: Serves TLS; `tls_context` makes one that fits W-SRV-6.
    Raises:
        OSError: The address cannot be bound.
    """
    from aiohttp import web  # noqa: PLC0415 - embedding needs no aiohttp

    options = options or ServerOptions()
    shell = AsyncShell(options, async_mode="aiohttp", websocket=AiohttpWebSocket, client_address=_aiohttp_address)
    handler = aiohttp_gate(shell.engine.handle_request, version=options.protocol_version)
    app = web.Application()
    path = "/" + options.socketio_path.strip("/")
    for pattern in (path, path + "/", path + "/{tail:.*}"):
        app.router.add_route("*", pattern, handler)
    logger = http_logger(f"{__name__}.http", _unreadable)
    runner = web.AppRunner(app, access_log=None, logger=logger, handle_signals=False, shutdown_timeout=_LAST_REQUESTS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=ssl_context)
        await site.start()
        bound = _bound(runner.addresses, host)
        yield Running(_url(host, bound, ssl_context), host, bound, shell)
    finally:
        # Also when the caller is cancelled: peers are told by the end of their connections.
        with anyio.move_on_after(_STOP, shield=True):
            for listening in runner.sites:
                await listening.stop()
            await shell.close()
            await runner.cleanup()


class SmcpAsgiApp:
    """The ASGI application of a Server.

    Answers 404 outside its Socket.IO path. Needs no lifespan events; where they arrive it ends its connections at
    shutdown, and a host that mounts it can await `close` itself.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.shell = AsyncShell(options, async_mode="asgi", websocket=AsgiWebSocket, client_address=_asgi_address)
        self._path = options.socketio_path
        self._gate = AsgiVersionGate(
            self._behind_the_gate, socketio_path=options.socketio_path, version=options.protocol_version
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._gate(scope, receive, send)

    async def close(self) -> None:
        """Ends every connection; for hosts whose lifespan events do not reach a mounted application."""
        await self.shell.close()

    async def _behind_the_gate(self, scope: Scope, receive: Receive, send: Send) -> None:
        if on_path(path_below_mount(scope), self._path):
            serve_request = self.shell.engine.handle_request
            if scope["type"] == "http" and scope["method"] == "GET":
                await _while_connected(serve_request, scope, receive, send)
            else:
                await serve_request(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = await receive()
            if event["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _while_connected(app: AsgiApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Gives up a poll whose client went away, so that it takes no packets with it and keeps no server from stopping."""
    first = await receive()

    async def once() -> MutableMapping[str, Any]:
        return first

    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await app(scope, once, send)
        tasks.cancel_scope.cancel()


def create_asgi_app(options: ServerOptions | None = None) -> SmcpAsgiApp:
    """An ASGI application with one Server in it, to be run by one process.

    Mount it anywhere: ``app.mount("/a2c", create_asgi_app(options))`` of Starlette or FastAPI puts Socket.IO at
    ``/a2c/socket.io``, and clients are given ``/a2c/socket.io`` as their Socket.IO path.
    """
    return SmcpAsgiApp(options or ServerOptions())


def tls_context(certificate: str, key: str | None = None) -> ssl.SSLContext:
    """A server context for TLS 1.2 or newer (W-SRV-6); TLS 1.3 brings its preferred suites itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def _unreadable(address: str) -> None:
    who = security_log.identify(address=address)
    security_log.write(security_log.Record(level="warning", action="malformed request", who=who, code=400))


def _aiohttp_address(environ: dict[str, Any]) -> str:
    return environ["aiohttp.request"].remote or ""


def _asgi_address(environ: dict[str, Any]) -> str:
    client = environ["asgi.scope"].get("client")
    return str(client[0]) if client else ""


def _bound(addresses: list[Any], host: str) -> int:
    for address in addresses:
        if isinstance(address, tuple):
            return int(address[1])
    raise OSError(f"nothing is bound on {host}")


def _url(host: str, port: int, ssl_context: ssl.SSLContext | None) -> str:
    scheme = "http" if ssl_context is None else "https"
    shown = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    with contextlib.suppress(OSError):
        socket.inet_pton(socket.AF_INET6, shown)
        shown = f"[{shown}]"
    return f"{scheme}://{shown}:{port}"
