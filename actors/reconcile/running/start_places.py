"""The start gate with its waiters: who asked for a place is woken when it has one, or when none will be given."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio

from ....wire.errors import StartupError
from .start_gate import StartGate, launcher_of


class StartPlaces:
    """Shell of `StartGate`.

    Args:
        clock: Seconds, the clock of the gate.
    """

    def __init__(self, gate: StartGate, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._clock = clock
        self._waiters: dict[str, anyio.Event] = {}
        self._moved = anyio.Event()

    async def take(self, bundle_id: str, launcher: str) -> None:
        """Waits for a place. Whoever stops waiting leaves the queue.

        Raises:
            StartupError: The Computer is stopping (`stopping`); the start ends at once.
        """
        woken = self._waiters[bundle_id] = anyio.Event()
        try:
            self._wake(self._gate.request(bundle_id, launcher_of(launcher), self._clock()))
            if not self._gate.is_closed:
                await woken.wait()
        except BaseException:
            self.give_back(bundle_id)
            raise
        finally:
            if self._waiters.get(bundle_id) is woken:
                del self._waiters[bundle_id]
        if bundle_id not in self._gate.starting:
            raise StartupError("the Computer is stopping, nothing is started", code="stopping", bundle_id=bundle_id)

    def give_back(self, bundle_id: str) -> None:
        """Ends a start, or takes it out of the queue."""
        self._wake(self._gate.release(bundle_id, self._clock()))

    def close(self) -> None:
        """Lets nobody in any more; what is queued ends at once."""
        self._wake(self._gate.close())

    async def run(self) -> None:
        """Takes places back from starts that never gave them back."""
        while True:
            expiry = self._gate.next_expiry()
            with anyio.move_on_after(None if expiry is None else max(0.0, expiry - self._clock())):
                await self._moved.wait()
            self._moved = anyio.Event()
            self._admit(self._gate.expire(self._clock()))

    def _wake(self, bundle_ids: Iterable[str]) -> None:
        self._admit(bundle_ids)
        self._moved.set()

    def _admit(self, bundle_ids: Iterable[str]) -> None:
        for bundle_id in bundle_ids:
            waiter = self._waiters.get(bundle_id)
            if waiter is not None:
                waiter.set()
