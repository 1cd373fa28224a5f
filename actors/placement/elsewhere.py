"""Everything placement outside this process needs, put together. Loads ZeroMQ, which most Computers never do.

Made when the first server is placed elsewhere, or at the start where an endpoint was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...bus import Bus
from ..kernel import ChildSpec, Incarnation, Supervisor
from ..mcp.oauth.vault import Vault
from ..mcp.process_record import ProcessRecords
from ..ops.view import NodeView
from ..reconcile.policies import Placement
from .awaiting import AwaitedLife
from .hub import ADDRESS, WorkersActor
from .report import Sum
from .site import BusPlace, Site
from .spawning import SpawnedLife

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

    async def open(self, supervisor: Supervisor, bus: Bus) -> None:
        """Opens the hub.

        Raises:
            ConfigValidationError, PolicyError, ConflictError: The endpoint cannot be used.
        """
        self.site.attach(bus)
        self._bus = bus
        await supervisor.start_child(ChildSpec(ADDRESS, lambda: WorkersActor(self.site, self._vault), stop_timeout=2.0))

    def life(self, bundle_id: str, placement: Placement, work: Sum) -> Callable[[], Incarnation]:
        """Makes the lives of a server's actor; their work adds up in `work`."""
        if placement == "process":
            return lambda: SpawnedLife(bundle_id, self.site, work)
        return lambda: AwaitedLife(bundle_id, self.site, self._bus, work)

    def nodes(self) -> tuple[NodeView, ...]:
        """The workers that are connected."""
        hub = self.site.hub
        return (
            ()
            if hub is None
            else tuple(
                NodeView(node.name, node.silent, node.in_flight, node.waiting, node.addresses) for node in hub.nodes()
            )
        )
