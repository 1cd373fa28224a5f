"""Conduct: how the operations of one Computer are carried out, and what can be seen of it meanwhile.

An operation gets its turn, is measured against the table of `wire.lifecycle`, and leaves
its failure where the diagnostics find it. What the operations do is the runtime's matter.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...bus import Bus, Meter, Observer
from ...wire.diagnostics import Diagnostics
from ...wire.envelope import Address
from ...wire.errors import ConfigValidationError, ConflictError, Failure, Finding, SmcpError, to_failure
from ...wire.lifecycle import RUNNING, Operation, Phase, State, Verdict, admit
from ...wire.message import Ask
from ...wire.messages.plugins import WorkMoved
from ...wire.redaction import Redaction
from ..kernel.turns import Turns
from ..ops.health import Vitals
from ..ops.operations import Operations
from ..reconcile.config.computer_config import ComputerConfig, ParsedConfig
from ..reconcile.config.findings import render
from ..reconcile.held import Held
from .bulletin import Bulletin, Listener
from .crew import RECONCILE, Crew, CrewView
from .veto import Hook, refuse_vetoed

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="Conduct")

logger = logging.getLogger(__name__)

CHANGE_LIMIT = 120.0
"""Seconds for a change of the server set; servers are waited for elsewhere."""


class Conduct:
    """Base of a Computer: turns, state, and the crew it has while it runs.

    Args:
        config: What is held; what was odd about it is shown with the findings.
        warnings: What was odd about the options; as well.
        veto: May forbid operations; see `veto`.

    Attributes:
        operations: What operators look at.
        make_bus: Makes the bus of each start; tests and soaks put one there that injects faults (`bus.faults`).
    """

    make_bus: Callable[[Meter | None], Bus] = Bus

    def __init__(self, config: ParsedConfig, warnings: Sequence[Finding] = (), veto: Hook | None = None) -> None:
        self._warnings = tuple(warnings)
        self._veto = veto
        self._held = Held(config.config)
        self._given: tuple[ParsedConfig, ...] = (config,)
        self._turns = Turns()
        self._bulletin = Bulletin(self.name)
        self._failures: dict[Operation, Failure] = {}
        self._crew: Crew | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self.operations = Operations(self.diagnostics, self._vitals, lambda: self._redaction)

    # -- what it is now -------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Its protocol name."""
        return self.config.name

    @property
    def config(self) -> ComputerConfig:
        """The held configuration (R-CFG-8): the one that the actors adopted, while there are any."""
        return self._held.config

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

    async def turned_away(self) -> Failure | None:
        """Waits until nothing will bring it back to its Server: refused for good, its office given up, or its phase
        `error`. Returns why, where that is known (R-LIFE-12, DEC-17). A link that is being repaired is no such end.
        """
        return await self._bulletin.turned_away()

    async def diagnostics(self) -> Diagnostics:
        """Everything there is to know (R-LIFE-23); waits for no operation and no server."""
        self._same_loop()
        known = await self._crew.view() if self._crew is not None else CrewView()
        shown = Diagnostics(
            name=self.name,
            phase=self.phase,
            state=self.state,
            sequence=self._bulletin.sequence,
            office=self.office,
            commit=known.projection.commit,
            servers=known.projection.servers,
            degradations=known.degradations,
            findings=(*self._notes, *known.projection.findings),
            pending=known.projection.pending,
            failures=dict(self._failures),
            link=known.link,
            link_failure=self._bulletin.standing.failure,
            actors=known.actors,
        )
        return self._redaction.struct(shown)

    @asynccontextmanager
    async def progress(self, listener: Callable[[WorkMoved], None]) -> AsyncIterator[None]:
        """Calls `listener` for what operations that take long are at, while the context is open."""
        if self._crew is None:
            yield
            return
        facts = Observer(self._crew.house.bus, WorkMoved)
        following = asyncio.get_running_loop().create_task(_follow(facts, listener), name="smcp progress")
        try:
            yield
        finally:
            facts.close()
            await asyncio.wait((following,))

    def kill_actor(self, address: str) -> bool:
        """Kills an actor on the spot, as a fault would; its supervisor restarts it. `False` when there is none."""
        return self._crew is not None and self._crew.house.supervisor.kill_child(Address(address))

    def _vitals(self) -> Vitals:
        """What probes look at; nobody is asked for it."""
        standing = self._bulletin.standing
        children = self._crew.house.supervisor.children() if self._crew is not None else ()
        return Vitals(
            phase=self.phase,
            state=self.state,
            link=standing.phase,
            office=standing.wish.office,
            failure=standing.failure.code if standing.failure is not None else None,
            parked=tuple(child.address for child in children if child.state == "parked"),
        )

    def _hold(self, config: ParsedConfig) -> None:
        """Holds a configuration from now on; not for one whose actors run."""
        self._held.config, self._given = config.config, (config,)

    def _may_hold(self, config: ParsedConfig) -> None:
        """Remembers one that the actors are given: whether they come to hold it is theirs, whoever waits for them."""
        self._given = (config, *(given for given in self._given if given.config != config.config))

    @property
    def _notes(self) -> tuple[str, ...]:
        """What was odd about the configuration that is held, and about the options."""
        of_held = (given.warnings for given in self._given if given.config == self.config)
        return tuple(map(render, (*next(of_held, ()), *self._warnings)))

    # -- how an operation goes ------------------------------------------------------------

    @asynccontextmanager
    async def _operation(self, operation: Operation, *, interruptible: bool = False) -> AsyncIterator[None]:
        """The turn of an operation; its failure is kept for the diagnostics."""
        self._same_loop()
        try:
            async with self._turns.take(operation, interruptible=interruptible):
                yield
        except SmcpError as error:
            self._failed(operation, error)
            raise
        self._failures.pop(operation, None)

    @property
    def _redaction(self) -> Redaction:
        return Redaction() if self._crew is None else self._crew.registry.redaction

    def _admit(self, operation: Operation, **facts: bool) -> Verdict:
        return admit(operation, self.phase, **facts)

    async def _manage(self, message: Ask[R], *, mutates: bool = True, limit: float = CHANGE_LIMIT) -> R:
        """Management of what runs. Its actor puts changes in order; none waits here for the servers of another, nor for
        a connection that is being made (DEC-37). One that comes during a start or a sync waits for its end."""
        try:
            if mutates:
                await refuse_vetoed(self._veto, message)
            if mutates and self.phase not in RUNNING:
                async with self._turns.take("manage"):
                    self._admit("manage")
            done = await self._ask(RECONCILE, message, limit)
        except UnicodeEncodeError:
            raise ConfigValidationError("half a character can be told nobody", code="half_character") from None
        except SmcpError as error:
            self._failed("manage", error)
            raise
        if mutates:
            self._failures.pop("manage", None)
        return done

    def _failed(self, operation: Operation, error: SmcpError) -> None:
        # The last line of defence: what is raised here leaves the Computer (R-INPUT-23).
        error.redact(self._redaction.text, self._redaction.tree)
        self._failures[operation] = to_failure(error)

    def _same_loop(self) -> None:
        """Refuses callers in another event loop than the one that runs this Computer, where no answer would reach them.

        Raises:
            ConflictError: Code `other_loop`.
        """
        if self._crew is not None and self._loop is not asyncio.get_running_loop():
            raise ConflictError("this Computer runs in another event loop", code="other_loop")

    async def _ask(self, target: Address, message: Ask[R], limit: float) -> R:
        self._same_loop()
        if self._crew is None:
            raise ConflictError("the Computer is not running", code="lifecycle")
        return await self._crew.ask(target, message, limit)


def seen_through(
    operation: Callable[Concatenate[C, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, None]]:
    """An operation that comes to its end also when its caller stops waiting for it.

    Half an ending would leave actors and servers that nobody can reach any more, or an office nobody serves. So it has
    a task of its own, and keeps its turn; it is bounded, since each of its steps is. A cancellation that no shield of
    anyio holds off, such as that of `asyncio.timeout`, ends the waiting only.
    """

    @functools.wraps(operation)
    async def wait(computer: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
        name = f"smcp {operation.__name__}"
        task = asyncio.get_running_loop().create_task(operation(computer, *args, **kwargs), name=name)
        # The event loop alone would not keep it alive.
        computer._endings.add(task)
        task.add_done_callback(computer._endings.discard)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.add_done_callback(_note_failure)
            raise
        task.result()

    return wait


def _note_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        reason = error.code if isinstance(error, SmcpError) else type(error).__name__
        logger.warning("%s failed after its caller had given up: %s", task.get_name(), reason)


async def _follow(facts: Observer, listener: Callable[[WorkMoved], None]) -> None:
    async for fact in facts:
        if isinstance(fact, WorkMoved):
            listener(fact)
