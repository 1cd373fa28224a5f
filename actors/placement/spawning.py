"""The life of a server's actor in a process of its own: spawned, watched, and never outlived by what it started.

The death of the process, of its node or of the hub is the death of the actor: the supervisor
restarts it by the law for all actors (DEC-1, DEC-35), with a new process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

import anyio
import anyio.to_thread

from ...bus.zeromq import DISCONNECTED
from ..kernel import Perished
from .papers import Papers
from .process import WorkerProcess
from .report import Reported, Sum
from .roster import Place
from .site import Site
from .terms import Terms

SWEEP_LIMIT = 6.0
EXIT_LIMIT = 0.5
"""Seconds for a worker whose connection has ended to have ended itself: its exit status says more."""

logger = logging.getLogger(__name__)


class SpawnedLife(Reported):
    """Implements `kernel.Incarnation`.

    Args:
        work: Where the reports of this server's workers add up.
    """

    def __init__(self, bundle_id: str, site: Site, work: Sum) -> None:
        self._bundle_id = bundle_id
        self._site = site
        self._work = work
        self._stop_within: float | None = None
        self._place: Place | None = None

    async def run(self, *, start_timeout: float, on_up: Callable[[], None]) -> None:
        """See `Incarnation`.

        Raises:
            Perished: The worker ended, was lost, or did not come up in `start_timeout` seconds.
            StartupError: It could not be started.
        """
        # No key of an external worker can have such a name.
        site, node = self._site, f"own/{self._bundle_id}"
        deadline = anyio.current_time() + start_timeout
        with anyio.move_on_at(deadline):
            await site.until_open()
        if site.hub is None:
            raise Perished("the bus is not open")
        place = self._place = site.roster.open(self._bundle_id, node)
        try:
            terms = Terms(self._bundle_id, node, str(site.records.folder), str(site.logs), site.stop_within)
            papers = Papers(os.getpid(), terms, *log_target())
            process = await WorkerProcess.start(papers, os.environ, place.ring)
            record = site.records.add(self._bundle_id, process.pid, process.pid)
            try:
                site.adopt(process.bus, node)
                await self._accompany(process, place, deadline, on_up)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._clear(process, node)
                site.records.remove(record)
        finally:
            site.roster.close(place)
            self._work.over()

    def stop(self, within: float) -> None:
        if self._stop_within is None:
            self._stop_within = within
            if self._place is not None:
                self._place.ring()

    async def _accompany(
        self, process: WorkerProcess, place: Place, deadline: float, on_up: Callable[[], None]
    ) -> None:
        """From the start of the process to its end, or to the moment when it has to be ended."""
        with anyio.move_on_at(deadline):
            while place.arrival is None and not self._is_over(process, place):
                await place.moves()
        if place.arrival is None and not self._is_over(process, place):
            raise Perished("its worker did not come up in time")
        if place.arrival is not None and self._stop_within is None:
            on_up()
        while not self._is_over(process, place):
            await place.moves()
        if place.lost == DISCONNECTED:
            with anyio.move_on_after(EXIT_LIMIT):
                while process.status is None and self._stop_within is None:
                    await place.moves()
        if self._stop_within is None:
            raise Perished(process.how() if process.status is not None else f"its worker was lost: {place.lost}")
        process.ask_to_stop()
        with anyio.move_on_after(2 * self._stop_within):
            while process.status is None:
                await place.moves()
        if process.status != 0:
            how = process.how() if process.status is not None else "its worker does not end"
            logger.warning("mcp/%s was to stop in order: %s", self._bundle_id, how)

    def _is_over(self, process: WorkerProcess, place: Place) -> bool:
        return process.status is not None or place.lost is not None or self._stop_within is not None

    async def _clear(self, process: WorkerProcess, node: str) -> None:
        """Ends the worker, and what a worker that did not end in order has left: never two of one server (R-MCP-9)."""
        in_order = process.status == 0
        await process.end()
        self._site.dismiss(node, process.how())
        if not in_order:
            with anyio.move_on_after(SWEEP_LIMIT):
                await anyio.to_thread.run_sync(self._site.records.sweep, abandon_on_cancel=True)


def log_target() -> tuple[str, str]:
    """Level of this process's log, and the file it goes to, `""` for none."""
    level = max(logging.getLogger(__package__).getEffectiveLevel(), logging.root.manager.disable)
    files = (handler.baseFilename for handler in logging.root.handlers if isinstance(handler, logging.FileHandler))
    # What is above every name is silent.
    return logging.getLevelName(level) if level < logging.CRITICAL else "CRITICAL", next(files, "")
