"""The life of a server's actor at an external worker: waited for, and over when the worker's connection is.

Somebody else starts and ends that process. Until one comes the server waits, which its status
says; when one goes the actor has died, and its next life is that at the next worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ...bus import Bus
from ...wire.envelope import Address
from ...wire.messages.mcp import ServerStatusChanged
from ..kernel import Perished
from ..reconcile.running.keeper import WAITING, waiting
from .report import Reported, Sum
from .roster import Place
from .site import Site

logger = logging.getLogger(__name__)


class AwaitedLife(Reported):
    """Implements `kernel.Incarnation`.

    Args:
        work: Where the reports of this server's workers add up.
    """

    def __init__(self, bundle_id: str, site: Site, bus: Bus, work: Sum) -> None:
        self._bundle_id = bundle_id
        self._site = site
        self._bus = bus
        self._work = work
        self._is_stopping = False
        self._place: Place | None = None

    async def run(self, *, start_timeout: float, on_up: Callable[[], None]) -> None:
        """See `Incarnation`; waits for a worker as long as it takes.

        Raises:
            Perished: The worker has gone.
        """
        roster, address = self._site.roster, Address(f"mcp/{self._bundle_id}")
        place = self._place = roster.open(self._bundle_id, None)
        try:
            self._bus.detach(address, WAITING)
            self._bus.publish(ServerStatusChanged(waiting(self._bundle_id, time.time())))
            logger.info("%s is %s", self._bundle_id, WAITING)
            while place.arrival is None and not self._is_stopping:
                await place.moves()
            if not self._is_stopping:
                on_up()
            while place.lost is None and not self._is_stopping:
                await place.moves()
            if not self._is_stopping:
                raise Perished(f"its worker {place.node} was lost: {place.lost}")
        finally:
            roster.close(place)
            self._site.dismiss(place.node, "the Computer stopped the server", is_planned=self._is_stopping)
            self._work.over()

    def stop(self, within: float) -> None:
        self._is_stopping = True
        if self._place is not None:
            self._place.ring()
