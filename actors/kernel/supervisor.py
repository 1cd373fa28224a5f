"""The supervisor: starts children, watches them, restarts each by its own history.

One-for-one. A child's end is announced as a fact to whoever observes `ActorDown`,
`ActorUp` and `ActorParked`, with its reason; nothing escalates to the Computer as a
whole (DEC-35).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Literal

import anyio
import msgspec
from anyio.abc import TaskGroup

from ...bus import Bus
from ...wire.envelope import Address
from ...wire.errors import ConflictError, SmcpError, StartupError
from ...wire.messages.kernel import ActorDown, ActorParked, ActorUp
from .actor import Actor
from .incarnation import Incarnation, Perished
from .restart import History, Park, RestartKind, RestartPolicy
from .runner import Runner

logger = logging.getLogger(__name__)

ChildState = Literal["starting", "up", "waiting", "parked", "stopped"]


class ChildSpec(msgspec.Struct, frozen=True):
    """How one child is made and kept. Times in seconds.

    Attributes:
        factory: Makes a fresh actor for each life; it must rebuild its state from intents and neighbours. Or it makes
            the life itself, which is then lived elsewhere.
        restart: permanent, transient (only after a crash) or temporary (never).
        start_timeout: Limit of `started`.
        stop_timeout: What handlers in work, and then `stopping`, get at a graceful stop, each.
        capacity, waiting: Bounds of the mailbox.
        awaited: Whether `start_child` waits for the first life to be up.
        insists: Whether a first start that fails is followed by others, as any later one is.
    """

    address: Address
    factory: Callable[[], Actor | Incarnation]
    restart: RestartKind = "permanent"
    policy: RestartPolicy = RestartPolicy()
    start_timeout: float = 30.0
    stop_timeout: float = 5.0
    capacity: int = 1024
    waiting: int = 4096
    awaited: bool = True
    insists: bool = False


class ChildStatus(msgspec.Struct, frozen=True):
    """Public view of a child."""

    address: Address
    state: ChildState
    incarnation: int
    restarts_in_window: int
    reason: str | None


class ChildLoad(msgspec.Struct, frozen=True):
    """How much a child has to do.

    Attributes:
        queued: Messages that wait for it now; `high_water` the most its mailbox has held in this life.
        busy: Handlers at work.
        capacity: Messages its mailbox holds.
    """

    address: Address
    queued: int
    high_water: int
    busy: int
    capacity: int


class _Child:
    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.state: ChildState = "starting"
        self.incarnation = 0
        self.history = History(spec.policy)
        self.reason: str | None = None
        self.up_at: float | None = None
        self.runner: Incarnation | None = None
        self.life: anyio.CancelScope | None = None
        self.wanted = True
        self.first_start = anyio.Event()
        self.first_error: BaseException | None = None
        self.ended = anyio.Event()
        self.poke = anyio.Event()
        self.turned = anyio.Event()


class Supervisor:
    """Keeper of children on one bus. Use as an async context manager; leaving it stops them, last started first."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._children: dict[Address, _Child] = {}
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Supervisor:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        assert self._group is not None
        if error is None:
            await self.stop_all()
        self._group.cancel_scope.cancel()
        return await self._group.__aexit__(kind, error, trace)

    async def start_child(self, spec: ChildSpec) -> None:
        """Starts a child and waits until it is up, unless its spec says that nobody does.

        Whoever stops waiting leaves nothing behind, except for a child that insists: that one goes on without him.

        Raises:
            ConflictError: A child of this address exists.
            StartupError: Its first start failed; it is kept only where its spec insists.
        """
        if spec.address in self._children:
            raise ConflictError(f"{spec.address} exists already", code="child_exists")
        assert self._group is not None
        child = self._children[spec.address] = _Child(spec)
        self._group.start_soon(self._keep, child, name=f"supervise {spec.address}")
        if not spec.awaited:
            return
        try:
            await child.first_start.wait()
        except BaseException:
            if not spec.insists:
                child.wanted = False
                if child.life is not None:
                    child.life.cancel()
                with anyio.CancelScope(shield=True):
                    await child.ended.wait()
            raise
        if child.first_error is not None:
            if not spec.insists:
                await child.ended.wait()
            if isinstance(child.first_error, SmcpError):
                raise child.first_error
            cause = type(child.first_error).__name__
            raise StartupError(f"{spec.address} did not start: {cause}", causes=(cause,)) from child.first_error

    async def stop_child(self, address: Address) -> None:
        """Stops a child gracefully and waits for its end, which comes also when nobody waits for it any more.

        Unknown addresses are fine.
        """
        child = self._children.get(address)
        if child is None:
            return
        child.wanted = False
        child.poke.set()
        if child.runner is not None:
            child.runner.stop(child.spec.stop_timeout)
        assert self._group is not None
        self._group.start_soon(self._ends, child, name=f"end of {address}")
        await child.ended.wait()

    async def stop_all(self) -> None:
        """Stops all children, last started first."""
        for address in reversed(list(self._children)):
            await self.stop_child(address)

    def kill_child(self, address: Address) -> bool:
        """Kills a child on the spot, as a fault would; its restart follows its spec. `False` when none is alive."""
        child = self._children.get(address)
        if child is None or child.life is None:
            return False
        child.reason = "killed"
        child.life.cancel()
        return True

    def revive_child(self, address: Address) -> bool:
        """Manual start of a parked or waiting child: resets its history and starts it at once."""
        child = self._children.get(address)
        if child is None or child.state not in ("parked", "waiting"):
            return False
        child.history.reset()
        child.poke.set()
        return True

    async def start_again(self, address: Address) -> bool:
        """As `revive_child`, and waits until that life is up or has ended."""
        child = self._children.get(address)
        if child is None or not self.revive_child(address):
            return False
        if child.turned.is_set():
            child.turned = anyio.Event()  # one for all who wait for the same turn
        await child.turned.wait()
        return True

    def addresses(self) -> tuple[Address, ...]:
        """Who is kept here, in whatever state, in the order they were started."""
        return tuple(self._children)

    def children(self) -> tuple[ChildStatus, ...]:
        """All children in the order they were started."""
        return tuple(
            ChildStatus(address, child.state, child.incarnation, child.history.restarts_in_window, child.reason)
            for address, child in self._children.items()
        )

    def loads(self) -> tuple[ChildLoad, ...]:
        """The load of every child that is alive."""
        return tuple(
            ChildLoad(address, runner.queued, runner.high_water, runner.busy, runner.capacity)
            for address, child in self._children.items()
            if (runner := child.runner) is not None
        )

    # -- inside ---------------------------------------------------------------------

    async def _ends(self, child: _Child) -> None:
        """Cancels a child that takes too long to stop."""
        with anyio.move_on_after(2 * child.spec.stop_timeout + 1):
            await child.ended.wait()
            return
        if child.life is not None:
            child.life.cancel()

    async def _keep(self, child: _Child) -> None:
        address = child.spec.address
        try:
            while child.wanted:
                crashed = await self._live(child)
                if not child.wanted or self._failed_at_first(child) or not self._restarts(child, crashed=crashed):
                    break
                now = self._bus.clock()
                # A life that never came up was not stable, however long its start took.
                decision = child.history.failed(started_at=now if child.up_at is None else child.up_at, now=now)
                await self._wait_for_next(child, decision)
        finally:
            child.state = "stopped"
            self._children.pop(address, None)
            self._bus.detach(address)
            if child.incarnation and (child.first_error is None or child.spec.insists):
                self._bus.publish(ActorDown(address, child.incarnation, child.reason or "stopped"))
            child.first_start.set()
            child.turned.set()
            child.ended.set()

    async def _live(self, child: _Child) -> bool:
        """One life; `True` when it ended in a crash or a kill."""
        spec = child.spec
        child.incarnation += 1
        child.state = "starting"
        child.reason = child.up_at = None
        try:
            with anyio.CancelScope() as child.life:
                child.runner = self._new_life(spec)
                await child.runner.run(start_timeout=spec.start_timeout, on_up=lambda: self._up(child))
                return False
        except Exception as error:
            cause = _innermost(error)
            child.reason = cause.why if isinstance(cause, Perished) else type(cause).__name__
            if not child.first_start.is_set():
                child.first_error = cause
            if spec.insists:
                child.first_start.set()
            logger.warning("%s went down: %s", spec.address, child.reason)
            return True
        finally:
            child.life = child.runner = None
        logger.warning("%s was killed", spec.address)
        return True

    def _new_life(self, spec: ChildSpec) -> Incarnation:
        made = spec.factory()
        if not isinstance(made, Actor):
            return made
        return Runner(made, self._bus, spec.address, capacity=spec.capacity, waiting=spec.waiting)

    def _failed_at_first(self, child: _Child) -> bool:
        return child.spec.awaited and not child.first_start.is_set()

    def _up(self, child: _Child) -> None:
        child.state = "up"
        child.up_at = self._bus.clock()
        child.first_start.set()
        child.turned.set()
        self._bus.publish(ActorUp(child.spec.address, child.incarnation))
        if not child.wanted and child.runner is not None:
            child.runner.stop(child.spec.stop_timeout)

    def _restarts(self, child: _Child, *, crashed: bool) -> bool:
        return child.spec.restart == "permanent" or (child.spec.restart == "transient" and crashed)

    async def _wait_for_next(self, child: _Child, decision: object) -> None:
        address, reason = child.spec.address, child.reason or "stopped"
        child.poke = anyio.Event()
        child.turned.set()
        if isinstance(decision, Park):
            child.state = "parked"
            delay = decision.retry_in
            self._bus.detach(address, "parked")
            self._bus.publish(ActorDown(address, child.incarnation, reason, delay))
            self._bus.publish(ActorParked(address, reason, delay))
            logger.error("%s is parked after %d restarts: %s", address, child.history.restarts_in_window, reason)
        else:
            child.state = "waiting"
            delay = decision.delay  # type: ignore[attr-defined]
            self._bus.detach(address, "restarting")
            self._bus.publish(ActorDown(address, child.incarnation, reason, delay))
        with anyio.move_on_after(delay if delay is not None else float("inf")):
            await child.poke.wait()


def _innermost(error: BaseException) -> BaseException:
    """The first real error inside task-group wrappers: the group itself tells a reader nothing."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
