"""When a list is fetched again: once per cause, merged while one runs, never in a storm (DEC-4, C-GEN-12, F-01, F-03).

Pure, with time as an argument. A mark is never lost: what is dirtied during a round makes one more round.
"""

from __future__ import annotations

BURST = 4
"""Rounds that may follow each other without a pause."""
REFILL = 0.5
"""Further rounds a second after that; a server that announces whenever it is listed costs no more than this."""
UNASKED_GAP = 5.0
"""Seconds between rounds that only suspect a change, because the server does not announce any (DEC-4)."""


class Refresh:
    """The rounds of one list of one session."""

    def __init__(self, now: float, *, burst: int = BURST, refill: float = REFILL) -> None:
        self._burst, self._refill = burst, refill
        self._tokens = float(burst)
        self._counted_at = now
        self._last_round = now
        self._dirty = False
        self._running = False

    @property
    def running(self) -> bool:
        return self._running

    @property
    def stale(self) -> bool:
        """Whether a round is under way or still to come."""
        return self._dirty or self._running

    def mark(self) -> None:
        """The list has changed, or must be taken for changed."""
        self._dirty = True

    def suspect(self, now: float) -> bool:
        """The list may have changed; counts at most once in `UNASKED_GAP` seconds. Whether it did count."""
        if self._dirty or now - self._last_round < UNASKED_GAP:
            return False
        self._dirty = True
        return True

    def due(self, now: float) -> float | None:
        """When the next round may begin: now or later; `None` while one runs or none is needed."""
        if self._running or not self._dirty:
            return None
        self._count(now)
        return now if self._tokens >= 1 else now + (1 - self._tokens) / self._refill

    def begin(self, now: float) -> None:
        """A round begins; what it will find is newer than every mark so far."""
        self._count(now)
        self._tokens -= 1
        self._last_round = now
        self._dirty, self._running = False, True

    def end(self) -> bool:
        """A round has ended; whether the list was dirtied meanwhile."""
        self._running = False
        return self._dirty

    def _count(self, now: float) -> None:
        self._tokens = min(float(self._burst), self._tokens + (now - self._counted_at) * self._refill)
        self._counted_at = now
