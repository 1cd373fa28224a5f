"""One life of a child as its supervisor sees it, wherever it is lived.

A `Runner` lives it in this process. A life elsewhere (a worker process) has the same shape, so
that restarts, parking, kills and what is shown of a child are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Perished(Exception):
    """A life that is lived elsewhere is over. `why` is for people and holds no secret."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Incarnation(Protocol):
    """A life. Cancelling `run` kills it on the spot; nothing of it may be left when that has ended."""

    async def run(self, *, start_timeout: float, on_up: Callable[[], None]) -> None:
        """Lives, and calls `on_up` once messages are taken; returns normally only after `stop`.

        Raises:
            Exception: Whatever ended it.
        """
        ...

    def stop(self, within: float) -> None:
        """Asks for a graceful end; handlers in work get `within` seconds, and so does what follows."""
        ...

    @property
    def queued(self) -> int:
        """Messages that wait."""
        ...

    @property
    def high_water(self) -> int:
        """The most its mailbox has held."""
        ...

    @property
    def busy(self) -> int:
        """Handlers at work."""
        ...

    @property
    def capacity(self) -> int:
        """Messages its mailbox holds."""
        ...
