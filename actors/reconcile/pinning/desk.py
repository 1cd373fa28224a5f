"""The ReconcileActor's part of pinning: it takes the board up, keeps it on disk, and takes tools as they are now."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

import anyio.to_thread

from ....wire.errors import SmcpError
from ....wire.messages.management import ManagementResult
from ....wire.messages.servers import AcceptTools
from ...kernel import Actor, handler
from ..commits.committer import Committer
from ..held import Held
from ..scopes.places import Places
from ..server_set import SetEntry
from .kept import keep, read_board

logger = logging.getLogger(__name__)


class PinDesk(Actor, ABC):
    """Part of the ReconcileActor, which provides what is named here."""

    _held: Held
    _files: Places
    _committer: Committer

    @abstractmethod
    def _member(self, bundle_id: str) -> SetEntry: ...

    @handler(concurrent=16)
    async def accept_tools(self, message: AcceptTools) -> ManagementResult:
        """Pins the tools of a server as they are now, so that held ones are shown."""
        member = self._member(message.bundle_id)
        changed = self._held.pins.accept(member.bundle_id)
        if changed:
            await self._committer.commit()
        return ManagementResult(changed)

    async def take_up_pins(self) -> None:
        """Reads the board where there is none yet, and has it kept from now on."""
        if not self._held.is_running:
            self._held.pins = await anyio.to_thread.run_sync(read_board, self._files.state)
        self.tasks.start_soon(self._keep_pins, name="pins")

    async def _keep_pins(self) -> None:
        board = self._held.pins
        while True:
            await board.changed.wait()
            fresh = board.take_fresh()
            try:
                await anyio.to_thread.run_sync(keep, self._files.state, fresh)
            except SmcpError as error:
                logger.warning("what was pinned could not be kept: %s", error.code)
