"""When a failed server is tried again: the delays of R-MCP-21, the sliding window and parking of DEC-1 and DEC-35."""

from __future__ import annotations

import random
from collections.abc import Callable

from ....wire.backoff import Backoff
from ....wire.messages.mcp import ReconnectPolicy
from ...kernel.restart import Window

Uniform = Callable[[float, float], float]
"""Draws the jitter between two bounds."""


def backoff(policy: ReconnectPolicy) -> Backoff:
    """The delays of a policy."""
    return Backoff(policy.initial_delay, policy.max_delay, policy.backoff_factor)


class RestartLaw:
    """Counts the tries of one server.

    Attributes:
        retries: Tries made since the counters were last cleared.
    """

    def __init__(self, policy: ReconnectPolicy, uniform: Uniform = random.uniform) -> None:
        self.policy = policy
        self.retries = 0
        self._uniform = uniform
        self._window = Window()

    def next_try(self, now: float) -> float | None:
        """When to try again after a failure at `now`; `None` when the server is to be parked."""
        policy = self.policy
        if not policy.enabled:
            return None
        unlimited = policy.max_retries == 0
        exhausted = self.retries >= policy.max_retries or self.in_window(now) >= policy.intensity_max
        if exhausted and not unlimited:
            return None
        return now + backoff(policy).delay(self.retries, self._uniform)

    def slow_try(self, now: float) -> float | None:
        """When to try a server that was parked at `now`; `None` for never."""
        if not self.policy.enabled or self.policy.park_retry <= 0:
            return None
        return now + self.policy.park_retry

    def tried(self, now: float) -> None:
        """A try begins."""
        self.retries += 1
        self._window.record(now)

    def in_window(self, now: float) -> int:
        """Tries within the sliding window that ends now."""
        return self._window.count(now, self.policy.intensity_within)

    def clear(self) -> None:
        """Forgets every failure: the server was stable, or a person wants it started."""
        self.retries = 0
        self._window.clear()
