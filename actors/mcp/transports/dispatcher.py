"""Requests to one MCP server and their answers, over any transport.

Both are JSON text, and a result is never decoded here. Lives on one asyncio loop; nothing in it is queued
without a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import anyio
import anyio.abc
import msgspec

from ..failures import ConnectionLost, ErrorAnswer, RequestFailed, TimeLimitReached, UnusableAnswer
from . import jsonrpc
from .jsonrpc import Incoming, RequestId

logger = logging.getLogger(__name__)

PEER_REQUESTS = 16
"""Requests of the server that are in work at once; further ones are refused."""
PEER_ID_MAX = 1024
"""Characters of an id of the server; a request with a longer one, which the answer had to repeat, is passed over."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})

NotificationSink = Callable[[str, msgspec.Raw], None]
"""Takes each notification as it arrives; must neither block nor raise (R-MCP-27)."""
PeerHandler = Callable[[RequestId, str, dict[str, Any] | None], Awaitable[object]]
"""Answers a request of the server with what JSON can say, or raises `PeerRequestRefused`."""
Intercept = Callable[[str, dict[str, Any] | None], object]


class PeerRequestRefused(Exception):
    """Our answer to a request of the server is a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Sender(Protocol):
    """The outgoing half of a transport. Neither method waits."""

    def send(self, message: bytes, request_id: RequestId | None, headers: Mapping[str, str]) -> None:
        """Hands one message over; how it fails is told later through `Dispatcher.fail` or `Dispatcher.close`."""

    def withdraw(self, request_id: RequestId) -> bool:
        """Gives up a request whose answer nobody waits for; `False` if the server must be told by a message."""


class Waiting:
    """One request of ours in flight."""

    __slots__ = ("answer", "idle", "idle_timer", "last_news", "work")

    def __init__(self, answer: asyncio.Future[bytes], idle: float | None, now: float, *, work: bool) -> None:
        self.answer = answer
        self.work = work
        self.idle = idle
        self.idle_timer: asyncio.TimerHandle | None = None
        self.last_news = now


class RawDispatcher:
    """Correlates requests and answers.

    Attributes:
        last_received: Loop time of the last message of the server.
        messages: How many messages the server has sent.
        late_answers: Answers that came after their caller had gone.
        closed: Resolves with the reason once the connection is over.
    """

    def __init__(self, sender: Sender, on_notification: NotificationSink, *, encoding_errors: str = "strict") -> None:
        self._loop = asyncio.get_running_loop()
        self._sender = sender
        self._sink = on_notification
        self._encoding_errors = encoding_errors
        self._waiting: dict[RequestId, Waiting] = {}
        self._next_id = 0
        self._answer: PeerHandler | None = None
        self._intercept: Intercept | None = None
        self._group: anyio.abc.TaskGroup | None = None
        self._peer_requests = 0
        self.last_received = self._loop.time()
        self.messages = self.late_answers = 0
        self.closed: asyncio.Future[RequestFailed] = self._loop.create_future()

    # -- what we ask ------------------------------------------------------------------

    def new_id(self) -> int:
        """An id for `request`; also the progress token of the request that uses it."""
        self._next_id += 1
        return self._next_id

    async def request(
        self,
        method: str,
        params: bytes | None,
        *,
        timeout: float | None,
        request_id: RequestId | None = None,
        idle: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        cancellable: bool = True,
        work: bool = False,
    ) -> bytes:
        """Sends a request and waits for its result, which is returned as the bytes it arrived as.

        When the caller is cancelled or the limit is reached the server is told, and a late answer is dropped (DEC-12).

        Args:
            params: JSON object without line ends.
            timeout: Seconds; `None` waits until the connection ends.
            idle: Seconds without progress for this request after which it ends like a time limit (DEC-11).
            work: Whether the server does something for an Agent meanwhile; such requests keep probes away (DEC-2).
        Raises:
            RequestFailed: One of its subclasses.
        """
        if self.closed.done():
            raise ConnectionLost(str(self.closed.result()), sent=False)
        key = self.new_id() if request_id is None else request_id
        now = self._loop.time()
        answer: asyncio.Future[bytes] = self._loop.create_future()
        waiting = self._waiting[key] = Waiting(answer, idle, now, work=work)
        timer = None
        if timeout is not None:
            timer = self._loop.call_at(now + timeout, self._expire, answer, TimeLimitReached(timeout))
        if idle is not None:
            self._arm_idle(waiting)
        try:
            self._sender.send(jsonrpc.request(key, method, params), key, headers)
            return await answer
        except TimeLimitReached as expired:
            if cancellable:
                self._cancel(key, str(expired))
            raise
        except asyncio.CancelledError:
            if cancellable:
                self._cancel(key, "the caller gave up")
            raise
        finally:
            del self._waiting[key]
            if timer is not None:
                timer.cancel()
            if waiting.idle_timer is not None:
                waiting.idle_timer.cancel()

    def notify_nowait(self, method: str, params: bytes | None, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Sends a notification, unless the connection is over."""
        if not self.closed.done():
            self._sender.send(jsonrpc.notification(method, params), None, headers)

    def last_work(self) -> float | None:
        """Loop time of the newest start or progress among the work in flight; `None` without any."""
        return max((waiting.last_news for waiting in self._waiting.values() if waiting.work), default=None)

    def _expire(self, answer: asyncio.Future[bytes], failure: RequestFailed) -> None:
        if not answer.done():
            answer.set_exception(failure)

    def _arm_idle(self, waiting: Waiting) -> None:
        assert waiting.idle is not None
        if waiting.idle_timer is not None:
            waiting.idle_timer.cancel()
        failure = TimeLimitReached(waiting.idle, idle=True)
        waiting.idle_timer = self._loop.call_later(waiting.idle, self._expire, waiting.answer, failure)

    def _cancel(self, request_id: RequestId, reason: str) -> None:
        if not self._sender.withdraw(request_id):
            params = msgspec.json.encode({"requestId": request_id, "reason": reason})
            self.notify_nowait("notifications/cancelled", params)

    # -- what the transport tells -------------------------------------------------------

    def feed(self, text: bytes, expected: RequestId | None = None) -> bool:
        """Takes in what the server sent.

        Args:
            expected: Request that `text` answers by its place, whatever id it names (the body of an HTTP answer).
        Returns:
            Whether it held any message of the protocol.
        """
        self.last_received = self._loop.time()
        understood = False
        for message in jsonrpc.read(text):
            understood = True
            self.messages += 1
            try:
                self._take(message, expected)
            except Exception as error:
                # one message must not cost those behind it; what it holds is not shown
                logger.warning("a message of the server could not be taken in (%s)", type(error).__name__)
        return understood

    def _take(self, message: Incoming, expected: RequestId | None) -> None:
        if message.method is None:
            self._answered(message, expected)
        elif message.id is None:
            self._notified(message.method, message.params)
        else:
            self._asked(message.id, message.method, message.params)

    def fail(self, request_id: RequestId, failure: RequestFailed) -> None:
        """Ends one request; the connection stays."""
        waiting = self._waiting.get(request_id)
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_exception(failure)

    def is_waiting(self, request_id: RequestId) -> bool:
        """Whether somebody still waits for this answer."""
        waiting = self._waiting.get(request_id)
        return waiting is not None and not waiting.answer.done()

    def close(self, failure: RequestFailed) -> None:
        """Ends everything in flight at once; only the first reason counts."""
        if self.closed.done():
            return
        self.closed.set_result(failure)
        if isinstance(failure, ConnectionLost) and failure.executed == "no":
            # that nothing more can be sent says nothing about what has been sent already
            failure = ConnectionLost(str(failure))
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(failure)

    def _answered(self, message: Incoming, expected: RequestId | None) -> None:
        key = message.id
        waiting = self._waiting.get(key) if key is not None else None
        if waiting is None and isinstance(key, str) and (number := jsonrpc.number_in(key)) is not None:
            waiting = self._waiting.get(number)
        if waiting is None and expected is not None:
            waiting = self._waiting.get(expected)
        if waiting is None or waiting.answer.done():
            self.late_answers += 1
            return
        if message.error:
            error = jsonrpc.fault(message.error)
            waiting.answer.set_exception(ErrorAnswer(error.code, error.message, bytes(error.data)))
            return
        result = bytes(message.result)
        if not jsonrpc.valid_utf8(result):
            if self._encoding_errors == "strict":
                waiting.answer.set_exception(UnusableAnswer("the answer is not valid UTF-8"))
                return
            result = result.decode("utf-8", self._encoding_errors).encode()
        waiting.answer.set_result(result)

    def _notified(self, method: str, params: msgspec.Raw) -> None:
        if method == "notifications/progress":
            self._progressed(params)
        if self._intercept is not None and (method == "notifications/cancelled" or b"subscriptionId" in bytes(params)):
            self._intercept(method, jsonrpc.plain_object(params))
        self._sink(method, params)

    def _progressed(self, params: msgspec.Raw) -> None:
        token = (jsonrpc.plain_object(params) or {}).get("progressToken")
        if isinstance(token, str) and (number := jsonrpc.number_in(token)) is not None:
            token = number
        waiting = self._waiting.get(token) if isinstance(token, int | str) else None
        if waiting is not None:
            waiting.last_news = self._loop.time()
            if waiting.idle is not None and not waiting.answer.done():
                self._arm_idle(waiting)

    # -- what the server asks -----------------------------------------------------------

    def _asked(self, request_id: RequestId, method: str, params: msgspec.Raw) -> None:
        if isinstance(request_id, str) and len(request_id) > PEER_ID_MAX:
            logger.debug("a %s request with an id of %d characters is passed over", method, len(request_id))
        elif method == "ping":
            self._reply(jsonrpc.answer(request_id, b"{}"))
        elif self._answer is None or self._group is None:
            self._reply(jsonrpc.refusal(request_id, jsonrpc.METHOD_NOT_FOUND, "Method not found"))
        elif self._peer_requests >= PEER_REQUESTS:
            self._reply(jsonrpc.refusal(request_id, jsonrpc.INTERNAL_ERROR, "too many requests at once"))
        else:
            self._peer_requests += 1
            self._group.start_soon(self._serve, self._answer, request_id, method, jsonrpc.plain_object(params))

    async def _serve(
        self, answer: PeerHandler, request_id: RequestId, method: str, params: dict[str, Any] | None
    ) -> None:
        try:
            result = await answer(request_id, method, params)
        except PeerRequestRefused as error:
            self._reply(jsonrpc.refusal(request_id, error.code, error.message))
        except Exception:
            # the handler failed on what the server sent; the server gets an answer all the same
            logger.warning("a %s request of the server could not be answered", method)
            self._reply(jsonrpc.refusal(request_id, jsonrpc.INTERNAL_ERROR, "the request could not be answered"))
        else:
            self._reply(jsonrpc.answer(request_id, msgspec.json.encode(result)))
        finally:
            self._peer_requests -= 1

    def _reply(self, message: bytes) -> None:
        if not self.closed.done():
            self._sender.send(message, None, NO_HEADERS)

    async def serve(
        self,
        answer: PeerHandler,
        intercept: Intercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Has requests of the server answered until the connection ends.

        Args:
            answer: Takes the id, the method and the parameters of a request; its result is the answer.
            intercept: Told the notifications that concern single requests or streams of announcements.
        """
        try:
            async with anyio.create_task_group() as group:
                self._group, self._answer, self._intercept = group, answer, intercept
                task_status.started()
                await asyncio.wait([self.closed])
                group.cancel_scope.cancel()
        finally:
            self._group = self._answer = self._intercept = None
