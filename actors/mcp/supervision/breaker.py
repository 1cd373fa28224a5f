"""Failing fast: a breaker per tool and one for the whole server (DEC-29, F-61). Pure, with time as an argument.

Errors that a tool reports are its answers and never count.
"""

from __future__ import annotations

from collections.abc import Callable

THRESHOLD = 5
"""Failures in a row that open a breaker."""


class Breaker:
    """Opens after failures in a row, and again for longer each time its trial fails.

    Args:
        delay: Seconds it stays open, by how often it has opened before.
    """

    def __init__(self, delay: Callable[[int], float], threshold: int = THRESHOLD) -> None:
        self._delay, self._threshold = delay, threshold
        self._failures = 0
        self._openings = 0
        self._until: float | None = None
        self._trial = False

    @property
    def open_until(self) -> float | None:
        """When a trial is due; `None` while it is closed."""
        return self._until

    def admits(self, now: float) -> bool:
        """Whether a call may pass; once a trial is due the first one is it, and the others wait for its end."""
        if self._until is None:
            return True
        if now < self._until or self._trial:
            return False
        self._trial = True
        return True

    def success(self) -> None:
        """A call was answered: closes."""
        self._failures = self._openings = 0
        self._until, self._trial = None, False

    def failure(self, now: float) -> None:
        """A call failed in a way that counts."""
        self._failures += 1
        if (self._until is None and self._failures >= self._threshold) or self._trial:
            self._open(now)

    def undecided(self) -> None:
        """A call ended without saying anything about the server, such as by a cancel."""
        self._trial = False

    def _open(self, now: float) -> None:
        self._until = now + self._delay(self._openings)
        self._openings += 1
        self._trial = False


class Breakers:
    """Those of one server and its tools."""

    def __init__(self, delay: Callable[[int], float]) -> None:
        self._delay = delay
        self.server = Breaker(delay)
        self._tools: dict[str, Breaker] = {}

    def is_open(self, tool: str, now: float) -> bool:
        """Whether a call of the tool would be refused now; takes no trial."""
        breaker = self._tools.get(tool)
        return self.server.open_until is not None or (
            breaker is not None and breaker.open_until is not None and now < breaker.open_until
        )

    def admits(self, tool: str, now: float) -> bool:
        """Whether a call of the tool may pass. The server's breaker is closed by probing, never by a call."""
        if self.server.open_until is not None:
            return False
        breaker = self._tools.get(tool)
        return breaker is None or breaker.admits(now)

    def answered(self, tool: str) -> None:
        """The server answered, whatever it said."""
        self.server.success()
        self._tools.pop(tool, None)

    def failed(self, tool: str, now: float, *, transport: bool) -> None:
        """A transport failure, or a time limit reached (`transport` false): that counts for the tool alone."""
        if transport:
            self.server.failure(now)
        self._tools.setdefault(tool, Breaker(self._delay)).failure(now)

    def undecided(self, tool: str) -> None:
        """The call ended without telling anything."""
        if tool in self._tools:
            self._tools[tool].undecided()
