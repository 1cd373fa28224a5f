"""Dead letters: messages to nobody. Counted, kept in a bounded ring, logged at a bounded rate (F-105)."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable

from ..wire.envelope import Address, Envelope
from ..wire.message import Record

logger = logging.getLogger(__name__)

PLACES = 256
"""Addresses whose log lines are rationed one by one; the longest silent are forgotten first."""


class DeadLetter(Record):
    """What is kept of an undeliverable message; never its body, which may hold a secret."""

    at: float
    kind: str
    subject: str
    target: Address
    sender: Address
    why: str


class _Ration:
    """Log lines of one address and reason."""

    __slots__ = ("next_line", "unsaid")

    def __init__(self) -> None:
        self.next_line = 0.0
        self.unsaid = 0


class DeadLetters:
    """Ring of the last dead letters, and the exact number of all.

    Args:
        keep: How many letters the ring holds.
        log_every: Seconds between two log lines for one address and reason; the next line tells how many it stands for.
        lines: Log lines for all addresses together in `log_every` seconds.
    """

    def __init__(
        self, clock: Callable[[], float], *, keep: int = 256, log_every: float = 10.0, lines: int = 20
    ) -> None:
        self.total = 0
        self._clock = clock
        self._log_every = log_every
        self._ring: deque[DeadLetter] = deque(maxlen=keep)
        self._rations: OrderedDict[tuple[Address, str], _Ration] = OrderedDict()
        self._lines: deque[float] = deque(maxlen=lines)

    @property
    def recent(self) -> tuple[DeadLetter, ...]:
        """The last ones, oldest first."""
        return tuple(self._ring)

    def add(self, envelope: Envelope, why: str) -> None:
        """Files one."""
        now = self._clock()
        self.total += 1
        self._ring.append(DeadLetter(now, envelope.kind, envelope.subject, envelope.target, envelope.sender, why))
        place = (envelope.target, why)
        ration = self._rations.setdefault(place, _Ration())
        self._rations.move_to_end(place)
        ration.unsaid += 1
        if now >= ration.next_line and self._may_log(now):
            logger.warning(
                "dead letter: %s %s to %s (%s); %d since the last such line, %d in all",
                envelope.kind, envelope.subject, *place, ration.unsaid, self.total,
            )  # fmt: skip
            ration.next_line, ration.unsaid = now + self._log_every, 0
        if len(self._rations) > PLACES:
            self._rations.popitem(last=False)

    def _may_log(self, now: float) -> bool:
        if len(self._lines) == self._lines.maxlen and now < self._lines[0] + self._log_every:
            return False
        self._lines.append(now)
        return True
