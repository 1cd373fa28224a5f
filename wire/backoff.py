"""The delay law of every retry: exponential, capped, with jitter (R-MCP-21, DEC-1).

Actors, MCP servers and the Socket.IO link all wait by it, so it stands here once. The
exponential part is tenacity's wait strategy.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import tenacity

from .message import Record

JITTER = 0.2


class Backoff(Record):
    """Shape of the delays, in seconds: `initial × factor^n`, at most `longest`, each ±20 %."""

    initial: float = 1.0
    longest: float = 30.0
    factor: float = 2.0

    def delay(self, retries: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
        """Seconds to wait after `retries` earlier retries, counted from 0. Spec: R-MCP-21."""
        strategy = tenacity.wait_exponential(multiplier=self.initial, max=self.longest, exp_base=self.factor)
        state = tenacity.RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = retries + 1
        return strategy(state) * uniform(1 - JITTER, 1 + JITTER)
