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
        self._suspected = False
        self._running = False

    @property
    def running(self) -> bool:
        return self._running

    @property
    def stale(self) -> bool:
        """Whether a round is under way or due; one for a mere suspicion may come later than that."""
        return self._dirty or self._running

    def mark(self) -> None:
        """The list has changed, or must be taken for changed."""
        self._dirty = True

    def suspect(self, now: float) -> bool:
        """The list may have changed; makes one round in `UNASKED_GAP` seconds. Whether `due` has another answer now."""
        if self._dirty or self._suspected:
            return False
        self._suspected = True
        self._believe(now)
        return True

    def need(self, now: float) -> bool:
        """Somebody waits for the list as it is: a suspicion counts at once, and so does age. Whether either did."""
        self._suspected = self._suspected or now - self._last_round >= UNASKED_GAP
        if not self._suspected:
            return False
        self._dirty, self._suspected = True, False
        return True

    def due(self, now: float) -> float | None:
        """When the next round may begin: now or later; `None` while one runs or none is needed."""
        self._believe(now)
        if self._running:
            return None
        if not self._dirty:
            return self._last_round + UNASKED_GAP if self._suspected else None
        self._count(now)
        return now if self._tokens >= 1 else now + (1 - self._tokens) / self._refill

    def begin(self, now: float) -> None:
        """A round begins; what it will find is newer than every mark so far."""
        self._count(now)
        self._tokens -= 1
        self._last_round = now
        self._dirty, self._suspected, self._running = False, False, True

    def end(self) -> bool:
        """A round has ended; whether the list was dirtied meanwhile."""
        self._running = False
        return self._dirty

    def _believe(self, now: float) -> None:
        """Takes a suspicion for a mark as soon as the last round is long enough ago."""
        if self._suspected and now - self._last_round >= UNASKED_GAP:
            self._dirty, self._suspected = True, False

    def _count(self, now: float) -> None:
        self._tokens = min(float(self._burst), self._tokens + (now - self._counted_at) * self._refill)
        self._counted_at = now
