"""Deadlines: one heap and one sleeping task for all of them.

A timer per ask would cost more than the ask. An entry whose message has ended stays in
the heap until it surfaces, or until such entries outnumber the others.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Sized
from typing import Protocol

import anyio

from .slot import Slot, slot_type

SWEEP_FROM = 1024
"""Heap size below which entries of ended messages are not worth a sweep."""


class Live(Container[int], Sized, Protocol):
    """The ids of messages that have not ended."""


class Deadlines:
    """Calls `expire(id)` when an armed deadline passes while its id is still in `live`."""

    def __init__(self, live: Live, expire: Callable[[int], None], clock: Callable[[], float]) -> None:
        self._live = live
        self._expire = expire
        self._clock = clock
        self._heap: list[tuple[float, int]] = []
        self._wake: Slot | None = None
        self._sleeping_until = math.inf

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, entry: int, deadline: float) -> None:
        """Arms a deadline; `inf` arms nothing."""
        if deadline == math.inf:
            return
        heap = self._heap
        if len(heap) > SWEEP_FROM and len(heap) > 2 * len(self._live):
            heap[:] = [item for item in heap if item[1] in self._live]
            heapq.heapify(heap)
        heapq.heappush(heap, (deadline, entry))
        if deadline < self._sleeping_until and self._wake is not None:
            self._wake.set(None)

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
                self._expire(entry)
