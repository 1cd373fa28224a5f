"""Calls that wait for a Computer: who gets the answer, and when waiting ends (W-CALL-12, W-ERR-30…32).

Pure: time is an argument. A call ends exactly once, by the Computer's acknowledgement,
by its limit, or because the Computer went away; what comes later finds nothing.
"""

from __future__ import annotations

import heapq
import itertools
import math

from .session import Call, Session

_SLACK = 1_024
"""Ended calls kept in the heap before it is rebuilt; bounds memory at twice the waiting calls plus this."""


class PendingCalls:
    """All waiting calls of a Server."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Call]] = []
        self._order = itertools.count()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def add(self, call: Call, deadline: float) -> None:
        """Waits for the acknowledgement of `call` until `deadline`, in seconds on the caller's clock."""
        call.target.calls[call.relay_id] = call
        call.origin.open_calls += 1
        self._waiting += 1
        heapq.heappush(self._heap, (deadline, next(self._order), call))
        if len(self._heap) > 2 * self._waiting + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].waiting]
            heapq.heapify(self._heap)

    def answered(self, target: Session, relay_id: int) -> Call | None:
        """The call this acknowledgement ends; `None` for a late one and for an id this Computer was never given."""
        call = target.calls.get(relay_id)
        if call is not None:
            self._end(call)
        return call

    def lost(self, target: Session) -> list[Call]:
        """Ends every call that waits for a Computer that went away (W-ERR-30)."""
        calls = list(target.calls.values())
        for call in calls:
            self._end(call)
        return calls

    def due(self, now: float) -> list[Call]:
        """Ends every call whose limit has passed (W-CALL-12)."""
        calls = []
        while self._heap and self._heap[0][0] <= now:
            call = heapq.heappop(self._heap)[2]
            if call.waiting:
                self._end(call)
                calls.append(call)
        return calls

    def next_deadline(self) -> float:
        """When `due` has to be asked next; `inf` while nothing waits."""
        while self._heap and not self._heap[0][2].waiting:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def _end(self, call: Call) -> None:
        call.waiting = False
        del call.target.calls[call.relay_id]
        call.origin.open_calls -= 1
        self._waiting -= 1
