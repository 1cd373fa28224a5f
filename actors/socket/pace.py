"""When large answers leave: while tools are being called, only so often that most calls meet none on their way.

Pure, time in seconds as an argument. A chunk of a blob keeps every hop between Computer and
Agent busy for several times as long as a whole call. So while calls come, chunks leave with
a gap between them, in which calls find the way free; without calls they leave at once.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

GAP: Final = 0.02
"""Seconds between two chunks beside calls: 13 MB/s are left for the blob, 30 % of the calls meet a chunk."""
PATIENCE: Final = 0.25
"""Seconds for which a call is given way to; one that takes longer does not feel a few milliseconds."""
LULL: Final = 0.05
"""Seconds after a call in which the next one is expected."""


class Pace:
    """The pace of one connection."""

    def __init__(self) -> None:
        self._calls: OrderedDict[int, float] = OrderedDict()
        self._number = 0
        self._ended = -math.inf
        self._left = -math.inf

    def began(self, now: float) -> int:
        """A call came; its number for `ended`."""
        self._number += 1
        self._calls[self._number] = now
        return self._number

    def ended(self, number: int, now: float) -> None:
        """A call was answered."""
        if now - self._calls.pop(number) <= PATIENCE:
            self._ended = now

    def wait(self, now: float) -> float:
        """Seconds that a large answer is to wait now."""
        newest = next(reversed(self._calls.values()), -math.inf)
        if now - newest > PATIENCE and now - self._ended > LULL:
            return 0.0
        return max(0.0, self._left + GAP - now)

    def left(self, now: float) -> None:
        """A large answer has left."""
        self._left = now
