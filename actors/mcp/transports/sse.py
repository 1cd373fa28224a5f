"""The older SSE transport: one stream from the server, a POST for each message of ours.

Answers come over the stream, but a refusal comes on the POST; it ends its own request at once and the
stream stays (W-UP-6, W-UP-7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

import httpx2

from ....wire.messages.mcp import LaunchPlan
from ..failures import ConnectionLost, RedirectRefused, RequestFailed, UpstreamFailed
from .dispatcher import NotificationSink
from .http_connection import HttpConnection
from .http_exchange import exchange, failure_of, is_unreachable, same_origin, shown
from .jsonrpc import RequestId
from .refusal import refusal
from .sse_parser import EventTooLong, SseParser

LISTEN = {"accept": "text/event-stream", "cache-control": "no-store"}
CONTENT = {"content-type": "application/json"}


class SseConnection(HttpConnection):
    """One SSE endpoint. Made by `open_sse`."""

    def __init__(self, plan: LaunchPlan, on_notification: NotificationSink, auth: httpx2.Auth | None) -> None:
        super().__init__(plan, on_notification, auth)
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._queue: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Opens the stream and waits for the endpoint it names.

        Raises:
            RequestFailed: It was refused, or leads to another origin.
        """
        self._tasks.run(self._listen())
        first: set[asyncio.Future[Any]] = {self._endpoint, self._dispatcher.closed}
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not self._endpoint.done():
            raise self._dispatcher.closed.result()

    # -- what the session sees ------------------------------------------------------------

    @property
    def session_id(self) -> str | None:
        return None

    def renegotiate(self) -> None:
        pass

    def negotiated(self, protocol: str, *, modern: bool) -> None:
        self._protocol = protocol

    async def _farewell(self, *, gentle: bool) -> None:
        self._endpoint.cancel()

    # -- outgoing -----------------------------------------------------------------------

    def send(self, message: bytes, request_id: RequestId | None, headers: Mapping[str, str]) -> None:
        if request_id is not None:
            self._tasks.carry(request_id, self._post(message, request_id))
            return
        task = self._tasks.side(self._post(message, None))
        if self._protocol is None:
            self._queue = task  # `notifications/initialized`: a server may refuse what overtakes it

    def withdraw(self, request_id: RequestId) -> bool:
        self._tasks.cut(request_id)
        return False

    async def _post(self, message: bytes, request_id: RequestId | None) -> None:
        if self._queue is not None and request_id is not None:
            await asyncio.wait([self._queue], timeout=self._plan.timeout)
        try:
            async with exchange(
                self._client, "POST", self._endpoint.result(), headers=CONTENT, body=message
            ) as response:
                failure = refusal(response.status_code, response.headers)
        except Exception as error:
            failure = failure_of(error)  # whatever it was, somebody waits for the answer
        if failure is None:
            return
        if request_id is not None:
            self._dispatcher.fail(request_id, failure)
        if is_unreachable(failure):
            self._dispatcher.close(failure)

    # -- incoming -----------------------------------------------------------------------

    async def _listen(self) -> None:
        failure: RequestFailed
        try:
            async with exchange(self._client, "GET", self._plan.url, headers=LISTEN) as response:
                refused = refusal(response.status_code, response.headers)
                if refused is not None:
                    raise refused
                await self._read_events(response)
            failure = ConnectionLost("the server closed its stream")
        except EventTooLong as error:
            failure = UpstreamFailed(f"the server sent {error}")
        except Exception as error:
            failure = failure_of(error)  # whatever it was, nothing is heard of the server any more
        self._dispatcher.close(failure)

    async def _read_events(self, response: httpx2.Response) -> None:
        parser = SseParser()
        async for chunk in response.aiter_bytes():
            for event in parser.feed(chunk):
                if event.event == "endpoint" and not self._endpoint.done():
                    self._endpoint.set_result(self._resolved(event.data.decode("utf-8", "replace").strip()))
                elif event.event == "message" and event.data and not self._dispatcher.feed(event.data):
                    self._note("the stream held an event that is no message")

    def _resolved(self, endpoint: str) -> str:
        try:
            url = httpx2.URL(urljoin(self._plan.url, endpoint))
        except (ValueError, httpx2.InvalidURL) as error:
            raise UpstreamFailed("the server named an endpoint that is no URL") from error
        if not same_origin(url, httpx2.URL(self._plan.url)):
            raise RedirectRefused(shown(url))
        return str(url)


async def open_sse(
    plan: LaunchPlan, on_notification: NotificationSink, *, auth: httpx2.Auth | None = None
) -> SseConnection:
    """Connects to the SSE endpoint of a plan.

    Raises:
        RequestFailed: It cannot be reached, refuses, or leads elsewhere.
    """
    connection = SseConnection(plan, on_notification, auth)
    try:
        await connection.connect()
    except BaseException:
        await connection.close()
        raise
    return connection
