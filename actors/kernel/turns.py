"""Turns: operations that happen strictly one after another, in the order they were asked for (R-LIFE-2).

One kind may cut in: a stop interrupts the operation that has the turn if that allows it,
and those waiting in front of it give up instead of starting (R-LIFE-5).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from ...wire.errors import ConflictError


class Turns:
    """The turns of one Computer."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._cutting_in = 0
        self._interruptible: anyio.CancelScope | None = None

    @asynccontextmanager
    async def take(self, operation: str, *, interruptible: bool = False) -> AsyncIterator[None]:
        """The turn of an operation, once everybody before has had theirs.

        Raises:
            ConflictError: A stop cut in before it ended; code `interrupted`.
        """
        async with self._lock:
            if not interruptible:
                yield
                return
            if self._cutting_in:
                raise _interrupted(operation)
            with anyio.CancelScope() as scope:
                self._interruptible = scope
                try:
                    yield
                finally:
                    self._interruptible = None
            if scope.cancelled_caught:
                raise _interrupted(operation)

    @contextmanager
    def cut_in(self) -> Iterator[None]:
        """While this is open no interruptible operation goes on or begins."""
        self._cutting_in += 1
        if self._interruptible is not None:
            self._interruptible.cancel()
        try:
            yield
        finally:
            self._cutting_in -= 1


def _interrupted(operation: str) -> ConflictError:
    return ConflictError(f"{operation} was interrupted by a stop", code="interrupted")
