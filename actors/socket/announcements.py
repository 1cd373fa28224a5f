"""Which `server:update_*` are owed to the office, and when each is due (R-PROJ-3…7, DEC-27).

Pure, time in seconds as an argument. A change starts a trailing window that further
changes extend up to a limit; outside an office changes are only remembered, and sent once
after the next join. A taken announcement is the caller's to send; what cannot be sent
stays owed without a window of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from ...wire.messages.projection import Slice

ORDER: Final[tuple[Slice, ...]] = ("config", "tool_list", "desktop", "skills", "finder")
"""Announcements due at the same time leave in this order."""

EVENTS: Final[dict[Slice, str]] = {slice: f"server:update_{slice}" for slice in ORDER}
"""The event that announces a slice."""


class _Mark(msgspec.Struct):
    """An owed announcement: when its window began and when it ends; `inf` while nothing runs."""

    began: float
    due: float


class Announcements:
    """Owed announcements of one Computer.

    Args:
        window: Seconds of quiet after a change before it is announced.
        longest: Seconds after the first unsent change at which it is announced without quiet.
    """

    def __init__(self, window: float = 0.3, longest: float = 2.0) -> None:
        self._window = window
        self._longest = longest
        self._owed: dict[Slice, _Mark] = {}
        self._filled: frozenset[Slice] = frozenset()
        self._joined = False

    @property
    def owed(self) -> tuple[Slice, ...]:
        """What an Agent has not been told yet."""
        return tuple(slice for slice in ORDER if slice in self._owed)

    def committed(self, changed: Iterable[Slice], filled: Iterable[Slice], now: float) -> None:
        """A commit changed these slices; `filled` are all that are not empty after it."""
        self._filled = frozenset(filled)
        for slice in changed:
            self._owe(slice, now)

    def changed(self, slice: Slice, signature: str | None, now: float) -> None:
        """A slice changed without a commit; `signature` is that of the slice where it is known, `""` when empty."""
        if signature is not None:
            self._filled = self._filled | {slice} if signature else self._filled - {slice}
        self._owe(slice, now)

    def _owe(self, slice: Slice, now: float) -> None:
        mark = self._owed.get(slice)
        if not self._joined:
            self._owed[slice] = _Mark(math.inf, math.inf)
        elif mark is None or mark.due == math.inf:
            self._owed[slice] = _Mark(now, now + min(self._window, self._longest))
        else:
            mark.due = min(now + self._window, mark.began + self._longest)

    def joined(self, now: float) -> None:
        """The office took us in: everything owed is due at once."""
        self._joined = True
        for mark in self._owed.values():
            mark.began = mark.due = now

    def left(self) -> None:
        """We are outside: no window runs any more, what is owed waits for the next office."""
        self._joined = False
        for mark in self._owed.values():
            mark.began = mark.due = math.inf

    def lost(self) -> None:
        """As `left`, but our peers forgot us: all that is not empty is news to them (DEC-27)."""
        if self._joined:
            for slice in self._filled:
                self._owed.setdefault(slice, _Mark(math.inf, math.inf))
        self.left()

    def next_due(self) -> float | None:
        """When the next announcement is due; `None` while there is none to wait for."""
        due = min((mark.due for mark in self._owed.values()), default=math.inf)
        return due if due < math.inf else None

    def take_due(self, now: float) -> tuple[Slice, ...]:
        """What is due, no longer owed. A change from now on is news of its own."""
        due = tuple(slice for slice in ORDER if slice in self._owed and self._owed[slice].due <= now)
        for slice in due:
            del self._owed[slice]
        return due

    def unsent(self, slice: Slice) -> None:
        """Sending failed twice: it stays owed until the next change or the next join (R-PROJ-6)."""
        self._owed.setdefault(slice, _Mark(math.inf, math.inf))
