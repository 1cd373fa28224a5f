"""A house: a bus and the supervisor of its actors, kept open by one task of their own.

Task groups end where they began, but whoever embeds a Computer starts it in one task and
stops it in another. The task here belongs to nobody's task group: it lives from `open` to
`close`, and who opened it sees to both. asyncio only, like the shells that need it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ...bus import Bus, Meter
from .supervisor import Supervisor

logger = logging.getLogger(__name__)


class House:
    """Made by `open`.

    Attributes:
        bus: Open until `close`.
        supervisor: Keeper of all actors on it.
        gone: Set once everything has ended, whoever ended it.
    """

    bus: Bus
    supervisor: Supervisor

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._leave = asyncio.Event()
        self._on_collapse: Callable[[BaseException | None], None] | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, meter: Meter | None = None, make_bus: Callable[[Meter | None], Bus] = Bus) -> House:
        """A house with nobody in it yet."""
        house = cls()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        house._task = asyncio.get_running_loop().create_task(house._keep(ready, make_bus(meter)), name="smcp house")
        try:
            await ready
        except asyncio.CancelledError:
            house._task.cancel()
            raise
        return house

    @property
    def failure(self) -> BaseException | None:
        """What brought it down; `None` while it stands and after a proper close."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    def on_collapse(self, call: Callable[[BaseException | None], None]) -> None:
        """Calls `call` with the reason when everything ends though nobody asked for it."""
        assert self._task is not None
        self._on_collapse = call
        self._task.add_done_callback(self._ended)

    async def close(self, within: float) -> None:
        """Stops every actor, last started first, then the bus; what is not gone in `within` seconds is cancelled.

        Returns when nothing of it runs any more. Never raises what an actor raised.
        """
        assert self._task is not None
        self._leave.set()
        try:
            _, late = await asyncio.wait([self._task], timeout=within)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if late:
            logger.warning("actors did not stop within %g s and were cancelled", within)
            self._task.cancel()
            await asyncio.wait([self._task])

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._leave.is_set() and self._on_collapse is not None:
            self._on_collapse(self.failure)

    async def _keep(self, ready: asyncio.Future[None], bus: Bus) -> None:
        try:
            async with bus as self.bus, Supervisor(self.bus) as self.supervisor:
                ready.set_result(None)
                await self._leave.wait()
        finally:
            self.gone.set()
            if not ready.done():
                ready.cancel()
