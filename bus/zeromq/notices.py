"""Counts what unwelcome peers do and logs it at a bounded rate, so that they cannot fill the log."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Notices:
    """One log line per kind in `every` seconds; the next one tells how many it stands for."""

    def __init__(self, clock: Callable[[], float], *, every: float = 10.0) -> None:
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._every = every
        self._next: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def note(self, kind: str, text: str) -> None:
        """Counts an event of this kind. There are few kinds; `text` never quotes what a peer sent."""
        self.counts[kind] += 1
        self._unsaid[kind] += 1
        now = self._clock()
        if now >= self._next.get(kind, 0.0):
            logger.warning("%s (%d since the last such line)", text, self._unsaid[kind])
            self._next[kind] = now + self._every
            self._unsaid[kind] = 0
