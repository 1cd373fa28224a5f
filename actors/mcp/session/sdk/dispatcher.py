"""The library's `Dispatcher` contract, kept by our own dispatcher, so that the library's session negotiates over it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import anyio.abc
import msgspec
from mcp import MCPError
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest, run_notify_intercept
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp.types import REQUEST_TIMEOUT

from ...failures import ErrorAnswer, TimeLimitReached, UnusableAnswer
from ...transports.dispatcher import NO_HEADERS, PeerRequestRefused, RawDispatcher
from ...transports.jsonrpc import RequestId, plain_object


class LibraryDispatcher:
    """What the library's session sends and serves, in its own terms."""

    def __init__(self, dispatcher: RawDispatcher) -> None:
        self._dispatcher = dispatcher

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """`RawDispatcher.request`, decoded.

        Raises:
            MCPError: The server answered with an error, or not in time.
            RequestFailed: The connection failed.
        """
        opts = opts or {}
        try:
            result = await self._dispatcher.request(
                method,
                None if params is None else msgspec.json.encode(params),
                timeout=opts.get("timeout"),
                request_id=opts.get("request_id"),
                headers=opts.get("headers", NO_HEADERS),
                cancellable=opts.get("cancel_on_abandon", True),
            )
        except ErrorAnswer as error:
            data = msgspec.json.decode(error.data) if error.data else None
            raise MCPError(error.code, error.message, data) from error
        except TimeLimitReached as error:
            raise MCPError(REQUEST_TIMEOUT, str(error)) from error
        found = plain_object(result)
        if found is None:
            raise UnusableAnswer(f"the result of {method} is not an object")
        return found

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Sends a notification, unless the connection is over."""
        headers = (opts or {}).get("headers", NO_HEADERS)
        self._dispatcher.notify_nowait(method, None if params is None else msgspec.json.encode(params), headers)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves requests of the server until the connection ends.

        `on_notify` is not used: every notification goes to our own sink, and the session acts on none of them
        but those of the intercept.
        """

        async def answer(request_id: RequestId, method: str, params: dict[str, Any] | None) -> object:
            try:
                return await on_request(PeerRequest(self, request_id), method, params)
            except MCPError as error:
                raise PeerRequestRefused(error.code, error.message) from error

        intercept = None if on_notify_intercept is None else partial(run_notify_intercept, on_notify_intercept)
        await self._dispatcher.serve(answer, intercept, task_status=task_status)


class PeerRequest:
    """What the library's handler of a server's request may know and do: not much beyond its id."""

    transport = TransportContext(kind="jsonrpc", can_send_request=True)
    can_send_request = True
    message_metadata: MessageMetadata = None

    def __init__(self, dispatcher: LibraryDispatcher, request_id: RequestId) -> None:
        self._dispatcher = dispatcher
        self.request_id = request_id
        self.cancel_requested = anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._dispatcher.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """No server asks for progress on what we answer."""
