"""Deadlines: one heap and one sleeping task for all of them.

A timer per ask would cost more than the ask. Entries are forgotten lazily: settled ones
stay in the heap until they surface or until they outnumber the live ones.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import anyio

from .slot import Slot, slot_type


class Deadlines:
    """Calls `expire(id)` at most once per id, at its deadline, unless it was forgotten first."""

    def __init__(self, expire: Callable[[int], None], clock: Callable[[], float]) -> None:
        self._expire = expire
        self._clock = clock
        self._heap: list[tuple[float, int]] = []
        self._live: set[int] = set()
        self._wake: Slot | None = None
        self._sleeping_until = math.inf

    def add(self, entry: int, deadline: float) -> None:
        """Arms a deadline; `inf` arms nothing."""
        if deadline == math.inf:
            return
        self._live.add(entry)
        heapq.heappush(self._heap, (deadline, entry))
        if deadline < self._sleeping_until and self._wake is not None:
            self._wake.set(None)

    def forget(self, entry: int) -> None:
        """Disarms a deadline; unknown ids are fine."""
        self._live.discard(entry)
        if len(self._heap) > 1024 and len(self._heap) > 2 * len(self._live):
            self._heap = [item for item in self._heap if item[1] in self._live]
            heapq.heapify(self._heap)

    async def run(self) -> None:
        """Sleeps until the next deadline, for ever; run it in a task of the owner."""
        new_slot = slot_type()
        while True:
            self._fire()
            self._sleeping_until = self._heap[0][0] if self._heap else math.inf
            self._wake = new_slot()
            with anyio.move_on_after(self._sleeping_until - self._clock()):
                await self._wake.wait()
            self._wake = None

    def _fire(self) -> None:
        now = self._clock()
        while self._heap and self._heap[0][0] <= now:
            _, entry = heapq.heappop(self._heap)
            if entry in self._live:
                self._live.discard(entry)
                self._expire(entry)
