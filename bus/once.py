"""Once: the numbers of messages that have been seen to their end, so that none is worked on twice.

A line may say things twice, whatever carries it. Who takes messages from one asks here before
it works on them. Pure; the oldest numbers give way, since what comes twice comes soon.
"""

from __future__ import annotations

from collections import OrderedDict

REMEMBERED = 4096


class Once(OrderedDict[int, None]):
    """Bounded set of numbers, oldest first out. `number in once` is what it is for.

    Not a plain dict: finding its oldest entry means passing all places that older ones have left.
    """

    def __init__(self, size: int = REMEMBERED) -> None:
        super().__init__()
        self._size = size

    def note(self, number: int) -> None:
        """Remembers a number from now on."""
        self[number] = None
        if len(self) > self._size:
            self.popitem(last=False)
