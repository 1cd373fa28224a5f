"""Whether a server is alive: when to ask, what to ask, and what silence means (DEC-2, DEC-24, R-MCP-22). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from ....wire.messages.mcp import HealthCheck
from ..session.listing import Kind

MISSES = 2
"""Missed probes in a row that make a server unhealthy."""

Verdict = Literal["alive", "ask_again", "unhealthy"]


class Health:
    """The probing of one session.

    Args:
        declared: Lists the server declared, with their size in bytes where it is known; the smallest is the
            cheapest to ask for.
    """

    def __init__(self, check: HealthCheck, *, modern: bool, declared: Mapping[Kind, int | None]) -> None:
        self._check = check
        self._modern = modern
        self.declared: dict[Kind, int | None] = dict(declared)
        self._ping_answered = False
        self._ping_ignored = False
        self._misses = 0
        self._asked_at = -math.inf

    def due(self, *, last_received: float, last_work: float | None) -> float:
        """When a probe is due: an interval after the server's last message, the last news of work, the last probe."""
        return max(last_received, last_work or -math.inf, self._asked_at) + self._check.interval

    def asked(self, now: float) -> None:
        """A probe is sent."""
        self._asked_at = now

    def request(self) -> str | None:
        """The method to probe with, `None` when only the process or the connection itself can tell."""
        if not self._check.enabled:
            return None
        if self._modern:
            return "server/discover"
        if not self._ping_ignored:
            return "ping"
        known = [kind for kind, size in self.declared.items() if size is not None]
        if known:
            return f"{min(known, key=lambda kind: self.declared[kind] or 0)}/list"
        return f"{next(iter(self.declared))}/list" if self.declared else None

    def answered(self, method: str) -> None:
        """A probe was answered, with whatever."""
        self._misses = 0
        if method == "ping":
            self._ping_answered = True

    def unanswered(self, method: str, *, heard: bool, working: bool) -> Verdict:
        """What a probe without an answer means.

        Args:
            heard: Something else came from the server meanwhile.
            working: A request of ours is in flight whose last news is younger than an interval.
        """
        if heard or working:
            self._misses = 0
            return "alive"
        if method == "ping" and not self._ping_answered:
            self._ping_ignored = True
            return "ask_again"
        self._misses += 1
        return "unhealthy" if self._misses >= MISSES else "ask_again"
