"""Blocking work on plugins, out of the way of an event loop, that ends soon when nobody waits for it any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from .site import Report, Site

R = TypeVar("R")


async def in_thread(site: Site, work: Callable[[Site], R], moved: Report | None = None) -> R:
    """Runs `work` with a site whose git can be stopped, and stops it when this is cancelled.

    Args:
        moved: Told in the event loop what the work is at.
    """

    def report(what: str, step: str, size: int | None) -> None:
        if moved is not None:
            anyio.from_thread.run_sync(moved, what, step, size)

    own = site.stoppable(report)
    outcome: list[R] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_stop_on_cancel, own)
        try:
            outcome.append(await anyio.to_thread.run_sync(work, own))
        except Exception as error:  # raised below, as itself and not as a group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return outcome[0]


async def _stop_on_cancel(site: Site) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        site.git.stop()
