"""The page a browser comes back to: a listener on this machine for one answer, and then gone (RFC 8252).

It listens on a port of 127.0.0.1 that the system chooses. Whatever else asks there is told
there is nothing, and nothing that was asked is ever logged.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

import msgspec

PATH = "/callback"
LONGEST_REQUEST = 32 * 1024
"""Bytes of a request's head."""
ASKING_LIMIT = 10.0
"""Seconds a browser may take to send its request."""

_PAGE = "<!doctype html><meta charset=utf-8><title>smcp</title><p>{text} You can close this page."


class Returned(msgspec.Struct, frozen=True):
    """What a browser came back with; each part may be missing."""

    code: str | None = None
    state: str | None = None
    issuer: str | None = None
    error: str | None = None

    def __repr__(self) -> str:
        return f"Returned(error={self.error!r})"


class Loopback:
    """Listens while its context is open."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._came: asyncio.Future[Returned] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Loopback:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LONGEST_REQUEST)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._came.cancel()

    @property
    def redirect_uri(self) -> str:
        """Where the browser is to come back to."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{PATH}"

    async def returned(self) -> Returned:
        """Waits for the browser."""
        return await asyncio.shield(self._came)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ASKING_LIMIT):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
            status, text = self._take(line.decode("latin-1"))
            page = _PAGE.format(text=text).encode()
            fields = ("Content-Type: text/html", f"Content-Length: {len(page)}", "Connection: close")
            writer.write("\r\n".join((f"HTTP/1.1 {status}", *fields, "", "")).encode() + page)
            await writer.drain()
        except (TimeoutError, ValueError, ConnectionError):
            pass  # it asked nothing that can be answered
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _take(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        query = {name: values[0] for name, values in parse_qs(target.query).items()}
        if method != "GET" or target.path != PATH or not query.keys() & {"code", "error"}:
            return "404 Not Found", "There is nothing here."
        if not self._came.done():
            self._came.set_result(Returned(query.get("code"), query.get("state"), query.get("iss"), query.get("error")))
        if "error" in query:
            return "200 OK", "It was not authorized."
        return "200 OK", "It is authorized."
