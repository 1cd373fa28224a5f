"""Time for worlds without an event loop: a heap of things to do, and a clock that jumps to the next of them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Clock:
    """Runs what is due in order of its time, in order of its planning where times are equal."""

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, moment: float, deed: Callable[[], None]) -> None:
        """Does something at a moment that is not in the past."""
        heapq.heappush(self._heap, (max(moment, self.now), next(self._order), deed))

    def after(self, delay: float, deed: Callable[[], None]) -> None:
        """Does something in `delay` seconds."""
        self.at(self.now + delay, deed)

    def run(self, until: float) -> None:
        """Lets time pass up to and including a moment."""
        while self._heap and self._heap[0][0] <= until:
            self.now, _, deed = heapq.heappop(self._heap)
            deed()
        self.now = until
