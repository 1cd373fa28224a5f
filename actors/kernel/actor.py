"""The base of every actor: handlers, two hooks, and the few verbs they need.

An actor never sees another actor's object, only addresses. Everything it starts lives in
its own task group and ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from ...bus import Bus
from ...bus.context import Context, current
from ...wire.envelope import Address
from ...wire.message import Ask, Fact, Tell
from .pool import TaskPool

R = TypeVar("R")


class Tasks:
    """An actor's background tasks: an exception in one brings the actor down, its end cancels them."""

    def __init__(self, group: TaskGroup, pool: TaskPool, context: Context) -> None:
        self._group = group
        self._pool = pool
        self._context = context

    def start_soon(
        self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, name: object = None
    ) -> None:
        """Starts a task outside the message that is in work: with no deadline and no chain of its own."""
        token = current.set(self._context)
        try:
            self._group.start_soon(function, *arguments, name=name)
        finally:
            current.reset(token)

    def run_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Like `start_soon`, and cheaper where work is short and comes often: its task may serve again."""
        self._pool.run_soon(function, *arguments)

    async def start(
        self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any, name: object = None
    ) -> Any:
        """Like `start_soon`, but waits until the task calls `task_status.started()`."""
        token = current.set(self._context)
        try:
            return await self._group.start(function, *arguments, name=name)
        finally:
            current.reset(token)

    async def see_through(self, function: Callable[..., Coroutine[Any, Any, R]], *arguments: Any) -> R:
        """Runs something to its end, whoever stops waiting for it; what it returns or raises is the waiter's.

        For what must not be left half done because the asker of a handler loses patience. It has no deadline and no
        chain of the message in work, but its trace. Only the end of the actor ends it.
        """
        ended = anyio.Event()
        results: list[R] = []
        errors: list[Exception] = []

        async def work() -> None:
            try:
                results.append(await function(*arguments))
            except Exception as error:
                errors.append(error)
            ended.set()

        token = current.set(msgspec.structs.replace(self._context, trace=current.get().trace))
        try:
            self._group.start_soon(work, name=f"{self._context.address} sees something through")
        finally:
            current.reset(token)
        await ended.wait()
        if errors:
            raise errors[0]
        return results[0]


class Actor:
    """Subclass it, mark methods with `handler` and `observer`, override the hooks that matter."""

    address: Address
    tasks: Tasks
    _bus: Bus

    def bind(self, bus: Bus, address: Address, tasks: Tasks) -> None:
        """Called by the runner before `started`; not for anyone else."""
        self._bus, self.address, self.tasks = bus, address, tasks

    async def started(self) -> None:
        """Runs before the first message. An exception is a failed start."""

    async def stopping(self) -> None:
        """Runs at a graceful stop, after the last handler, bounded by the child's stop timeout."""

    async def ask(self, target: Address, message: Ask[R], *, timeout: float | None = None) -> R:
        """Asks another actor; see `Bus.ask`."""
        return await self._bus.ask(target, message, timeout=timeout)

    async def tell(self, target: Address, message: Tell, *, timeout: float | None = None) -> None:
        """Tells another actor and waits for its mailbox to accept; see `Bus.tell`."""
        await self._bus.tell(target, message, timeout=timeout)

    def tell_nowait(self, target: Address, message: Tell) -> bool:
        """Tells another actor without a receipt; `False` when it was refused on the spot."""
        return self._bus.tell_nowait(target, message)

    def reaches(self, target: Address) -> bool:
        """Whether somebody takes messages at an address now; see `Bus.reaches`."""
        return self._bus.reaches(target)

    def publish(self, fact: Fact) -> None:
        """Publishes a fact; never waits."""
        self._bus.publish(fact)

    def now(self) -> float:
        """Seconds on the bus clock."""
        return self._bus.clock()
