"""Cycles of asks: actors that would wait for each other for ever.

Two ways to see one. The chain an envelope carries names the serial actors that wait for
it, across processes. The wait graph knows who waits for whom in this process now, so it
also finds two independent asks that cross.
"""

from __future__ import annotations

from collections import Counter

from ..wire.envelope import Address


class WaitGraph:
    """Who waits for whom, with counts, since one handler may have several asks under way."""

    def __init__(self) -> None:
        self._edges: dict[Address, Counter[Address]] = {}

    def path(self, start: Address, goal: Address) -> tuple[Address, ...] | None:
        """The way along which `start` waits for `goal`, both included, or `None`."""
        trail: list[tuple[Address, tuple[Address, ...]]] = [(start, (start,))]
        seen = {start}
        while trail:
            here, way = trail.pop()
            if here == goal:
                return way
            for there in self._edges.get(here, ()):
                if there not in seen:
                    seen.add(there)
                    trail.append((there, (*way, there)))
        return None

    def add(self, waiter: Address, target: Address) -> None:
        """Notes that `waiter` waits for `target`."""
        self._edges.setdefault(waiter, Counter())[target] += 1

    def remove(self, waiter: Address, target: Address) -> None:
        """Takes one note back."""
        edges = self._edges[waiter]
        edges[target] -= 1
        if not edges[target]:
            del edges[target]
        if not edges:
            del self._edges[waiter]
