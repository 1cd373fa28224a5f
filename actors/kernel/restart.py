"""Restart decisions: pure, with time as an argument (DEC-1, DEC-35).

Each child has its own history. Beyond its intensity, or after too many failures in a row,
it is parked instead of escalating: visible, tried again slowly, reset by a manual start.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from ...wire.backoff import Backoff

RestartKind = Literal["permanent", "transient", "temporary"]
"""Restarted always; only after a crash; never."""


class RestartPolicy(msgspec.Struct, frozen=True):
    """How one child is restarted. Times in seconds.

    Attributes:
        backoff: Delays between tries.
        max_restarts: Most restarts within `within`; one more parks the child.
        stable_after: Uptime that forgets earlier failures.
        park_retry: Time to the next try of a parked child; 0 for never.
    """

    backoff: Backoff = Backoff(initial=0.05, longest=5.0)
    max_restarts: int = 5
    within: float = 60.0
    stable_after: float = 60.0
    park_retry: float = 300.0


class Restart(msgspec.Struct, frozen=True):
    """Start it again after `delay` seconds."""

    delay: float


class Park(msgspec.Struct, frozen=True):
    """Give it up for now; try once more after `retry_in` seconds, `None` for never."""

    retry_in: float | None


class Window:
    """Restarts within a sliding time; for actors and MCP servers alike (DEC-1)."""

    def __init__(self) -> None:
        self._restarts: deque[float] = deque()

    def record(self, now: float) -> None:
        """One more."""
        self._restarts.append(now)

    def count(self, now: float, within: float) -> int:
        """How many fall within the `within` seconds that end now."""
        while self._restarts and now - self._restarts[0] >= within:
            self._restarts.popleft()
        return len(self._restarts)

    def clear(self) -> None:
        """Forgets them."""
        self._restarts.clear()


class History:
    """The failures of one child."""

    def __init__(self, policy: RestartPolicy, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._policy = policy
        self._uniform = uniform
        self._window = Window()
        self._in_a_row = 0
        self._last = 0.0

    @property
    def restarts_in_window(self) -> int:
        """Restarts that still count."""
        return self._window.count(self._last, self._policy.within)

    def failed(self, *, started_at: float, now: float) -> Restart | Park:
        """Decides after a life that began at `started_at` ended at `now`."""
        policy = self._policy
        if now - started_at >= policy.stable_after:
            self.reset()
        self._last = now
        if self._window.count(now, policy.within) >= policy.max_restarts:
            return Park(policy.park_retry or None)
        self._window.record(now)
        delay = policy.backoff.delay(self._in_a_row, self._uniform)
        self._in_a_row += 1
        return Restart(delay)

    def reset(self) -> None:
        """Forgets everything: a manual start, or a long healthy life."""
        self._window.clear()
        self._in_a_row = 0
