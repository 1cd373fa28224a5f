"""Calls in flight: one entry per `req_id`, its deadline, how far it got, and who ended it.

Pure: time comes in as an argument, and interrupting a call is a callable that the shell
put there. An entry exists from the moment a call is accepted until it is answered, so a
repeated `req_id` is seen and a cancellation finds its call (W-CALL-14, W-CALL-16).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from ...wire.results import Outcome
from .exposure import Route

EndedBy = Literal["agent", "drain"]


class Call:
    """One call on its way.

    Attributes:
        req_id: Its id, unique among calls in flight.
        deadline: Clock second at which its own time limit ends it; nothing moves it (DEC-11).
        timeout: The limit as requested, in seconds.
        route: Where it goes; `None` until the name was resolved.
        handed_over: Whether its server may have it. A call that waits in a server's queue was not handed over.
        ended_by: Who ended it before its server answered.
    """

    def __init__(self, req_id: str, timeout: float, now: float) -> None:
        self.req_id = req_id
        self.timeout = timeout
        self.began = now
        self.deadline = now + timeout
        self.route: Route | None = None
        self.handed_over = False
        self.ended_by: EndedBy | None = None
        self.interrupt: Callable[[], None] = _nothing

    @property
    def outcome(self) -> Outcome:
        """What is known of its execution when it ends now without an answer (DEC-10)."""
        return "unknown" if self.handed_over else "not_executed"

    def remaining(self, now: float) -> float:
        """Seconds left of its own limit, not below 0."""
        return max(0.0, self.deadline - now)


class InFlight:
    """All calls in flight, and how many of them each server has."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._loads: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(tuple(self._calls.values()))

    def admit(self, req_id: str, timeout: float, now: float) -> Call | None:
        """A new call, or `None` when one of this id is in flight, which stays undisturbed (W-CALL-16)."""
        if req_id in self._calls:
            return None
        call = self._calls[req_id] = Call(req_id, timeout, now)
        return call

    def assign(self, call: Call, route: Route, capacity: int) -> bool:
        """Gives a call a place at its server; `False` when that server has `capacity` calls already (DEC-7)."""
        if self._loads[route.bundle_id] >= capacity:
            return False
        call.route = route
        self._loads[route.bundle_id] += 1
        return True

    def end(self, call: Call) -> None:
        """Forgets an answered call."""
        del self._calls[call.req_id]
        if call.route is not None:
            self._loads[call.route.bundle_id] -= 1
            if not self._loads[call.route.bundle_id]:
                del self._loads[call.route.bundle_id]

    def cancel(self, req_id: str) -> bool:
        """Ends the call of this id for its Agent; `False` when there is none, which is no fault (W-CALL-14)."""
        call = self._calls.get(req_id)
        if call is None:
            return False
        _end(call, "agent")
        return True

    def note_queue(self, bundle_id: str, req_id: str, *, waiting: bool) -> None:
        """A server's actor says that a call waits in its queue, or has left it. Of calls of others it knows nothing."""
        call = self._calls.get(req_id)
        if call is not None and call.route is not None and call.route.bundle_id == bundle_id:
            call.handed_over = not waiting

    def end_all(self) -> None:
        """Ends every call because the Computer stops taking part."""
        for call in self:
            _end(call, "drain")


def _end(call: Call, who: EndedBy) -> None:
    if call.ended_by is None:
        call.ended_by = who
        call.interrupt()


def _nothing() -> None:
    """A call that nobody waits on yet needs no interruption."""
