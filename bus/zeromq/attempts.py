"""How often a node tries to connect: for ever while nobody answers, a few times while it is refused (F-92). Pure."""

from __future__ import annotations

import msgspec

from ...wire.backoff import Backoff
from ...wire.errors import NodeRefused

UNREACHABLE = Backoff(initial=0.1, longest=5.0)
REFUSED = Backoff(initial=5.0, longest=60.0)
REFUSALS = 5
"""Refusals in a row after which a node gives up."""
TRANSIENT = ("name_taken", "full")
"""Refusals that time may cure: the namesake may be a process that has just died."""


class End(msgspec.Struct, frozen=True):
    """How a connection ended; `refusal` when the hub, or its security, turned us away.

    `is_farewell` when the hub took its leave, so that nothing broke.
    """

    why: str
    refusal: NodeRefused | None = None
    is_farewell: bool = False


class Attempts:
    """Counts what went wrong in a row, and says how long to wait.

    Args:
        unreachable, refused: Pauses after a connection that failed, or was refused.
        refusals: After so many refusals in a row it is enough.
    """

    def __init__(
        self, *, unreachable: Backoff = UNREACHABLE, refused: Backoff = REFUSED, refusals: int = REFUSALS
    ) -> None:
        self._unreachable, self._refused, self._limit = unreachable, refused, refusals
        self._failures = 0
        self._refusals = 0
        self._welcomed = False

    def after(self, end: End, *, was_up: bool) -> float | None:
        """Seconds until the next attempt; `None` to give up.

        Before the first welcome a refusal is final, unless time may cure it: somebody waits for the answer.
        """
        if was_up:
            self._failures = self._refusals = 0
            self._welcomed = True
        if end.refusal is None or end.refusal.code in TRANSIENT:
            self._failures += 1
            return self._unreachable.delay(self._failures - 1)
        self._refusals += 1
        if not self._welcomed or self._refusals >= self._limit:
            return None
        return self._refused.delay(self._refusals - 1)
