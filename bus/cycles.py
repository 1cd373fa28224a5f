"""Cycles of asks: serial actors that would wait for each other for ever.

Two ways to see one. The chain an envelope carries names the serial actors that wait for
it, across processes. The wait graph knows who waits for whom in this process now, so it
also finds two independent asks that cross. An ask that leaves the process takes those
who wait for its sender along in its chain; so crossing asks of two processes are found
too, unless both leave at the same moment: then the deadline ends them.
"""

from __future__ import annotations

from collections import Counter

from ..wire.envelope import Address, Envelope


class WaitGraph:
    """Who waits for whom, with counts, since one handler may have several asks under way."""

    def __init__(self) -> None:
        self._edges: dict[Address, Counter[Address]] = {}

    def closes(self, envelope: Envelope) -> tuple[Address, ...] | None:
        """The circle this ask to a serial handler would close, from its direct waiter to itself, or `None`."""
        if envelope.target in envelope.chain:
            return (envelope.chain[-1], *envelope.chain[envelope.chain.index(envelope.target) :])
        way = self.path(envelope.target, envelope.chain[-1])
        return None if way is None else (envelope.chain[-1], *way)

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

    def behind(self, chain: tuple[Address, ...]) -> tuple[Address, ...]:
        """The chain, preceded by whoever else waits for one of its members."""
        waiting = list(chain)
        for member in waiting:
            waiting.extend(waiter for waiter, edges in self._edges.items() if member in edges and waiter not in waiting)
        return (*waiting[len(chain) :], *chain)

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
