"""Dead letters: messages to nobody. Counted, kept in a bounded ring, logged at a bounded rate."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable

from ..wire.envelope import Address, Envelope
from ..wire.message import Record

logger = logging.getLogger(__name__)


class DeadLetter(Record):
    """What is kept of an undeliverable message; never its body, which may hold a secret."""

    at: float
    kind: str
    subject: str
    target: Address
    sender: Address
    why: str


class DeadLetters:
    """Ring of the last dead letters, and exact counts of all.

    Args:
        keep: How many letters the ring holds.
        log_every: Seconds between two log lines for one address and reason; the next line tells how many were left out.
    """

    def __init__(self, clock: Callable[[], float], *, keep: int = 256, log_every: float = 10.0) -> None:
        self._clock = clock
        self._log_every = log_every
        self._ring: deque[DeadLetter] = deque(maxlen=keep)
        self._counts: Counter[tuple[Address, str]] = Counter()
        self._logged: dict[tuple[Address, str], tuple[float, int]] = {}

    @property
    def total(self) -> int:
        """All dead letters since the bus began."""
        return self._counts.total()

    @property
    def recent(self) -> tuple[DeadLetter, ...]:
        """The last ones, oldest first."""
        return tuple(self._ring)

    def add(self, envelope: Envelope, why: str) -> None:
        """Files one."""
        now = self._clock()
        self._ring.append(DeadLetter(now, envelope.kind, envelope.subject, envelope.target, envelope.sender, why))
        place = (envelope.target, why)
        self._counts[place] += 1
        last, reported = self._logged.get(place, (-self._log_every, 0))
        if now - last >= self._log_every:
            count = self._counts[place] - reported
            self._logged[place] = (now, self._counts[place])
            logger.warning("dead letter: %s %s to %s (%s), %d in all", envelope.kind, envelope.subject, *place, count)
        if len(self._logged) > 1024:
            self._logged.clear()
