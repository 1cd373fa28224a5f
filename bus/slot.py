"""A slot: one value, set once, awaited once.

The cheapest thing each event loop has for it: a loop future on asyncio (an anyio event
costs two more turns of the loop), an anyio event elsewhere, so that the bus also runs
on trio's virtual clock. The clock of a loop is chosen here for the same reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio


class Slot(Protocol):
    """Awaited by exactly one task."""

    def set(self, value: Any) -> None:
        """Puts the value in; later values are ignored."""

    def wait(self) -> Awaitable[Any]:
        """The value, once it is there."""


class FutureSlot(asyncio.Future[Any]):
    """Slot that is an asyncio future of the running loop."""

    def set(self, value: Any) -> None:
        if not self.done():
            self.set_result(value)

    def wait(self) -> Awaitable[Any]:
        return self


class EventSlot:
    """Slot on an anyio event."""

    __slots__ = ("_event", "_value")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._value: Any = None

    def set(self, value: Any) -> None:
        if not self._event.is_set():
            self._value = value
            self._event.set()

    async def wait(self) -> Any:
        await self._event.wait()
        return self._value


def slot_type() -> Callable[[], Slot]:
    """The slot class for the event loop this is called from."""
    return FutureSlot if _on_asyncio() else EventSlot


def loop_clock() -> Callable[[], float]:
    """The monotonic clock of the event loop this is called from, without the look-ups of `anyio.current_time`."""
    return asyncio.get_running_loop().time if _on_asyncio() else anyio.current_time


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
