"""The announcer: says what is owed to the office, when it is due (`announcements.py`), over the link there is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

import anyio

from ...bus.link import SmcpLink
from ...wire.base import to_json
from ...wire.envelope import Address
from ...wire.errors import BusError, DeadlineExceeded, Overloaded, SmcpError
from ...wire.messages.channels import SliceChanged
from ...wire.messages.projection import Committed, GetProjectionStatus, Slice
from ...wire.rooms import UpdateComputerConfigReq
from .announcements import EVENTS, Announcements
from .owners import Asker
from .settings import EMIT_LIMIT, SocketSettings

RECONCILE: Final = Address("reconcile")
STATUS_LIMIT: Final = 5.0
"""Seconds for the answer what there is to announce."""
ASK_AGAIN: Final = 1.0
"""Seconds until it is asked for again."""

logger = logging.getLogger(__name__)


class Announcer:
    """Announces for one life of a SocketActor, which begins without knowing what its last one owed.

    Args:
        ask: Asks an actor.
        now: Seconds on the bus clock.
        link: The link of this moment.

    Attributes:
        unsent: Announcements that could not be sent.
    """

    def __init__(
        self, settings: SocketSettings, *, ask: Asker, now: Callable[[], float], link: Callable[[], SmcpLink | None]
    ) -> None:
        self._announcements = Announcements(settings.coalesce, settings.coalesce_longest)
        self._update = to_json(UpdateComputerConfigReq(computer=settings.computer))
        self._ask = ask
        self._now = now
        self._link = link
        self._bell = anyio.Event()
        self._caught_up = False
        self.unsent = 0

    @property
    def owed(self) -> tuple[Slice, ...]:
        """What the office has not been told yet."""
        return self._announcements.owed

    # -- what is heard ----------------------------------------------------------------------

    def committed(self, fact: Committed) -> None:
        """Everything an Agent can read has changed already; now it may be told (R-PROJ-3).

        What changed before this life was announced by nobody, so its first commit is news as a whole (DEC-27).
        """
        changed = fact.changed if self._caught_up else fact.filled
        self._caught_up = True
        self._announcements.committed(changed, fact.filled, self._now())
        self._bell.set()

    def changed(self, fact: SliceChanged) -> None:
        """Contents changed without a commit."""
        self._announcements.changed(fact.slice, fact.signature, self._now())
        self._bell.set()

    def moved(self, phase: str, *, was_joined: bool) -> None:
        """The link is in this phase now."""
        if phase == "joined":
            self._announcements.joined(self._now())
        elif phase == "connected":
            self._announcements.left()
        elif was_joined:
            self._announcements.lost()
        self._bell.set()

    # -- what is done -----------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Asks what there is, unless a commit says so first."""
        while not self._caught_up:
            try:
                status = await self._ask(RECONCILE, GetProjectionStatus(), timeout=STATUS_LIMIT)
            except (DeadlineExceeded, Overloaded) as error:
                logger.info("what there is to announce is not known yet: %s", error.code)
                await anyio.sleep(ASK_AGAIN)
            except BusError:
                return  # it is down, and each of its lives begins with a commit
            else:
                if not self._caught_up:
                    self.committed(Committed(status.commit, status.filled, status.filled))

    async def run(self) -> None:
        """Announces as long as it is let."""
        while True:
            self._bell = anyio.Event()
            for slice in self._announcements.take_due(self._now()):
                await self._emit(slice)
            due = self._announcements.next_due()
            with anyio.move_on_after(math.inf if due is None else max(0.0, due - self._now())):
                await self._bell.wait()

    async def _emit(self, slice: Slice) -> None:
        for _ in range(2):
            link = self._link()
            try:
                if link is not None:
                    await link.emit(EVENTS[slice], self._update, EMIT_LIMIT)
                    return
            except (SmcpError, TimeoutError) as error:
                logger.info("%s was not sent: %s", EVENTS[slice], type(error).__name__)
        self.unsent += 1
        self._announcements.unsent(slice)
