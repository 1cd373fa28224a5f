"""The bulletin: one Computer's public state, put together from what operations, link and actors say of it.

An operation lays its own phase (`starting`, `syncing`, …) over what the link makes of a
running Computer. Every change is told to every listener once, in order (R-LIFE-26).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

import anyio

from ...wire.errors import Failure
from ...wire.lifecycle import Lifecycle, Phase, State, StateChange
from ...wire.messages.socket import LinkChanged
from ..socket.standing import Standing

logger = logging.getLogger(__name__)

Listener = Callable[[StateChange], None]


class Bulletin:
    """State of one Computer.

    Args:
        wall_clock: Unix seconds.

    Attributes:
        standing: Where it stands towards its Server.
    """

    def __init__(self, name: str, wall_clock: Callable[[], float] = time.time) -> None:
        self._name = name
        self._wall_clock = wall_clock
        self._life = Lifecycle()
        self._base: Phase = "created"
        self._overlay: Phase | None = None
        self._listeners: list[Listener] = []
        self._moved = anyio.Event()
        self.standing = Standing()

    @property
    def phase(self) -> Phase:
        """Where its life is (R-LIFE-1)."""
        return self._life.phase

    @property
    def state(self) -> State:
        """The phase, or `degraded`."""
        return self._life.state

    @property
    def sequence(self) -> int:
        """Number of the last change."""
        return self._life.sequence

    # -- what is said of it ---------------------------------------------------------------

    def during(self, overlay: Phase) -> None:
        """An operation is at work, and this is its phase."""
        self._overlay = overlay
        self.refresh()

    def settle(self, base: Phase, *, code: str | None = None) -> None:
        """The operation ended in this phase; `started` leaves the say to the link."""
        self._base, self._overlay = base, None
        if base != "started":
            self.standing = Standing()
        self.refresh(code=code)

    def refresh(self, *, code: str | None = None) -> None:
        """Enters the phase that follows from what is known. `code` says why, when it was a failure."""
        phase = self._overlay or (self.standing.phase if self._base == "started" else self._base)
        self._tell(self._life.enter(phase, self._wall_clock(), code))

    def link_moved(self, fact: LinkChanged) -> None:
        """The SocketActor announced a change."""
        if self.standing.learned(fact):
            self.refresh(code=fact.error.code if fact.error is not None else None)
            self._rouse()

    def link_lost(self, *, returns: bool) -> None:
        """The SocketActor died; `returns` says that another life will restore the wish."""
        self.standing.actor_down(returns=returns)
        self.refresh(code="actor_down")

    def degrade(self, *, degraded: bool) -> None:
        """Whether any degradation is open."""
        self._tell(self._life.degrade(degraded=degraded, at=self._wall_clock()))

    # -- who listens ------------------------------------------------------------------------

    def observe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` for every change from now on; returns the function that ends it."""
        self._listeners.append(listener)

        def forget() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return forget

    def close(self) -> None:
        """Nobody listens any more."""
        self._listeners.clear()

    async def wait_for(self, *states: State) -> State:
        """Waits until phase or state is one of these; returns the state."""
        while self.state not in states and self.phase not in states:
            await self._moved.wait()
        return self.state

    async def turned_away(self) -> Failure | None:
        """Waits until nothing will bring it back to its Server any more, or it can't go on at all; returns why."""
        while self.phase != "error" and not self.standing.turned_away:
            await self._moved.wait()
        return self.standing.failure

    def _tell(self, change: StateChange | None) -> None:
        if change is None:
            return
        for listener in tuple(self._listeners):
            try:
                listener(change)
            except Exception as error:
                logger.error("an observer of %s failed: %s", self._name, type(error).__name__)
        self._rouse()

    def _rouse(self) -> None:
        moved, self._moved = self._moved, anyio.Event()
        moved.set()
