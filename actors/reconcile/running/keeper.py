"""Who starts and ends the actors of servers: what reconcile needs of a supervisor, and that on the kernel's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from ....wire.envelope import Address
from ....wire.messages.mcp import ServerStatus
from ...kernel import Actor, ChildSpec, RestartPolicy, Supervisor
from ..config.policies import Placement

WAITING = "waiting for a worker"
"""Why the actor of an external server is down while nobody has come for it."""


class ServerKeeper(Protocol):
    """Keeper of the `mcp/<bundle_id>` actors."""

    async def start_child(self, bundle_id: str, placement: Placement) -> None:
        """Starts the actor of a server and waits until it takes messages; raises an `SmcpError` when it does not."""
        ...

    async def stop_child(self, bundle_id: str) -> None:
        """Ends it within a bound; unknown ids are fine."""
        ...

    async def wake_child(self, bundle_id: str) -> None:
        """Starts the actor of a server now if its restart is put off, and waits for how that ends."""
        ...

    def children(self) -> Iterable[str]:
        """The bundle_ids that have an actor, also one that is being restarted."""
        ...


def address_of(bundle_id: str) -> Address:
    """Where a server's actor is reached."""
    return Address(f"mcp/{bundle_id}")


def bundle_id_of(address: str) -> str | None:
    """The server an address belongs to, `None` for another actor."""
    prefix, _, bundle_id = address.partition("/")
    return bundle_id if prefix == "mcp" and bundle_id else None


def waiting(bundle_id: str, now: float) -> ServerStatus:
    """The status of a server no worker has come for. `now` in Unix seconds."""
    return ServerStatus(bundle_id, "started", "error", "queued", WAITING, "startup", "no_worker", since=now)


def kept_by(supervisor: Supervisor) -> tuple[str, ...]:
    """The servers a supervisor keeps an actor of; nobody else can know that."""
    return tuple(found for address in supervisor.addresses() if (found := bundle_id_of(address)) is not None)


class InlineServers:
    """A keeper that runs every server's actor in this process.

    Args:
        factory: Makes the actor of a server for each of its lives.
        stop_timeout: Seconds for its graceful end, process included (R-MCP-26).
    """

    def __init__(
        self,
        supervisor: Supervisor,
        factory: Callable[[str], Actor],
        *,
        stop_timeout: float = 6.0,
        policy: RestartPolicy | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._factory = factory
        self._stop_timeout = stop_timeout
        self._policy = policy or RestartPolicy()

    async def start_child(self, bundle_id: str, placement: Placement) -> None:
        """Starts it here, wherever it was meant to be placed."""
        spec = ChildSpec(
            address_of(bundle_id),
            lambda: self._factory(bundle_id),
            policy=self._policy,
            stop_timeout=self._stop_timeout,
        )
        await self._supervisor.start_child(spec)

    async def wake_child(self, bundle_id: str) -> None:
        await self._supervisor.start_again(address_of(bundle_id))

    async def stop_child(self, bundle_id: str) -> None:
        await self._supervisor.stop_child(address_of(bundle_id))

    def children(self) -> Iterable[str]:
        return kept_by(self._supervisor)
