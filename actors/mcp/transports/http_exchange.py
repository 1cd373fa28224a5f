"""One HTTP request to an MCP endpoint: its client, its redirects, and what its exceptions mean.

Redirects are followed only on the endpoint's own origin and with their method, because everything on
the request, credentials first, was meant for that origin (DEC-16).
"""

from __future__ import annotations

import functools
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2

from ....wire.errors import SmcpError
from ....wire.messages.mcp import LaunchPlan
from ..failures import ConnectionLost, RedirectRefused, RequestFailed, UpstreamFailed
from .refusal import authorization_signal

REDIRECTS = 5


def make_client(plan: LaunchPlan, *, auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """The HTTP client of one server; `auth` is left out where the plan brings an Authorization header (R-MCP-25)."""
    _keep_urls_out_of_the_log()
    static = any(name.lower() == "authorization" for name in plan.headers)
    return httpx2.AsyncClient(
        headers=plan.headers,
        auth=None if static else auth,
        timeout=httpx2.Timeout(plan.timeout, read=plan.read_timeout),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
        verify=_tls() if httpx2.URL(plan.url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        follow_redirects=False,
    )


@functools.cache
def _tls() -> ssl.SSLContext:
    """One for all servers: loading the certificates takes longer than a whole handshake."""
    return httpx2.create_ssl_context()


@asynccontextmanager
async def exchange(
    client: httpx2.AsyncClient, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
) -> AsyncIterator[httpx2.Response]:
    """Sends a request and yields the response with its body unread.

    Raises:
        RedirectRefused: It leads to another origin, changes the method, or does not end.
        ConnectionLost: The client has been closed.
        UpstreamFailed: It cannot be put together, or the authorization for it could not be looked up.
        httpx2.TransportError: The exchange failed.
    """
    if client.is_closed:
        raise ConnectionLost("the connection is being closed", sent=False)
    try:
        request = client.build_request(method, url, headers=dict(headers), content=body)
    except (ValueError, httpx2.InvalidURL) as error:
        raise UpstreamFailed(f"the request could not be put together ({type(error).__name__})", sent=False) from error
    for _ in range(REDIRECTS + 1):
        try:
            response = await client.send(request, stream=True)
        except SmcpError as error:
            # Raised by our authorization alone, before anything is sent or after a refusal for want of it: a worker
            # asks its Computer for it, which may be gone.
            raise UpstreamFailed(f"its authorization could not be looked up ({error.code})", sent=False) from error
        try:
            onward = response.next_request
            if onward is None:
                yield response
                return
            if onward.method != method or not same_origin(onward.url, request.url):
                raise RedirectRefused(shown(onward.url))
            request = onward
        finally:
            await response.aclose()
    raise RedirectRefused(shown(request.url))


def failure_of(error: Exception) -> RequestFailed:
    """What an exception of the exchange means for the request."""
    if isinstance(error, RequestFailed):
        return error
    signal = authorization_signal(error)
    if signal is not None:
        return signal
    name = type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return ConnectionLost(f"the server cannot be reached ({name})", sent=False)
    if isinstance(error, httpx2.PoolTimeout | httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return UpstreamFailed(f"the request could not be sent ({name})", sent=False)
    return UpstreamFailed(f"the exchange with the server failed ({name})")


def is_unreachable(failure: RequestFailed) -> bool:
    """Whether a failure ends more than its own request: nobody listens at the endpoint."""
    return isinstance(failure, ConnectionLost)


def same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether scheme, host and port agree; the client library has already left out a scheme's default port."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def shown(url: httpx2.URL) -> str:
    """A URL without what may be secret in it."""
    return f"{url.scheme}://{url.host}{'' if url.port is None else f':{url.port}'}{url.path}"


class _UrlFilter(logging.Filter):
    """The client library logs each URL, and a URL can hold a key."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(shown(part) if isinstance(part, httpx2.URL) else part for part in record.args)
        return True


_url_filter = _UrlFilter()


def _keep_urls_out_of_the_log() -> None:
    logging.getLogger("httpx2").addFilter(_url_filter)
