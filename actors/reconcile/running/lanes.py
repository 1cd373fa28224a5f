"""Servers, each in its own lane: what is wanted of a server is brought about one step after another (DEC-37).

A lane looks at what is wanted when its turn comes, not at what was wanted when somebody
asked, so changes that overtake each other still end where the last one meant to go.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, TypeVar

import anyio

from ....wire.envelope import Address
from ....wire.errors import ActorLost, BusError, DeadlineExceeded, SmcpError, Undeliverable
from ....wire.message import Ask
from ....wire.messages.mcp import (
    AnnounceAgain,
    GetServerStatus,
    LaunchPlan,
    RestartServer,
    ServerStatus,
    StandBy,
    StartServer,
    StopServer,
)
from ..config.policies import Placement
from ..held import Held
from .keeper import ServerKeeper, address_of

logger = logging.getLogger(__name__)

CONTROL_LIMIT = 20.0
"""Seconds beside the drain for a server's actor to answer an order."""

AGAIN_AFTER = 5.0
"""Seconds until an actor that lives and did not answer in time is told again what is wanted."""

LaunchShape = tuple[Any, ...]

R = TypeVar("R")


class Order(Protocol):
    """How a server's actor is asked."""

    async def __call__(self, target: Address, message: Ask[R], *, timeout: float | None = None) -> R: ...


class Finish(Protocol):
    """How something is run to its end, whoever stops waiting for it."""

    async def __call__(self, function: Callable[..., Coroutine[Any, Any, R]], *arguments: Any) -> R: ...


def finished(step: Callable[[Lanes, str], Coroutine[Any, Any, R]]) -> Callable[[Lanes, str], Coroutine[Any, Any, R]]:
    """Marks a step of a lane that others rely on, so that one asker without patience does not leave it half done."""

    @functools.wraps(step)
    async def wait_for(lanes: Lanes, bundle_id: str) -> R:
        return await lanes.finish(step, lanes, bundle_id)

    return wait_for


class Lanes:
    """The lanes of one Computer.

    Args:
        finish: Runs steps that somebody asks for.
        drain: Seconds a stopping server's calls get (DEC-13).
        placement_of: Where a server's actor runs.
        idle_stop_of: The `idle_stop` of a lazy server, `None` for another one.
        may_rest: Whether a server that is wanted waits for its first call (F-68).
        is_up: Whether its actor takes messages now.
        tell: Told the status of a server that has no actor to tell it.
        could_not: Called when a server that is wanted could not be brought up.
        ended: Called when a server and its actor have ended.
    """

    def __init__(
        self,
        held: Held,
        keeper: ServerKeeper,
        ask: Order,
        finish: Finish,
        *,
        drain: float,
        placement_of: Callable[[str], Placement],
        idle_stop_of: Callable[[str], float | None] = lambda _: None,
        may_rest: Callable[[str], bool] = lambda _: False,
        is_up: Callable[[str], bool] = lambda _: True,
        tell: Callable[[ServerStatus], None] = lambda _: None,
        could_not: Callable[[str, SmcpError], None],
        ended: Callable[[str], None],
    ) -> None:
        self._held = held
        self._keeper = keeper
        self._ask = ask
        self.finish = finish
        self._drain = drain
        self._placement_of = placement_of
        self._idle_stop_of = idle_stop_of
        self._may_rest = may_rest
        self._is_up = is_up
        self._tell = tell
        self._could_not = could_not
        self._ended = ended
        self._locks: dict[str, anyio.Lock] = {}
        self._prepared: dict[str, tuple[LaunchPlan, LaunchShape]] = {}
        self._lives: dict[str, int] = {}
        self._births = itertools.count()
        self._resting: set[str] = set()
        self._is_halting = False

    # -- plans --------------------------------------------------------------------------

    def prepare(self, plan: LaunchPlan, shape: LaunchShape) -> None:
        """Keeps a plan for the restart that is about to happen, and the shape it was made from (R-INPUT-21)."""
        self._prepared[plan.bundle_id] = (plan, shape)

    def take_prepared(self, bundle_id: str) -> LaunchPlan | None:
        """The plan kept for a restart, once; the server counts as started from it."""
        prepared = self._prepared.pop(bundle_id, None)
        if prepared is None:
            return None
        self._held.launched[bundle_id] = prepared[1]
        return prepared[0]

    def life_of(self, bundle_id: str) -> int:
        """Tells lives of its actor apart."""
        return self._lives.setdefault(bundle_id, next(self._births))

    def handed_out(self, bundle_id: str, shape: LaunchShape, life: int) -> bool:
        """Notes what a server starts from; `False` when its entry has changed meanwhile, so that it has to settle.

        Args:
            life: That of its actor which asked; what a former one asked for starts nothing.
        """
        if life == self._lives.get(bundle_id):
            self._held.launched[bundle_id] = shape
        member = self._held.servers.get(bundle_id)
        return member is not None and member.entry.launch_shape == shape

    # -- wishes -------------------------------------------------------------------------

    def is_wanted(self, bundle_id: str) -> bool:
        """Whether a server should be running."""
        return self._may_live(bundle_id) and bundle_id not in self._held.stopped

    def is_resting(self, bundle_id: str) -> bool:
        """Whether a server is wanted and has no actor, since nobody has called it."""
        return bundle_id in self._resting and self.is_wanted(bundle_id)

    async def settle(self, bundle_id: str) -> None:
        """Brings a server to what is wanted of it now; an actor that lives and does not answer is told until it does.

        One that has no life is told in its next one: see `reassure`.
        """
        was_late = False
        while await self._is_late(bundle_id):
            was_late = True
            await anyio.sleep(AGAIN_AFTER)
        if was_late:
            with suppress(BusError):
                await self.ask_again(bundle_id)  # it may work by now, and was said to be at fault since it said so

    async def reassure(self, bundle_id: str) -> None:
        """Settles a server whose actor was not told in its present life what is wanted."""
        async with self._lane(bundle_id):
            if bundle_id in self._held.told:
                return
        await self.settle(bundle_id)

    @finished
    async def start(self, bundle_id: str) -> ServerStatus:
        """Starts a server on request; one that runs is left alone."""
        self._held.stopped.discard(bundle_id)
        async with self._lane(bundle_id):
            await self._wake(bundle_id)
            return await self._tell_to_run(bundle_id, StartServer())

    @finished
    async def stop(self, bundle_id: str) -> ServerStatus:
        """Stops a server on request, until it is started on request."""
        self._held.stopped.add(bundle_id)
        async with self._lane(bundle_id):
            self._forget_what_was_told(bundle_id)
            if bundle_id in self._keeper.children():
                try:
                    return await self._order(bundle_id, StopServer(self._drain))
                except (ActorLost, Undeliverable) as error:
                    if error.details.get("executed") != "no":
                        raise
            # There is no life to stop, nor to say so; its next one finds that it is not wanted.
            self._tell(ServerStatus(bundle_id))
            return ServerStatus(bundle_id)

    @finished
    async def restart(self, bundle_id: str) -> ServerStatus:
        """Restarts a server on request; when it cannot be rendered the old one keeps running (R-INPUT-21)."""
        self._held.stopped.discard(bundle_id)
        async with self._lane(bundle_id):
            await self._wake(bundle_id)
            return await self._tell_to_run(bundle_id, RestartServer(self._drain))

    @finished
    async def seat(self, bundle_id: str) -> None:
        """Gives a server that rests its actor, which stands by; whoever has none for another reason gets none."""
        async with self._lane(bundle_id):
            is_lazy = self.is_wanted(bundle_id) and (bundle_id in self._resting or self._may_rest(bundle_id))
            if not is_lazy or bundle_id in self._held.told:
                return
            try:
                await self._ensure_child(bundle_id)
                await self._tell_to_run(bundle_id, StandBy())
            except SmcpError:
                if bundle_id not in self._keeper.children():
                    self._resting.add(bundle_id)  # the next call tries again
                raise

    def actor_died(self, bundle_id: str) -> None:
        """Its server ended with it, and a plan it asked for starts nothing any more."""
        self._lives.pop(bundle_id, None)
        self._forget_what_was_told(bundle_id)

    async def actor_ended(self, bundle_id: str) -> None:
        """Its actor is gone for good; if nobody meant that, it gets another one."""
        async with self._lane(bundle_id):
            if bundle_id in self._keeper.children():
                return
            self._has_ended(bundle_id)
        await self.settle(bundle_id)

    def reborn(self, bundle_id: str) -> None:
        """The actor lives anew, and has to be told what is wanted, whatever was heard of the end of its former life."""
        self._held.told.discard(bundle_id)

    def moved(self) -> tuple[str, ...]:
        """Servers whose actor is elsewhere than it is placed now, or that are lazy otherwise than they were."""
        moved = {
            bundle_id
            for bundle_id, seat in self._held.placed.items()
            if self._may_live(bundle_id) and self._seat_of(bundle_id) != seat
        }
        woken = {
            bundle_id for bundle_id in self._resting if self.is_wanted(bundle_id) and not self._may_rest(bundle_id)
        }
        return tuple(sorted(moved | woken))

    async def ask_again(self, bundle_id: str) -> ServerStatus:
        """What a server's actor says of itself now, and its listings once more if it can.

        Raises:
            BusError: It has no life now, or does not answer.
        """
        try:
            return await self._order(bundle_id, AnnounceAgain())
        except SmcpError as error:
            logger.info("%s does not say again what it said: %s", bundle_id, error.code)
        return await self._order(bundle_id, GetServerStatus())

    async def look(self, bundle_id: str) -> ServerStatus:
        """What a server's actor says of itself now; raises an `SmcpError` when there is none that answers."""
        return await self._order(bundle_id, GetServerStatus(), beside=0.0)

    async def halt(self, drain: float) -> None:
        """Ends all servers side by side; none is started afterwards."""
        self._is_halting = True
        async with anyio.create_task_group() as group:
            for bundle_id in tuple(self._keeper.children()):
                group.start_soon(self._end, bundle_id, drain)

    # -- steps, inside a lane -------------------------------------------------------------

    @asynccontextmanager
    async def _lane(self, bundle_id: str) -> AsyncIterator[None]:
        """One step at a time; nothing is remembered of a server that is gone for good."""
        lock = self._locks.setdefault(bundle_id, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked() and not self._may_live(bundle_id):
                self._locks.pop(bundle_id, None)
                self._lives.pop(bundle_id, None)

    def _may_live(self, bundle_id: str) -> bool:
        member = self._held.servers.get(bundle_id)
        return member is not None and member.may_run and not self._is_halting

    async def _is_late(self, bundle_id: str) -> bool:
        """A step towards what is wanted; whether it has to be tried again though the actor lives."""
        async with self._lane(bundle_id):
            try:
                if self._may_live(bundle_id):
                    await self._bring_up(bundle_id)
                else:
                    self._resting.discard(bundle_id)
                    if bundle_id in self._keeper.children():
                        await self._retire(bundle_id, self._drain)
            except SmcpError as error:
                logger.warning("%s could not be brought up: %s", bundle_id, error.code)
                if self.is_wanted(bundle_id):  # by now nobody may care
                    self._could_not(bundle_id, error)
                return isinstance(error, DeadlineExceeded)
            finally:
                self._prepared.pop(bundle_id, None)
        return False

    async def _bring_up(self, bundle_id: str) -> None:
        if self._needs_no_actor(bundle_id):
            self._resting.add(bundle_id)
            if self.is_wanted(bundle_id):
                self._tell(ServerStatus(bundle_id, "started", "disconnected", "idle", reason="idle"))
            return
        await self._ensure_child(bundle_id)
        if not self.is_wanted(bundle_id) or self._waits_for_worker(bundle_id):
            return
        launched = self._held.launched.get(bundle_id)
        if launched is None or bundle_id not in self._held.told:
            await self._tell_to_run(bundle_id, StandBy() if self._may_rest(bundle_id) else StartServer())
        elif launched != self._held.servers[bundle_id].entry.launch_shape:
            await self._tell_to_run(bundle_id, RestartServer(self._drain))

    def _needs_no_actor(self, bundle_id: str) -> bool:
        """Whether a server has no actor and needs none to rest; an external one keeps its seat for its worker."""
        is_external = self._placement_of(bundle_id) == "external"
        return self._may_rest(bundle_id) and not is_external and bundle_id not in self._keeper.children()

    def _waits_for_worker(self, bundle_id: str) -> bool:
        """Whether its worker has yet to come, or to come back; its actor is told what is wanted once it is up there."""
        return self._placement_of(bundle_id) == "external" and not self._is_up(bundle_id)

    async def _end(self, bundle_id: str, drain: float) -> None:
        async with self._lane(bundle_id):
            await self._retire(bundle_id, drain)

    async def _retire(self, bundle_id: str, drain: float) -> None:
        """Ends a server and its actor; its capabilities were withdrawn before (R-LIFE-16)."""
        if self._is_up(bundle_id):
            try:
                await self._order(bundle_id, StopServer(drain), beside=drain)
            except SmcpError as error:
                logger.info("%s did not stop by itself: %s", bundle_id, error.code)
        await self._keeper.stop_child(bundle_id)
        self._has_ended(bundle_id)

    def _has_ended(self, bundle_id: str) -> None:
        self.actor_died(bundle_id)
        self._held.placed.pop(bundle_id, None)
        self._ended(bundle_id)

    async def _wake(self, bundle_id: str) -> None:
        """Sees to its actor for somebody who starts it by hand: one given up for a while is tried now (DEC-1)."""
        await self._ensure_child(bundle_id)
        with anyio.move_on_after(CONTROL_LIMIT):
            await self._keeper.wake_child(bundle_id)

    async def _ensure_child(self, bundle_id: str) -> None:
        """Sees to it that its actor is where it is placed; one that has to move ends first."""
        seat = self._seat_of(bundle_id)
        if bundle_id in self._keeper.children():
            if self._held.placed.get(bundle_id, seat) == seat:
                return
            await self._retire(bundle_id, self._drain)
        self._held.placed[bundle_id] = seat
        self._resting.discard(bundle_id)
        await self._keeper.start_child(bundle_id, seat[0])

    def _seat_of(self, bundle_id: str) -> tuple[Placement, float | None]:
        return self._placement_of(bundle_id), self._idle_stop_of(bundle_id)

    def _forget_what_was_told(self, bundle_id: str) -> None:
        self._held.launched.pop(bundle_id, None)
        self._held.told.discard(bundle_id)

    async def _tell_to_run(self, bundle_id: str, order: Ask[ServerStatus]) -> ServerStatus:
        life = self.life_of(bundle_id)
        status = await self._order(bundle_id, order)
        if self._lives.get(bundle_id) == life:
            self._held.told.add(bundle_id)
        return status

    async def _order(self, bundle_id: str, order: Ask[ServerStatus], beside: float | None = None) -> ServerStatus:
        limit = CONTROL_LIMIT + (self._drain if beside is None else beside)
        return await self._ask(address_of(bundle_id), order, timeout=limit)
