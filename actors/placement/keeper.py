"""Keeps the actors of servers wherever they are placed: inline, in processes of their own, at external workers.

The actor and the law of its restarts are the same everywhere; only the life differs that the
supervisor is given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import msgspec

from ...wire.backoff import Backoff
from ...wire.errors import ConfigValidationError
from ..kernel import Actor, ChildSpec, Incarnation, RestartPolicy, Supervisor
from ..reconcile.config.policies import Placement
from ..reconcile.running.keeper import address_of, kept_by

STOP_TIMEOUT = 6.0
"""Seconds for the graceful end of an actor, its server included (R-MCP-26)."""
EXTERNAL = RestartPolicy(Backoff(initial=0.05, longest=5.0), max_restarts=1_000)
"""A worker that comes and goes is somebody's wish, and waiting for the next one costs nothing: hardly ever parked."""


class Elsewhere(Protocol):
    """Where actors can live outside this process."""

    def life(self, bundle_id: str, placement: Placement) -> Callable[[], Incarnation]:
        """Makes the lives of a server's actor."""
        ...


class PlacedServers:
    """Implements `reconcile.keeper.ServerKeeper`.

    Args:
        factory: Makes the actor of a server for each of its inline lives.
        elsewhere: Opens what is needed to place actors elsewhere, once.
        takes_external: Whether external workers can reach the hub.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        factory: Callable[[str], Actor],
        elsewhere: Callable[[], Awaitable[Elsewhere]],
        *,
        takes_external: bool,
    ) -> None:
        self._supervisor = supervisor
        self._factory = factory
        self._elsewhere = elsewhere
        self._takes_external = takes_external

    async def start_child(self, bundle_id: str, placement: Placement) -> None:
        """Starts it where it is placed; that of an external one is not waited for.

        Raises:
            ConfigValidationError: External workers cannot reach this Computer (`no_bus`).
            SmcpError: The hub cannot be opened, or the first start failed; a process is tried again all the same.
        """
        if placement == "external" and not self._takes_external:
            raise ConfigValidationError("external needs a bus endpoint", field="placement", code="no_bus")
        spec = ChildSpec(address_of(bundle_id), await self._life(bundle_id, placement), stop_timeout=STOP_TIMEOUT)
        if placement == "process":
            spec = msgspec.structs.replace(spec, insists=True)
        elif placement == "external":
            spec = msgspec.structs.replace(spec, awaited=False, policy=EXTERNAL)
        await self._supervisor.start_child(spec)

    async def wake_child(self, bundle_id: str) -> None:
        """Starts it now if its restart is put off."""
        await self._supervisor.start_again(address_of(bundle_id))

    async def stop_child(self, bundle_id: str) -> None:
        """Ends it."""
        await self._supervisor.stop_child(address_of(bundle_id))

    def children(self) -> Iterable[str]:
        """The bundle_ids that have an actor."""
        return kept_by(self._supervisor)

    async def _life(self, bundle_id: str, placement: Placement) -> Callable[[], Actor | Incarnation]:
        if placement == "inline":
            return lambda: self._factory(bundle_id)
        elsewhere = await self._elsewhere()
        return elsewhere.life(bundle_id, placement)
