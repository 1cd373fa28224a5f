"""The protocol version check in front of Socket.IO, for each way a request can arrive (01 §2.2).

It runs before any Socket.IO code, on every request of the path, so that no broken connect
handler can get around it (W-HS-10, W-HS-13). What to answer is decided in `wire.version`;
here are the three stacks: ASGI, WSGI, and aiohttp.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

from ..wire.protocol import PROTOCOL_VERSION, SOCKETIO_PATH, VERSION_REFUSED_CLOSE_CODE
from ..wire.version import Rejection, check_query, on_path
from . import security_log
from .security_log import Record, identify

if TYPE_CHECKING:
    from aiohttp.web import Request, StreamResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
AiohttpHandler = Callable[["Request"], Awaitable["StreamResponse"]]


def _judge(query: str | bytes, version: str, address: str, user_agent: str) -> Rejection | None:
    """The rejection of a request, logged; `None` lets it pass."""
    verdict = check_query(query, version)
    if not isinstance(verdict, Rejection):
        return None
    who = identify(address=address, user_agent=user_agent)
    security_log.write(Record(level="warning", action="handshake refused", who=who, code=verdict.code))
    return verdict


class AsgiVersionGate:
    """In front of an ASGI application, for `http` and `websocket` scopes (W-HS-11).

    A mount of a host application is taken off the path before it is compared (`root_path`), so `socketio_path` is
    relative to the mount point.
    """

    def __init__(self, app: AsgiApp, *, socketio_path: str = SOCKETIO_PATH, version: str = PROTOCOL_VERSION) -> None:
        check_query("", version)
        self._app = app
        self._path = socketio_path
        self._version = version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not on_path(path_below_mount(scope), self._path):
            await self._app(scope, receive, send)
            return
        client = scope.get("client") or ("", 0)
        agent = next((value for name, value in scope.get("headers", ()) if name.lower() == b"user-agent"), b"")
        rejection = _judge(scope.get("query_string", b""), self._version, str(client[0]), agent.decode("latin-1"))
        if rejection is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _answer(send, rejection, "http.response")
        else:
            await self._refuse_websocket(scope, receive, send, rejection)

    async def _refuse_websocket(self, scope: Scope, receive: Receive, send: Send, rejection: Rejection) -> None:
        """With the body where the stack can (W-HS-23), else so that close code 4900 is seen (W-HS-24)."""
        event = await receive()
        if event["type"] != "websocket.connect":
            return
        if "websocket.http.response" in (scope.get("extensions") or {}):
            await _answer(send, rejection, "websocket.http.response")
            return
        # Closing before accepting would reach the client as a bare 403.
        await send({"type": "websocket.accept"})
        code, reason = VERSION_REFUSED_CLOSE_CODE, rejection.close_reason
        await send({"type": "websocket.close", "code": code, "reason": reason})


class WsgiVersionGate:
    """In front of a WSGI application; upgrades arrive there as ordinary requests (W-HS-11, W-HS-23)."""

    def __init__(self, app: WsgiApp, *, socketio_path: str = SOCKETIO_PATH, version: str = PROTOCOL_VERSION) -> None:
        check_query("", version)
        self._app = app
        self._path = socketio_path
        self._version = version

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not on_path(environ.get("PATH_INFO", ""), self._path):
            return self._app(environ, start_response)
        address, agent = environ.get("REMOTE_ADDR", ""), environ.get("HTTP_USER_AGENT", "")
        rejection = _judge(environ.get("QUERY_STRING", ""), self._version, address, agent)
        if rejection is None:
            return self._app(environ, start_response)
        start_response(f"{rejection.status} Bad Request", list(rejection.headers))
        return [rejection.body]


def aiohttp_gate(handler: AiohttpHandler, *, version: str = PROTOCOL_VERSION) -> AiohttpHandler:
    """Wraps the request handler of the Socket.IO path; an upgrade is answered like any request (W-HS-23)."""
    from aiohttp.web import Response  # noqa: PLC0415 - only where aiohttp serves

    check_query("", version)

    async def gate(request: Request) -> StreamResponse:
        agent = request.headers.get("User-Agent", "")
        rejection = _judge(request.rel_url.raw_query_string, version, request.remote or "", agent)
        if rejection is None:
            return await handler(request)
        return Response(body=rejection.body, status=rejection.status, headers=dict(rejection.headers))

    return gate


def path_below_mount(scope: Scope) -> str:
    """The path of a request as the mounted application sees it."""
    path, mount = str(scope["path"]), str(scope.get("root_path") or "").rstrip("/")
    if mount and (path == mount or path.startswith(mount + "/")):
        return path[len(mount) :] or "/"
    return path


async def _answer(send: Send, rejection: Rejection, kind: str) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in rejection.headers]
    await send({"type": f"{kind}.start", "status": rejection.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": rejection.body})
