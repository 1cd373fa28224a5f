"""Rounds of work on one subject: one at a time, and one more for whatever was asked for meanwhile (C-GEN-12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import anyio


class Starter(Protocol):
    """Starts a task that belongs to somebody who ends it."""

    def __call__(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None: ...


class Rounds:
    """Runs `work` whenever it is marked; any number of marks before a round begins are one round."""

    def __init__(self, work: Callable[[], Awaitable[None]], start: Starter) -> None:
        self._work = work
        self._start = start
        self._wanted: anyio.Event | None = None
        self._running = False

    @property
    def idle(self) -> bool:
        """Whether no round runs and none is wanted."""
        return not self._running

    def mark(self) -> anyio.Event:
        """Wants a round that begins after now; the event is set at its end."""
        if self._wanted is None:
            self._wanted = anyio.Event()
        done = self._wanted
        if not self._running:
            self._running = True
            self._start(self._run)
        return done

    async def _run(self) -> None:
        try:
            while self._wanted is not None:
                done, self._wanted = self._wanted, None
                try:
                    await self._work()
                finally:
                    done.set()
        finally:
            self._running = False
