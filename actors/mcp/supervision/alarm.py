"""One moment that an actor wants to be woken at, which moves.

The timer of the event loop only sets an event, and a task of the actor does what is due: a task can be started from
a task in every event loop, from a bare timer's callback only in some.
"""

from __future__ import annotations

import asyncio


class Alarm:
    """Set as often as need be; only the last setting counts. Belongs to the event loop it is set in."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._due = asyncio.Event()

    def set(self, wait: float | None) -> None:
        """Goes off in `wait` seconds, at once for a moment that has passed, never for `None`."""
        if self._timer is not None:
            self._timer.cancel()
        self._due.clear()
        self._timer = None if wait is None else asyncio.get_running_loop().call_later(max(0.0, wait), self._due.set)

    async def rings(self) -> None:
        """Waits until it goes off."""
        await self._due.wait()
        self._due.clear()
