"""The task pool: work that comes often, done by tasks that wait for more of it.

A task costs an event loop more than most handlers do. So one that has finished its work is
parked for a while's worth of it rather than ended, up to a number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from anyio.abc import TaskGroup

from ...bus.context import Context, current
from ...bus.slot import Slot, slot_type

Function = Callable[..., Coroutine[Any, Any, Any]]

PARKED: Final = 64
"""Tasks that may wait for work in one pool."""


class _Parked:
    """A task without work: where it waits, and what it has been given since."""

    __slots__ = ("slot", "work")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.work: tuple[Function, tuple[Any, ...]] | None = None


class TaskPool:
    """The tasks of one task group, which cancels them; an exception in one is the group's.

    Args:
        context: What its work sees as the message in work.
    """

    def __init__(self, group: TaskGroup, context: Context, parked: int = PARKED) -> None:
        self._group = group
        self._context = context
        self._limit = parked
        self._new_slot = slot_type()
        self._parked: list[_Parked] = []

    def run_soon(self, function: Function, *arguments: Any) -> None:
        """Has `function` run, in a task that is parked or in a new one; never waits."""
        if self._parked:
            parked = self._parked.pop()
            parked.work = (function, arguments)
            parked.slot.set(None)
            return
        token = current.set(self._context)
        try:
            self._group.start_soon(self._work, function, arguments)
        finally:
            current.reset(token)

    async def _work(self, function: Function, arguments: tuple[Any, ...]) -> None:
        while True:
            await function(*arguments)
            if len(self._parked) >= self._limit:
                return
            parked = _Parked(self._new_slot())
            self._parked.append(parked)
            try:
                await parked.slot.wait()
            except BaseException:
                if parked.work is None:
                    self._parked.remove(parked)
                else:
                    # Given work in its last moment: it begins, and is cancelled where it first waits, as in a new task.
                    function, arguments = parked.work
                    await function(*arguments)
                raise
            assert parked.work is not None
            function, arguments = parked.work
