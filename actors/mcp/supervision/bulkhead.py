"""How many calls of one server run and wait at once (DEC-7). Pure: who may run is told, not awaited."""

from __future__ import annotations

from collections import deque
from typing import Generic, Literal, TypeVar

Ticket = TypeVar("Ticket")
Entry = Literal["run", "wait", "busy"]


class Bulkhead(Generic[Ticket]):
    """At most `max_in_flight` tickets run, at most `max_queued` wait, first come first served."""

    def __init__(self, max_in_flight: int, max_queued: int) -> None:
        self.max_in_flight, self.max_queued = max_in_flight, max_queued
        self._running = 0
        self._waiting: deque[Ticket] = deque()

    @property
    def in_flight(self) -> int:
        return self._running

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def enter(self, ticket: Ticket) -> Entry:
        """What becomes of a new call. `wait` ends when `leave` returns its ticket, or `give_up` takes it out."""
        if self._running < self.max_in_flight:
            self._running += 1
            return "run"
        if len(self._waiting) < self.max_queued:
            self._waiting.append(ticket)
            return "wait"
        return "busy"

    def leave(self) -> Ticket | None:
        """A running call has ended; the ticket that runs in its place, if any waits."""
        if self._waiting:
            return self._waiting.popleft()
        self._running -= 1
        return None

    def give_up(self, ticket: Ticket) -> bool:
        """A waiting call has ended; `False` when it was not waiting."""
        try:
            self._waiting.remove(ticket)
        except ValueError:
            return False
        return True

    def waiting(self) -> tuple[Ticket, ...]:
        """Everybody who waits, in order."""
        return tuple(self._waiting)
