"""Tool calls of one session: places, breakers, limits, and an outcome for each (DEC-7, DEC-10, DEC-11, DEC-29).

Every call that comes in ends exactly once; one that is never handed to the server says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...bus.context import current
from ...wire import tracing
from ...wire.codec import Attachment
from ...wire.messages.mcp import CallLimits, CallTool, ToolOutcome
from . import outcome
from .failures import RequestFailed, TimeLimitReached
from .session.session import Session
from .supervision.breaker import Breakers
from .supervision.bulkhead import Bulkhead

Place = asyncio.Future[bool]
"""Resolves to whether the call may run: `False` when the server went away first."""


class Calls:
    """The calls of one session.

    Args:
        breaker_delay: Seconds a breaker stays open, by how often it has opened before.
        on_breaker: Called when the server's own breaker has opened: it is closed again by probing.
        on_queued: Told the req_id of a call that waits for a place, and again when it has got one.
        clean: Takes the server's secrets out of a text; a server that fails may name the key it failed with.
    """

    def __init__(
        self,
        session: Session,
        limits: CallLimits,
        breaker_delay: Callable[[int], float],
        *,
        on_breaker: Callable[[], None] = lambda: None,
        on_queued: Callable[[str, bool], None] = lambda _, __: None,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._session = session
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._on_breaker, self._on_queued, self._clean = on_breaker, on_queued, clean
        self._closed = False
        self._idle: asyncio.Future[None] | None = None
        self.bulkhead: Bulkhead[Place] = Bulkhead(limits.max_in_flight, limits.max_queued)
        self.breakers = Breakers(breaker_delay)

    async def run(self, call: CallTool, deadline: float) -> ToolOutcome:
        """Calls a tool once.

        Args:
            deadline: On the loop's clock; waiting for a place counts.
        """
        if self._closed:
            return outcome.stopped_waiting()
        if self.breakers.is_open(call.tool, self._loop.time()):
            return outcome.busy("the tool is not called for a while, after several failures in a row")
        place: Place = self._loop.create_future()
        entry = self.bulkhead.enter(place)
        if entry == "busy":
            return outcome.busy(f"{self.bulkhead.in_flight} calls run and {self.bulkhead.queued} wait already")
        if entry == "wait":
            self._on_queued(call.req_id, True)
            refused = await self._wait(place, call.timeout, deadline)
            if refused is not None:
                return refused
            self._on_queued(call.req_id, False)
        try:
            return await self._execute(call, deadline)
        finally:
            self._leave()

    async def drain(self, grace: float) -> None:
        """Takes no further calls, refuses those that wait, and gives running ones `grace` seconds."""
        self.refuse_waiting()
        if self.bulkhead.in_flight and grace > 0:
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=grace)

    def refuse_waiting(self) -> None:
        """Takes no further calls, and ends those that wait for a place."""
        self._closed = True
        for place in self.bulkhead.waiting():
            self.bulkhead.give_up(place)
            if not place.done():
                place.set_result(False)

    async def _wait(self, place: Place, timeout: float, deadline: float) -> ToolOutcome | None:
        timer = self._loop.call_at(deadline, _expire, place)
        try:
            return None if await place else outcome.stopped_waiting()
        except TimeLimitReached:
            self.bulkhead.give_up(place)
            return outcome.timed_out_waiting(timeout)
        except asyncio.CancelledError:
            if not self.bulkhead.give_up(place) and place.done() and not place.cancelled() and place.result():
                self._leave()  # it was given its place in the very moment its caller went away
            raise
        finally:
            timer.cancel()

    async def _execute(self, call: CallTool, deadline: float) -> ToolOutcome:
        if not self.breakers.admits(call.tool, self._loop.time()):
            return outcome.busy("the tool is not called for a while, after several failures in a row")
        try:
            with tracing.span(
                f"tools/call {call.tool}", "client", current.get().trace, smcp__req_id=call.req_id
            ) as span:
                result = await self._session.call(
                    call.tool,
                    call.arguments.data,
                    timeout=deadline - self._loop.time(),
                    idle=self._limits.idle_timeout,
                    req_id=call.req_id,
                    traceparent=span.traceparent,
                )
        except RequestFailed as failure:
            self._judge(call.tool, failure)
            return outcome.failed(failure, self._clean(str(failure)))
        except BaseException:
            # most often a cancel; whatever it is, a trial that it leaves open would refuse every later call
            self.breakers.undecided(call.tool)
            raise
        self.breakers.answered(call.tool)
        return ToolOutcome("answered", Attachment(result))

    def _judge(self, tool: str, failure: RequestFailed) -> None:
        if failure.transport:
            was_open = self.breakers.server.open_until is not None
            self.breakers.failed(tool, self._loop.time(), transport=True)
            if not was_open and self.breakers.server.open_until is not None:
                self._on_breaker()
        elif isinstance(failure, TimeLimitReached):
            self.breakers.failed(tool, self._loop.time(), transport=False)
        elif failure.executed == "yes":
            self.breakers.answered(tool)
        else:
            self.breakers.undecided(tool)

    def _leave(self) -> None:
        while (place := self.bulkhead.leave()) is not None:
            if not place.done():
                place.set_result(True)
                return
        if self._idle is not None and not self._idle.done() and not self.bulkhead.in_flight:
            self._idle.set_result(None)


def _expire(place: Place) -> None:
    if not place.done():
        place.set_exception(TimeLimitReached(0.0))
