"""`workers`: keeps the hub open and answers workers: who gets a seat, who has arrived, and with which grant.

While it lives the hub listens; when it dies every node is lost, and with it what it hosted,
so its restart is that of everything hosted elsewhere.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus

from ...bus.zeromq import ZmqHub
from ...wire.envelope import Address
from ...wire.errors import ConflictError
from ...wire.messages.placement import GetGrant, KeepGrant, SealedGrant, Seat, Serve, TakeSeat
from ..kernel import Actor, handler
from ..mcp.oauth.vault import Vault, read_grant, sealed
from .customs import WORKERS, WorkerCustoms
from .roster import Arrival
from .site import Site

ADDRESS = Address(WORKERS)
WAIT_MAX = 60.0
"""Seconds a worker that stands by is kept waiting for one answer."""
TAKEN = "another worker hosts it; this one stands by"


class WorkersActor(Actor):
    """Opens the hub.

    Args:
        vault: Where authorizations are kept (R-MCP-25).
    Raises:
        ConfigValidationError, PolicyError, ConflictError: At its start: the endpoint cannot be used.
    """

    def __init__(self, site: Site, vault: Vault) -> None:
        self._site = site
        self._vault = vault

    async def started(self) -> None:
        await self.tasks.start(self._keep_hub, name="hub")

    async def _keep_hub(self, *, task_status: TaskStatus[None]) -> None:
        site = self._site
        hub = ZmqHub(
            self._bus,
            site.place.endpoint,
            listens=site.place.endpoint is not None,
            keys=site.keys,
            allow=site.name_of if site.keys is not None else None,
            customs=WorkerCustoms(site.roster.bundle_of),
        )
        try:
            async with hub:
                site.opened(hub)
                task_status.started()
                await anyio.sleep_forever()
        finally:
            site.closed()

    # -- seats ------------------------------------------------------------------------------

    @handler(concurrent=1024)
    async def take_seat(self, message: TakeSeat) -> Seat:
        """Gives a node the seat, at once or when it becomes free."""
        roster = self._site.roster
        is_given = roster.take(message.bundle_id, message.node)
        with anyio.move_on_after(min(message.wait, WAIT_MAX)):
            while not is_given:
                await roster.changes()
                # Lost in the same turn as the one before it: nobody would hear that this one has gone as well.
                await anyio.lowlevel.checkpoint_if_cancelled()
                is_given = roster.take(message.bundle_id, message.node)
        return Seat(is_given, "" if is_given else TAKEN)

    @handler
    def serve(self, message: Serve) -> None:
        """A server's actor is up at a node: its life has begun."""
        if not self._bus.reaches(Address(f"mcp/{message.bundle_id}")):
            raise ConflictError(f"mcp/{message.bundle_id} is not announced", code="seat_lost")
        self._site.roster.arrived(message.bundle_id, message.node, Arrival(message.pid, message.host))

    # -- authorizations -----------------------------------------------------------------------

    @handler(concurrent=64)
    async def get_grant(self, message: GetGrant) -> SealedGrant:
        """The grant a server's connection is opened with."""
        grant = await self._vault.load(message.key)
        return SealedGrant(None if grant is None else sealed(grant))

    @handler(concurrent=64)
    async def keep_grant(self, message: KeepGrant) -> None:
        """Keeps what a worker renewed."""
        grant = read_grant(message.text)
        if grant is None:
            await self._vault.forget(message.key)
        else:
            await self._vault.save(message.key, grant)
