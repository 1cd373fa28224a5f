"""Conduct: how the operations of one Computer are carried out, and what can be seen of it meanwhile.

An operation gets its turn, is measured against the table of `wire.lifecycle`, and leaves
its failure where the diagnostics find it. What the operations do is the runtime's matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from ..wire.diagnostics import Diagnostics
from ..wire.envelope import Address
from ..wire.errors import Failure, SmcpError, to_failure
from ..wire.lifecycle import Operation, Phase, State, Verdict, admit
from ..wire.message import Ask
from .bulletin import Bulletin, Listener
from .crew import Crew, CrewView
from .kernel.turns import Turns
from .reconcile.computer_config import ComputerConfig

R = TypeVar("R")


class Conduct:
    """Base of a Computer: turns, state, and the crew it has while it runs."""

    def __init__(self, config: ComputerConfig) -> None:
        self._config = config
        self._turns = Turns()
        self._bulletin = Bulletin(config.name)
        self._failures: dict[Operation, Failure] = {}
        self._crew: Crew | None = None

    # -- what it is now -------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its protocol name."""
        return self._config.name

    @property
    def config(self) -> ComputerConfig:
        """The held configuration (R-CFG-8)."""
        return self._config

    @property
    def phase(self) -> Phase:
        """Where its life is (R-LIFE-1)."""
        return self._bulletin.phase

    @property
    def state(self) -> State:
        """The phase, or `degraded` while something is open that `diagnostics` names."""
        return self._bulletin.state

    @property
    def office(self) -> str | None:
        """The office it is in."""
        return self._bulletin.standing.office

    def observe(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` for every state change from now on, in order, once each (R-LIFE-26).

        It must return at once; what it raises is logged. Returns the function that ends it; shutdown ends all.
        """
        return self._bulletin.observe(listener)

    async def wait_for(self, *states: State) -> State:
        """Waits until phase or state is one of these, and returns the state."""
        return await self._bulletin.wait_for(*states)

    async def diagnostics(self) -> Diagnostics:
        """Everything there is to know (R-LIFE-23); waits for no operation and no server."""
        known = await self._crew.view() if self._crew is not None else CrewView()
        return Diagnostics(
            name=self.name,
            phase=self.phase,
            state=self.state,
            sequence=self._bulletin.sequence,
            office=self.office,
            commit=known.projection.commit,
            servers=known.projection.servers,
            degradations=known.degradations,
            findings=known.projection.findings,
            pending=known.projection.pending,
            failures=dict(self._failures),
            link=known.link,
            link_failure=self._bulletin.standing.failure,
            actors=known.actors,
        )

    def kill_actor(self, address: str) -> bool:
        """Kills an actor on the spot, as a fault would; its supervisor restarts it. `False` when there is none."""
        return self._crew is not None and self._crew.house.supervisor.kill_child(Address(address))

    # -- how an operation goes ------------------------------------------------------------

    @asynccontextmanager
    async def _operation(self, operation: Operation, *, interruptible: bool = False) -> AsyncIterator[None]:
        """The turn of an operation; its failure is kept for the diagnostics."""
        try:
            async with self._turns.take(operation, interruptible=interruptible):
                yield
        except SmcpError as error:
            self._failures[operation] = to_failure(error)
            raise
        self._failures.pop(operation, None)

    def _admit(self, operation: Operation, **facts: bool) -> Verdict:
        return admit(operation, self.phase, **facts)

    async def _ask(self, target: Address, message: Ask[R], limit: float) -> R:
        assert self._crew is not None
        return await self._crew.ask(target, message, limit)
