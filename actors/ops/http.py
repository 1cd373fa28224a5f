"""The operator endpoint over HTTP: metrics, probes, status, and a live page. aiohttp; read only.

Every answer is made from `Operations`, nothing is decided here but who may look (`access`).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from typing import Final

import anyio
import msgspec
from aiohttp import web

from ...wire.http_log import http_logger
from ...wire.plain import plain
from .access import COOKIE, Access
from .exposition import CONTENT_TYPE
from .health import Health
from .operations import Operations

logger = logging.getLogger(__name__)

EVERY: Final = 1.0
"""Seconds between two moments of the live page."""
FRESH: Final = 0.5
"""Seconds for which one view serves all who look."""
STREAMS: Final = 16
"""Live pages at once."""
LAST_REQUESTS: Final = 0.5
"""Seconds that requests in work get when the endpoint closes."""
SLOW_READER: Final = 10.0
BODY_MAX: Final = 4096

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(operations: Operations, access: Access, host: str, port: int) -> AsyncIterator[str]:
    """Listens while the context is open; its URL.

    Raises:
        OSError: The address cannot be listened on.
    """
    desk = Desk(operations, access)
    app = web.Application(client_max_size=BODY_MAX, middlewares=[desk.guard])
    app.add_routes(desk.routes())
    quiet = http_logger(f"{__name__}.requests", lambda address: logger.warning("%s sent no readable request", address))
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=quiet,
        handle_signals=False,
        shutdown_timeout=LAST_REQUESTS,
        auto_decompress=False,  # nobody has anything to send that would be worth it
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, reuse_address=True)
        await site.start()
        bound = runner.addresses[0][1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}"
    finally:
        desk.closing.set()
        with anyio.move_on_after(LAST_REQUESTS + 1.0, shield=True):
            await runner.cleanup()


class Desk:
    """Answers requests."""

    def __init__(self, operations: Operations, access: Access) -> None:
        self._operations, self._access = operations, access
        self._streams = 0
        self._seen = b""
        self._seen_at = float("-inf")
        self.closing = asyncio.Event()

    def routes(self) -> list[web.RouteDef]:
        """What can be asked."""
        return [
            web.get("/", self.page),
            web.get("/metrics", self.metrics),
            web.get("/healthz", self.healthz),
            web.get("/readyz", self.readyz),
            web.get("/status", self.status),
            web.get("/view", self.view),
            web.get("/events", self.events),
            web.get("/calls", self.calls),
            web.post("/login", self.login),
        ]

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Lets in who may look, and says to browsers how to treat what they get."""
        verdict = self._access.judge(
            authorization=request.headers.get("Authorization", ""),
            cookie=request.cookies.get(COOKIE, ""),
            host=request.host,
        )
        if verdict == "foreign_name":
            return _harden(web.Response(status=421, text="this endpoint is asked by a name of loopback only\n"))
        if verdict == "no_token" and request.path == "/":
            return _harden(web.Response(text=LOGIN, content_type="text/html", status=401))
        if verdict == "no_token" and request.path != "/login":
            refusal = web.Response(status=401, text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})
            return _harden(refusal)
        try:
            return _harden(await handler(request))
        except web.HTTPException as error:
            return _harden(web.Response(status=error.status, text=f"{error.reason}\n"))

    # -- answers ------------------------------------------------------------------------------

    async def page(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text=PAGE, content_type="text/html")

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=await self._operations.metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def healthz(self, _: web.Request) -> web.StreamResponse:
        return _probe(self._operations.alive())

    async def readyz(self, _: web.Request) -> web.StreamResponse:
        return _probe(self._operations.ready())

    async def status(self, _: web.Request) -> web.StreamResponse:
        return _json(plain(await self._operations.status()))

    async def view(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=await self._now(), content_type="application/json")

    async def calls(self, request: web.Request) -> web.StreamResponse:
        return _json(plain(self._operations.calls(request.query.get("req_id"))))

    async def login(self, request: web.Request) -> web.StreamResponse:
        shown = (await _form(request)).get("token")
        if not isinstance(shown, str) or not self._access.fits(shown):
            return web.Response(text=LOGIN, content_type="text/html", status=401)
        welcome = web.Response(status=303, headers={"Location": "./"})
        welcome.set_cookie(COOKIE, self._access.pass_of(), httponly=True, samesite="Strict", path="/")
        return welcome

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The view of every second, until whoever looks goes away."""
        if self._streams >= STREAMS:
            raise web.HTTPServiceUnavailable
        self._streams += 1
        try:
            stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            _harden(stream)
            await stream.prepare(request)
            while not self.closing.is_set():
                async with asyncio.timeout(SLOW_READER):
                    await stream.write(b"data: " + await self._now() + b"\n\n")
                with anyio.move_on_after(EVERY):
                    await self.closing.wait()
        except ConnectionError:
            pass  # it has gone
        except TimeoutError:
            # It reads too slowly to be waited for. Closing would wait for it to read the rest, uncounted from now on.
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._streams -= 1
        return stream

    async def _now(self) -> bytes:
        now = time.monotonic()
        if now - self._seen_at > FRESH:
            self._seen = msgspec.json.encode(plain(await self._operations.view()))
            self._seen_at = now
        return self._seen


async def _form(request: web.Request) -> Mapping[str, object]:
    """What the page for signing in sends.

    Raises:
        HTTPBadRequest: It is no such form.
    """
    # aiohttp would read forms in parts too, which have many more ways to be broken.
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPBadRequest
    try:
        return await request.post()
    # An unknown charset; bytes that are not of it; a body that is broken, or that does not come to its end.
    except (LookupError, ValueError, web.RequestPayloadError, ConnectionError):
        raise web.HTTPBadRequest from None


def _probe(answer: Health) -> web.Response:
    return _json(plain(answer), status=200 if answer.ok else 503)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", status=status)


def _harden(response: web.StreamResponse) -> web.StreamResponse:
    if not response.prepared:
        response.headers.update(HEADERS)
    return response


def _hashes(pages: tuple[str, ...], tag: str) -> str:
    """Sources for a content policy: the inline scripts or styles of our pages and nothing else."""
    texts = {text for page in pages for text in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)}
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in sorted(texts))
    return " ".join(f"'sha256-{digest}'" for digest in digests)


PAGE: Final = resources.files(__package__).joinpath("page.html").read_text("utf-8")
LOGIN: Final = resources.files(__package__).joinpath("login.html").read_text("utf-8")
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; connect-src 'self'; img-src data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; "
    f"script-src {_hashes((PAGE,), 'script')}; style-src {_hashes((PAGE, LOGIN), 'style')}",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
