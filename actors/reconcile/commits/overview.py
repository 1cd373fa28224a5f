"""The overview: what is degraded now, kept current by facts, for whoever shows a Computer's state.

Facts only say that something moved; what it is now is asked of `reconcile`, once for a
burst of facts. Actors that were given up are degradations too (DEC-35, R-LIFE-24).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from ....bus import Bus, Observer
from ....wire.envelope import Address
from ....wire.errors import BusError, DeadlineExceeded, Overloaded
from ....wire.messages.kernel import ActorDown, ActorParked, ActorUp
from ....wire.messages.mcp import ServerStatus, ServerStatusChanged
from ....wire.messages.projection import (
    Committed,
    Degradation,
    DegradationsMoved,
    GetProjectionStatus,
    ProjectionStatus,
)
from ....wire.messages.socket import LinkChanged

RECONCILE = Address("reconcile")
ASK_LIMIT = 5.0
ASK_AGAIN = 0.5
"""Seconds until a `reconcile` that had no time is asked again."""

Settled = frozenset({"connected", "error", "authorization_required"})


class Overview:
    """What is known of the servers and actors of one bus. `run` keeps it current until cancelled.

    Args:
        on_change: Called when `degradations` may have changed.
        on_link: Called for each change of the link, in order.
        on_actor: Called for each death of an actor: its address, and whether it will be restarted.
    """

    def __init__(
        self,
        bus: Bus,
        *,
        on_change: Callable[[], None],
        on_link: Callable[[LinkChanged], None],
        on_actor: Callable[[str, bool], None],
    ) -> None:
        self._bus = bus
        self._on_change, self._on_link, self._on_actor = on_change, on_link, on_actor
        self._parked: dict[str, Degradation] = {}
        self._stale = anyio.Event()
        self._fresh = anyio.Event()
        self.status = ProjectionStatus(0)
        # Subscribed at once, so that nothing said before `run` gets its turn is missed.
        moving = (Committed, DegradationsMoved, ServerStatusChanged)
        self._facts = Observer(bus, LinkChanged, ActorUp, ActorDown, ActorParked, *moving)

    @property
    def degradations(self) -> tuple[Degradation, ...]:
        """Everything open now, servers and actors."""
        return (*self.status.degradations, *(self._parked[address] for address in sorted(self._parked)))

    async def run(self) -> None:
        """Follows the facts."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._refresh)
            with self._facts as facts:
                async for fact in facts:
                    self._take(fact)

    async def launched(self, within: float) -> None:
        """Waits until every server that was started has come up or failed, at most `within` seconds (DEC-37)."""
        with anyio.move_on_after(within):
            while not (self.status.commit and all(map(_is_settled, self.status.servers))):
                await self._fresh.wait()

    def _take(self, fact: object) -> None:
        match fact:
            case LinkChanged():
                self._on_link(fact)
            case ActorParked():
                self._parked[fact.address] = Degradation(
                    "actor", fact.address, "startup", "parked", time.time(), fact.reason, "inspect the diagnostics"
                )
                self._on_change()
            case ActorUp():
                if self._parked.pop(fact.address, None) is not None:
                    self._on_change()
                if fact.address == RECONCILE:
                    self._stale.set()
            case ActorDown():
                # One that is parked for good is down before it is parked; one that is down after it was taken away.
                if fact.next_try is None and self._parked.pop(fact.address, None) is not None:
                    self._on_change()
                self._on_actor(fact.address, fact.next_try is not None)
            case _:
                self._stale.set()

    async def _refresh(self) -> None:
        while True:
            await self._stale.wait()
            self._stale = anyio.Event()
            try:
                self.status = await self._bus.ask(RECONCILE, GetProjectionStatus(), timeout=ASK_LIMIT)
            except (DeadlineExceeded, Overloaded):
                # It is busy, and would say nothing of its own accord.
                self._stale.set()
                await anyio.sleep(ASK_AGAIN)
                continue
            except BusError:
                continue  # it is being restarted, and says so when it is up again
            self._on_change()
            fresh, self._fresh = self._fresh, anyio.Event()
            fresh.set()


def _is_settled(status: ServerStatus) -> bool:
    return status.activation == "stopped" or status.connection in Settled or status.phase == "idle"
