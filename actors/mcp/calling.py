"""The calls of one server's actor: each to its end within its own limit, and what they mean for a lazy server (F-68).

A call that may wake its server starts one that stands by and waits for it to be up; calls
that come meanwhile wait for the same start. While any call is here the server is in use.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Final

import msgspec

from ...wire.messages.mcp import CallTool, ServerStatus, ToolOutcome
from ..kernel import Actor, handler
from . import outcome
from .life import Life
from .status import Counters
from .supervision.lifecycle import Event, Lifecycle, Start, State

CALLS = 4096
"""Calls this actor holds at once, above whatever the server's own limits allow; the rest wait in the bus."""

_UNDER_WAY: Final[frozenset[State]] = frozenset({"queued", "starting", "stopping"})
"""States of a server that is wanted and has yet to show whether it comes up."""


class Calling(Actor, ABC):
    """Part of the McpSupervisor, which provides what is named here."""

    _table: Lifecycle
    _life: Life | None
    _counters: Counters
    _moved: asyncio.Event
    _calls_here: int = 0

    @abstractmethod
    def _handle(self, event: Event) -> None: ...

    @abstractmethod
    def _set_alarm(self) -> None: ...

    @abstractmethod
    def _status(self) -> ServerStatus: ...

    @abstractmethod
    def call_queued(self, req_id: str, waiting: bool) -> None: ...

    @handler(concurrent=CALLS)
    async def call(self, message: CallTool) -> ToolOutcome:
        self._counters.calls += 1
        deadline = asyncio.get_running_loop().time() + message.timeout
        self._calls_here += 1
        self._table.used()
        try:
            ended = await self._called(message, deadline)
        finally:
            self._calls_here -= 1
            if not self._calls_here and self._table.idle_after is not None:
                self._table.unused(self.now())
                self._set_alarm()
        if ended.ended != "answered":
            self._counters.failed_calls += 1
        return ended

    async def _called(self, message: CallTool, deadline: float) -> ToolOutcome:
        if message.wake and self._table.state != "ready":
            refusal = await self._woken(message, deadline)
            if refusal is not None:
                return refusal
        ended = await self._call_once(message, deadline)
        if self._may_repeat(message, ended) and await self._ready_before(deadline):
            return msgspec.structs.replace(await self._call_once(message, deadline), attempts=2)
        return ended

    async def _woken(self, message: CallTool, deadline: float) -> ToolOutcome | None:
        """Waits until the server is up, starting one that stands by; how the call ends if it does not come up."""
        if self._table.wanted and self._table.state in ("idle", "stopping"):
            self._handle(Start())
        self.call_queued(message.req_id, True)
        try:
            async with asyncio.timeout_at(deadline):
                while self._table.wanted and self._table.state in _UNDER_WAY:
                    await self._moved.wait()
        except TimeoutError:
            return outcome.timed_out_starting(message.timeout)
        if self._table.state != "ready":
            return outcome.not_connected(self._status(), time.time())
        self.call_queued(message.req_id, False)
        return None

    async def _call_once(self, message: CallTool, deadline: float) -> ToolOutcome:
        life = self._life
        if self._table.state != "ready" or life is None or life.calls is None or not life.serving:
            return outcome.not_connected(self._status(), time.time())
        try:
            return await life.calls.run(message, deadline)
        finally:
            life.suspect_lists()

    def _may_repeat(self, message: CallTool, ended: ToolOutcome) -> bool:
        """Whether a call whose answer was lost is made once more (DEC-10, F-48)."""
        plan = self._life.plan if self._life is not None else None
        wanted = plan is not None and plan.limits.retry_safe_tools
        return wanted and message.repeatable and ended.ended == "failed" and ended.executed == "unknown"

    async def _ready_before(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout_at(deadline):
                while self._life is None or not self._life.serving:
                    if not self._table.wanted or self._table.state == "parked":
                        return False
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True
