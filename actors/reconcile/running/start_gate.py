"""The start gate: how many servers may be starting at once, overall and per launcher (DEC-3).

Pure. Places are given in the order of asking, except that a server whose launcher is full
does not hold up the others behind it. A place that outlives its budget is taken back.
"""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath, PureWindowsPath

from ..config.options import LAUNCHERS


def launcher_of(command: str) -> str:
    """The launcher a command counts for: its file name without extension, `""` for one that is none."""
    name = PureWindowsPath(command).name if "\\" in command else PurePosixPath(command).name
    stem = name.rsplit(".", 1)[0] if "." in name else name
    return stem if stem in LAUNCHERS else ""


class StartGate:
    """Places and the queue for them.

    Args:
        most: Starts at once, all together.
        most_per_launcher: Starts at once of each launcher.
        budget: Seconds after which a place is taken back from a start that never ended it.
    """

    def __init__(self, most: int = 8, most_per_launcher: int = 2, budget: float = 60.0) -> None:
        self._most = most
        self._most_per_launcher = most_per_launcher
        self._budget = budget
        self._queue: dict[str, str] = {}
        self._holders: dict[str, tuple[str, float]] = {}
        self._launchers: Counter[str] = Counter()
        self._is_closed = False

    @property
    def starting(self) -> tuple[str, ...]:
        """Who holds a place."""
        return tuple(self._holders)

    @property
    def queued(self) -> tuple[str, ...]:
        """Who waits, first come first."""
        return tuple(self._queue)

    @property
    def is_closed(self) -> bool:
        """Whether nobody is let in any more."""
        return self._is_closed

    def request(self, bundle_id: str, launcher: str, now: float) -> tuple[str, ...]:
        """Asks for a place; asking again while holding one renews its budget. Returns who got one now."""
        if bundle_id in self._holders:
            self._holders[bundle_id] = (self._holders[bundle_id][0], now)
            return (bundle_id,)
        self._queue.pop(bundle_id, None)
        self._queue[bundle_id] = launcher if launcher in LAUNCHERS else ""
        return self._admit(now)

    def release(self, bundle_id: str, now: float) -> tuple[str, ...]:
        """Gives a place back or leaves the queue; unknown ids are fine. Returns who got a place now."""
        self._queue.pop(bundle_id, None)
        held = self._holders.pop(bundle_id, None)
        if held is not None and held[0]:
            self._launchers[held[0]] -= 1
        return self._admit(now)

    def expire(self, now: float) -> tuple[str, ...]:
        """Takes back places whose budget is over. Returns who got a place now."""
        admitted: list[str] = []
        for bundle_id, (_, since) in tuple(self._holders.items()):
            if now - since >= self._budget:
                admitted.extend(self.release(bundle_id, now))
        return tuple(admitted)

    def next_expiry(self) -> float | None:
        """The moment at which the oldest place is taken back, `None` when none is held."""
        return min((since + self._budget for _, since in self._holders.values()), default=None)

    def close(self) -> tuple[str, ...]:
        """Lets nobody in any more; returns who was queued and ends at once."""
        self._is_closed = True
        left = tuple(self._queue)
        self._queue.clear()
        return left

    def open(self) -> None:
        """Lets starts in again."""
        self._is_closed = False

    def _admit(self, now: float) -> tuple[str, ...]:
        admitted: list[str] = []
        for bundle_id, launcher in tuple(self._queue.items()):
            if self._is_closed or len(self._holders) >= self._most:
                break
            if launcher and self._launchers[launcher] >= self._most_per_launcher:
                continue
            del self._queue[bundle_id]
            self._holders[bundle_id] = (launcher, now)
            if launcher:
                self._launchers[launcher] += 1
            admitted.append(bundle_id)
        return tuple(admitted)
