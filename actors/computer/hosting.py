"""Hosting: where the servers of a crew run, and what each is opened with, wherever that is."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import anyio
import anyio.to_thread

from ..kernel.house import House
from ..mcp.actor import McpSupervisor
from ..mcp.oauth.credentials import credentials_from
from ..mcp.oauth.vault import Vault
from ..mcp.transports.opener import Opener
from ..mcp.transports.process_record import ProcessRecords
from ..ops.operations import Operations
from ..placement.keeper import STOP_TIMEOUT, PlacedServers
from ..reconcile.config import directories
from ..reconcile.config.options import RuntimeOptions

if TYPE_CHECKING:
    from ..placement.elsewhere import Elsewhere

logger = logging.getLogger(__name__)


class Grounds:
    """What a run of a Computer has on disk for its servers; what one that was killed left running is ended first."""

    def __init__(self, records: ProcessRecords, logs: Path) -> None:
        self.records = records
        self.logs = logs

    @classmethod
    async def prepare(cls, name: str, options: RuntimeOptions) -> Grounds:
        """Sweeps (DEC-8), and names the places."""
        state = directories.resolve(options).state
        records = ProcessRecords(state / "processes")
        swept = await anyio.to_thread.run_sync(records.sweep)
        if swept:
            logger.warning("ended what an earlier run left behind: %s", ", ".join(swept))
        # A name may hold what a path may not.
        return cls(records, state / "logs" / quote(name, safe=" ").replace(".", "%2E"))


class Hosting:
    """The hosting of one crew.

    Args:
        operations: Shown the workers.

    Attributes:
        servers: Keeper of all actors of servers.
    """

    def __init__(
        self, house: House, grounds: Grounds, vault: Vault, options: RuntimeOptions, operations: Operations
    ) -> None:
        self._house = house
        self._grounds = grounds
        self._vault = vault
        self._options = options
        self._operations = operations
        self._turn = anyio.Lock()
        self._elsewhere: Elsewhere | None = None
        opener = Opener(records=grounds.records, log_folder=grounds.logs, credentials=credentials_from(vault))
        self.servers = PlacedServers(
            house.supervisor,
            lambda bundle_id: McpSupervisor(bundle_id, opener),
            self.elsewhere,
            takes_external=options.bus is not None,
        )

    async def open(self) -> None:
        """Opens the bus to workers at once where an endpoint was asked for, so that they find it.

        Raises:
            ConfigValidationError, PolicyError, ConflictError: The endpoint cannot be used.
        """
        if self._options.bus is not None:
            await self.elsewhere()

    async def elsewhere(self) -> Elsewhere:
        """The bus to workers, opened when it is first needed. Raises as `open`."""
        # ZeroMQ is loaded here: a Computer whose servers all run inline never pays for it.
        from ..placement.elsewhere import BusPlace, Elsewhere  # noqa: PLC0415

        async with self._turn:
            if self._elsewhere is None:
                place = BusPlace(self._options.bus, directories.bus_keys(self._options))
                made = Elsewhere(
                    place, self._grounds.records, self._grounds.logs, self._vault, stop_within=STOP_TIMEOUT
                )
                await made.open(self._house.supervisor, self._house.bus)
                self._operations.workers = made
                self._elsewhere = made
            return self._elsewhere
