"""The streamable HTTP transport: each message is a POST, each answer its body or a stream of events.

Every request has its own exchange, so one that is refused, redirected or cut ends alone and at once
(W-UP-6, W-UP-7). The listening GET stream of handshake-era servers is optional (F-28).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import httpx2
import msgspec

from ....wire.messages.mcp import LaunchPlan
from ..failures import ConnectionLost, RequestFailed, SessionForgotten, UnusableAnswer, UpstreamFailed
from .dispatcher import NotificationSink
from .http_connection import HttpConnection
from .http_exchange import exchange, failure_of, is_unreachable
from .http_tasks import LATE_GRACE
from .jsonrpc import RequestId
from .line_splitter import MAX_LINE
from .refusal import refusal
from .sse_parser import EventTooLong, SseParser

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
LISTEN = {"accept": "text/event-stream", "cache-control": "no-store"}
SESSION_HEADER = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
RESUME_HEADER = "last-event-id"

RESUMES = 3
"""Attempts to take up a broken answer stream where it stopped."""
RETRY = 1.0
"""Seconds before an answer stream is taken up again, unless the server names another delay."""
FIRST_RETRY = 0.1
MAX_RETRY = 30.0
"""Bounds of the growing delay before the listening stream is opened again; the first is short, because that attempt
is also how a dead server is noticed."""
FIRST_MESSAGE_WAIT = 10.0
"""Seconds that requests wait for `notifications/initialized` to be delivered before them."""
CLOSE_BOUND = 2.0


class StreamableConnection(HttpConnection):
    """One streamable HTTP endpoint.

    Args:
        on_forgotten: Called when the listening stream finds out that the server forgot the session (DEC-9).
    """

    def __init__(
        self,
        plan: LaunchPlan,
        on_notification: NotificationSink,
        *,
        on_forgotten: Callable[[str], None] = lambda _: None,
        auth: httpx2.Auth | None = None,
    ) -> None:
        super().__init__(plan, on_notification, auth)
        self._loop = asyncio.get_running_loop()
        self._on_forgotten = on_forgotten
        self._session_id: str | None = None
        self._modern = False
        self._barrier: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    # -- what the session sees ------------------------------------------------------------

    @property
    def session_id(self) -> str | None:
        return self._session_id

    def negotiated(self, protocol: str, *, modern: bool) -> None:
        self._protocol, self._modern = protocol, modern
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        if not modern:
            self._listening = self._tasks.run(self._listen())

    def renegotiate(self) -> None:
        """Forgets the session, so that the next message opens a new one on this connection."""
        self._session_id = self._protocol = None

    async def _farewell(self, *, gentle: bool) -> None:
        if gentle and self._session_id is not None and self._plan.terminate_on_close:
            try:
                async with asyncio.timeout(CLOSE_BOUND):
                    async with exchange(self._client, "DELETE", self._plan.url, headers=self._headers()):
                        pass
            except (RequestFailed, httpx2.HTTPError, TimeoutError):
                pass  # a server that cannot end the session will let it expire

    # -- outgoing -----------------------------------------------------------------------

    def send(self, message: bytes, request_id: RequestId | None, headers: Mapping[str, str]) -> None:
        if request_id is not None:
            # the headers are those of now: a session renewed meanwhile must not be entered with this message
            self._tasks.carry(request_id, self._ask(message, request_id, self._headers(headers)))
            return
        task = self._tasks.side(self._tell(message, headers))
        if self._protocol is None:
            self._barrier = task  # `notifications/initialized`: a server may refuse what overtakes it

    def withdraw(self, request_id: RequestId) -> bool:
        # the newer protocol has no cancelled message over HTTP: closing the exchange says it
        self._tasks.cut(request_id, 0.0 if self._modern else LATE_GRACE)
        return self._modern

    def _headers(self, more: Mapping[str, str] = {}) -> dict[str, str]:
        headers = dict(ACCEPT)
        if self._session_id is not None:
            headers[SESSION_HEADER] = self._session_id
        if self._protocol is not None:
            headers[VERSION_HEADER] = self._protocol
        headers.update(more)
        return headers

    async def _tell(self, message: bytes, headers: Mapping[str, str]) -> None:
        try:
            async with exchange(
                self._client, "POST", self._plan.url, headers=self._headers(headers), body=message
            ) as response:
                if response.status_code >= 400:
                    self._note(f"a notification was refused with HTTP {response.status_code}")
        except (RequestFailed, httpx2.HTTPError) as error:
            self._note(f"a notification could not be delivered ({type(error).__name__})")

    async def _ask(self, message: bytes, request_id: RequestId, headers: Mapping[str, str]) -> None:
        if self._barrier is not None:
            await asyncio.wait([self._barrier], timeout=FIRST_MESSAGE_WAIT)
        try:
            async with exchange(self._client, "POST", self._plan.url, headers=headers, body=message) as response:
                await self._answer(response, request_id, headers.get(SESSION_HEADER))
        except Exception as error:
            failure = failure_of(error)  # whatever it was, somebody waits for the answer
            self._dispatcher.fail(request_id, failure)
            if is_unreachable(failure):
                self._dispatcher.close(failure)

    # -- incoming -----------------------------------------------------------------------

    async def _answer(self, response: httpx2.Response, request_id: RequestId, session_id: str | None) -> None:
        """Reads the answer to one request, from its body or its stream."""
        if response.status_code >= 400:
            raise await self._refused(response, request_id, session_id)
        if session_id is None and self._protocol is None and SESSION_HEADER in response.headers:
            self._session_id = _usable(response.headers[SESSION_HEADER])
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code == 202:
            raise UpstreamFailed("the server accepted a request without answering it", status=202)
        if kind == "application/json":
            self._dispatcher.feed(await read_bounded(response), request_id)
            self._unanswered(request_id, UnusableAnswer("the answer is no message of the protocol"))
        elif kind == "text/event-stream":
            await self._follow(response, request_id)
        else:
            raise UpstreamFailed(f"the answer is of a type the protocol does not know ({kind[:60] or 'none'})")

    async def _refused(self, response: httpx2.Response, request_id: RequestId, session_id: str | None) -> RequestFailed:
        failure = refusal(response.status_code, response.headers)
        assert failure is not None
        if response.status_code == 404 and session_id is not None:
            return SessionForgotten(session_id)
        if isinstance(failure, UpstreamFailed) and response.status_code < 500:
            self._dispatcher.feed(await read_bounded(response), request_id)  # an error answer in the body is its word
        return failure

    async def _follow(self, response: httpx2.Response, request_id: RequestId) -> None:
        """Reads an answer stream to the answer, taking it up again where it breaks and can be resumed."""
        progress = StreamProgress()
        await self._read_events(response, progress, request_id)
        attempts = 0
        while self._dispatcher.is_waiting(request_id) and progress.last_id and attempts < RESUMES:
            attempts += 1
            seen = progress.last_id
            await asyncio.sleep(RETRY if progress.retry is None else progress.retry)
            headers = {**self._headers(), **LISTEN, RESUME_HEADER: progress.last_id}
            try:
                async with exchange(self._client, "GET", self._plan.url, headers=headers) as resumed:
                    if resumed.status_code >= 400:
                        break
                    await self._read_events(resumed, progress, request_id)
            except (RequestFailed, httpx2.HTTPError) as error:
                # the attempt was not sent, or was refused; the request itself was taken long before
                kind = ConnectionLost if is_unreachable(failure_of(error)) else UpstreamFailed
                raise kind("the answer stream broke and could not be taken up again") from error
            if progress.last_id != seen:
                attempts = 0
        self._unanswered(request_id, UpstreamFailed("the answer stream ended without an answer"))

    async def _read_events(
        self, response: httpx2.Response, progress: StreamProgress, request_id: RequestId | None
    ) -> None:
        """Passes on the events of a stream until it ends, breaks, or has answered the request."""
        parser = SseParser()
        try:
            async for chunk in response.aiter_bytes():
                for event in parser.feed(chunk):
                    progress.last_id = event.id or progress.last_id
                    if event.retry is not None:
                        # A server that asks for no delay at all would keep both of us busy with empty streams.
                        progress.retry = max(FIRST_RETRY, min(event.retry / 1000, MAX_RETRY))
                    if event.event == "message" and event.data:
                        self._dispatcher.feed(event.data, request_id)
                if request_id is not None and not self._dispatcher.is_waiting(request_id):
                    return
        except EventTooLong as error:
            raise UpstreamFailed(f"the server sent {error}") from error
        except httpx2.TransportError:
            if request_id is not None and not progress.last_id:
                raise

    def _unanswered(self, request_id: RequestId, failure: RequestFailed) -> None:
        self._dispatcher.fail(request_id, failure)

    # -- the listening stream -------------------------------------------------------------

    async def _listen(self) -> None:
        """Keeps the stream open on which a handshake-era server speaks by itself."""
        if self._barrier is not None:
            await asyncio.wait([self._barrier], timeout=FIRST_MESSAGE_WAIT)
        progress = StreamProgress()
        delay = FIRST_RETRY
        while True:
            opened = self._loop.time()
            headers = {**self._headers(), **LISTEN}
            if progress.last_id:
                headers[RESUME_HEADER] = progress.last_id
            try:
                async with exchange(self._client, "GET", self._plan.url, headers=headers) as response:
                    if response.status_code >= 400:
                        self._not_listening(response.status_code, headers.get(SESSION_HEADER))
                        return
                    await self._read_events(response, progress, None)
            except (RequestFailed, httpx2.HTTPError) as error:
                failure = failure_of(error)
                if is_unreachable(failure):
                    self._dispatcher.close(failure)
                    return
                if not isinstance(failure, UpstreamFailed):
                    self._note(f"no listening stream: {failure}")
                    return
            if self._loop.time() - opened > MAX_RETRY:
                delay = FIRST_RETRY
            await asyncio.sleep(delay if progress.retry is None else progress.retry)
            delay = min(2 * delay, MAX_RETRY)

    def _not_listening(self, status: int, session_id: str | None) -> None:
        if status == 404 and session_id is not None:
            self._on_forgotten(session_id)
        elif status == 405:
            self._note("the server offers no listening stream")
        else:
            self._note(f"the listening stream was refused with HTTP {status}")


class StreamProgress(msgspec.Struct):
    """How far a stream has been read: the last event id, and the delay in seconds that the server asks for."""

    last_id: str = ""
    retry: float | None = None


def _usable(session_id: str) -> str:
    """A session id of the server, which has to be visible ASCII to go back in a header."""
    if not (session_id.isascii() and session_id.isprintable()):
        raise UpstreamFailed("the server named a session that no header can carry")
    return session_id


async def read_bounded(response: httpx2.Response) -> bytes:
    """The whole body.

    Raises:
        UpstreamFailed: It is longer than any message may be.
    """
    parts: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MAX_LINE:
            raise UpstreamFailed(f"the server sent a body of more than {MAX_LINE} bytes")
        parts.append(chunk)
    return b"".join(parts)
