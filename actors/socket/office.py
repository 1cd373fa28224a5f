"""Keeps `blobs` informed of the office this Computer is in: handles and uploads belong to it (C-BLOB-16, C-UP-27).

What is to be known is a state, not a series of events: whoever changes it settles it, and a
`blobs` that lost it in a restart is told again.
"""

from __future__ import annotations

import logging
from typing import Final

import anyio
import msgspec

from ...wire.base import decode_payload
from ...wire.envelope import Address
from ...wire.errors import BusError, DeadlineExceeded, InvalidPayload, Overloaded
from ...wire.messages.blobs import ChangeOffice, EndUploads
from ...wire.rooms import LeaveOfficeNotification
from .owners import Asker

BLOBS: Final = Address("blobs")
TELL_LIMIT: Final = 5.0
"""Seconds for one telling; a chunk that is being written is waited for."""
TELL_AGAIN: Final = 0.1
"""Seconds until it is told again."""

logger = logging.getLogger(__name__)


class OfficeNews:
    """What `blobs` is told by one SocketActor.

    Args:
        ask: Asks an actor.

    Attributes:
        office: Where it is, or is about to be; `""` for nowhere.
    """

    def __init__(self, ask: Asker) -> None:
        self._ask = ask
        self.office = ""
        self._told: str | None = None
        self._turn = anyio.Lock()

    async def enter(self, office: str) -> None:
        """To be awaited before a join is sent, so that nothing of the last office is served in the next."""
        self.office = office
        await self.settle()

    async def leave(self) -> None:
        """There is no office any more."""
        self.office = ""
        await self.settle()

    async def again(self) -> None:
        """`blobs` began a new life."""
        self._told = None
        await self.settle()

    async def settle(self) -> None:
        """Tells what is not told yet, until it was heard; a `blobs` that is down hears it in its next life.

        One that is only slow is asked again: what it gave out in the last office would stay valid in the next.
        """
        async with self._turn:
            while self._told != self.office:
                # Whether a telling without an answer was heard nobody knows.
                office, self._told = self.office, None
                try:
                    await self._ask(BLOBS, ChangeOffice(office), timeout=TELL_LIMIT)
                except (DeadlineExceeded, Overloaded) as error:
                    logger.warning("the office is not told to blobs yet: %s", error.code)
                    await anyio.sleep(TELL_AGAIN)
                except BusError as error:
                    logger.info("the office could not be told to blobs: %s", error.code)
                    return
                else:
                    self._told = office

    async def left(self, data: msgspec.Raw | None) -> None:
        """Somebody left the office; uploads end with the stay of the Agent."""
        try:
            notice = decode_payload(LeaveOfficeNotification, bytes(data or b""))
        except InvalidPayload:
            return
        if not isinstance(notice.agent, str):
            return
        try:
            await self._ask(BLOBS, EndUploads(), timeout=TELL_LIMIT)
        except BusError as error:
            logger.info("the uploads of an Agent that left could not be ended: %s", error.code)
