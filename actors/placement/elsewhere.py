"""Everything placement outside this process needs, put together. Loads ZeroMQ, which most Computers never do.

Made when the first server is placed elsewhere, or at the start where an endpoint was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import anyio

from ...bus import Bus
from ...bus.tally import Work
from ...bus.zeromq import NodeStatus
from ...wire.envelope import Address
from ...wire.errors import BusError
from ...wire.messages.placement import GetWorkerReport
from ..kernel import ChildSpec, Incarnation, Supervisor
from ..mcp.oauth.vault import Vault
from ..mcp.transports.process_record import ProcessRecords
from ..ops.view import NodeView
from ..reconcile.config.policies import Placement
from .awaiting import AwaitedLife
from .hub import ADDRESS, WorkersActor
from .report import Sum
from .site import BusPlace, Site
from .spawning import SpawnedLife

ASK_LIMIT = 1.0
"""Seconds a worker has to say how it is doing."""

__all__ = ["BusPlace", "Elsewhere"]


class Elsewhere:
    """The bus to workers, and lives at them.

    Args:
        place: Where the hub listens.
        records, logs: As for servers that run inline.
        vault: Where authorizations are kept.
        stop_within: Seconds a worker's handlers get at a graceful end.
    Raises:
        ConfigValidationError, PolicyError: Its keys are missing, or open to others.
    """

    def __init__(
        self, place: BusPlace, records: ProcessRecords, logs: Path, vault: Vault, *, stop_within: float
    ) -> None:
        self.site = Site(place, records, logs, stop_within=stop_within)
        self._vault = vault
        self._sums: dict[str, Sum] = {}

    async def open(self, supervisor: Supervisor, bus: Bus) -> None:
        """Opens the hub.

        Raises:
            ConfigValidationError, PolicyError, ConflictError: The endpoint cannot be used.
        """
        self.site.attach(bus)
        self._bus = bus
        await supervisor.start_child(ChildSpec(ADDRESS, lambda: WorkersActor(self.site, self._vault), stop_timeout=2.0))

    def life(self, bundle_id: str, placement: Placement) -> Callable[[], Incarnation]:
        """Makes the lives of a server's actor."""
        work = self._sums.setdefault(bundle_id, Sum())
        if placement == "process":
            return lambda: SpawnedLife(bundle_id, self.site, work)
        return lambda: AwaitedLife(bundle_id, self.site, self._bus, work)

    # -- to look at ------------------------------------------------------------------------------

    def nodes(self) -> tuple[NodeView, ...]:
        """The workers that are connected."""
        hub = self.site.hub
        return () if hub is None else tuple(map(self._node, hub.nodes()))

    def work(self) -> dict[str, Mapping[str, Work]]:
        """What actors did elsewhere, by address and message type, as far as their workers were asked."""
        return {f"mcp/{bundle_id}": rows for bundle_id, work in self._sums.items() if (rows := work.rows())}

    async def refresh(self) -> None:
        """Asks every worker how it is doing; one that does not answer in time is shown as it last was."""
        async with anyio.create_task_group() as group:
            for bundle_id, work in self._sums.items():
                if self.site.roster.arrival_at(bundle_id) is not None:
                    group.start_soon(self._ask, bundle_id, work)

    async def _ask(self, bundle_id: str, work: Sum) -> None:
        with suppress(BusError):
            report = await self._bus.ask(Address(f"worker/{bundle_id}"), GetWorkerReport(), timeout=ASK_LIMIT)
            work.take(report)

    def _node(self, node: NodeStatus) -> NodeView:
        bundle_id = self.site.roster.bundle_of(node.name)
        arrival = self.site.roster.arrival_at(bundle_id) if bundle_id is not None else None
        rss = self._sums[bundle_id].latest.rss if bundle_id in self._sums else 0
        host, pid = (arrival.host, arrival.pid) if arrival is not None else ("", 0)
        return NodeView(node.name, node.silent, node.in_flight, node.waiting, node.addresses, host, pid, rss)
