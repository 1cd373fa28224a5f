"""The requests in work: how many, over which connection each came, and how to end them."""

from __future__ import annotations

import anyio


class Work:
    """One request in work, and the connection it came over."""

    __slots__ = ("generation", "scope")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.scope = anyio.CancelScope()


class InFlight:
    """All requests in work."""

    def __init__(self) -> None:
        self._works: set[Work] = set()
        self._idle = anyio.Event()

    def __len__(self) -> int:
        return len(self._works)

    def begin(self, generation: int) -> Work:
        """A request came over the connection of this generation."""
        work = Work(generation)
        self._works.add(work)
        return work

    def end(self, work: Work) -> None:
        """It was answered."""
        self._works.discard(work)
        if not self._works:
            self._idle.set()
            self._idle = anyio.Event()

    async def until_idle(self, limit: float) -> None:
        """Waits until none is left, or `limit` seconds."""
        with anyio.move_on_after(max(0.0, limit)):
            while self._works:
                await self._idle.wait()

    def interrupt(self, up_to: int | None = None) -> None:
        """Ends the work on all, or on those of connections up to this generation; each is still answered."""
        for work in self._works:
            if up_to is None or work.generation <= up_to:
                work.scope.cancel()
