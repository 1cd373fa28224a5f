"""A worker: the actor of one server in another process than the Computer's, and a desk that tells how it is doing.

The actor is the one that runs inline; only what it is given differs: its plan and its
authorizations come over the bus, its records and logs are those of this machine.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from ...bus import Bus, Observer, Tally
from ...wire.envelope import Address
from ...wire.messages.mcp import LaunchPlan
from ...wire.messages.nodes import NodeDown
from ...wire.messages.placement import GetGrant, GetWorkerReport, KeepGrant, Serve, WorkerReport
from ...wire.redaction import SecretRegistry
from ..kernel import Actor, handler
from ..kernel.runner import Runner
from ..mcp.actor import McpSupervisor
from ..mcp.oauth.credentials import credentials_from
from ..mcp.oauth.grant import Grant
from ..mcp.oauth.vault import read_grant, sealed
from ..mcp.transports.connection import Connection
from ..mcp.transports.dispatcher import NotificationSink
from ..mcp.transports.opener import Opener
from ..mcp.transports.process_record import ProcessRecords
from ..mcp.transports.tail import Tail
from .report import rows_of
from .terms import Terms

WORKERS: Final = Address("workers")
ASK_LIMIT = 20.0
"""Seconds for the Computer to answer a worker; what takes it longer says so itself."""
START_LIMIT = 30.0
HOST: Final = socket.gethostname()

logger = logging.getLogger(__name__)


class HubLost(Exception):
    """There is no connection to the Computer any more; it has given this worker's server up, or will."""


async def host(
    bus: Bus,
    terms: Terms,
    stop: anyio.Event,
    *,
    tally: Tally,
    registry: SecretRegistry,
    on_serving: Callable[[], None] = lambda: None,
) -> None:
    """Hosts the server until told to stop.

    Args:
        bus: Connected to the Computer, which has given this node the seat.
        tally: Its meter.
        registry: Learns the secrets of what is opened.
        on_serving: Called once the Computer knows that the actor is up.
    Raises:
        HubLost: The connection ended.
        SmcpError: The Computer does not want it any more.
        Exception: What brought the actor down.
    """
    opener = WorkerOpener(bus, terms, registry)
    actor = Runner(McpSupervisor(terms.bundle_id, opener), bus, Address(f"mcp/{terms.bundle_id}"))
    desk = Runner(WorkerDesk(actor, tally), bus, Address(f"worker/{terms.bundle_id}"))
    with Observer(bus, NodeDown) as losses:
        async with anyio.create_task_group() as group:
            up = anyio.Event()
            group.start_soon(_live, desk, _nothing)
            group.start_soon(_until_lost, losses)
            group.start_soon(_until_told, stop, actor, terms)
            group.start_soon(_report_up, bus, terms, up, on_serving)
            await _live(actor, up.set)
            group.cancel_scope.cancel()


async def _live(runner: Runner, on_up: Callable[[], None]) -> None:
    await runner.run(start_timeout=START_LIMIT, on_up=on_up)


def _nothing() -> None:
    pass


def innermost(error: BaseException) -> BaseException:
    """The first real error inside task-group wrappers."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _report_up(bus: Bus, terms: Terms, up: anyio.Event, on_serving: Callable[[], None]) -> None:
    await up.wait()
    await bus.ask(WORKERS, Serve(terms.bundle_id, terms.node, os.getpid(), HOST), timeout=ASK_LIMIT)
    on_serving()


async def _until_told(stop: anyio.Event, actor: Runner, terms: Terms) -> None:
    await stop.wait()
    actor.stop(terms.stop_within)


async def _until_lost(losses: Observer) -> None:
    async for _ in losses:
        raise HubLost


class WorkerOpener(Opener):
    """An opener that knows the secrets of what it opened last, so that no log record holds one."""

    def __init__(self, bus: Bus, terms: Terms, registry: SecretRegistry) -> None:
        super().__init__(
            records=ProcessRecords(Path(terms.records)),
            log_folder=Path(terms.logs),
            credentials=credentials_from(BusGrants(bus, terms.bundle_id)),
        )
        self._registry = registry

    async def open(
        self,
        plan: LaunchPlan,
        on_notification: NotificationSink,
        *,
        tail: Tail,
        on_forgotten: Callable[[str], None],
    ) -> Connection:
        self._registry.use(plan.bundle_id, plan.secrets)
        return await super().open(plan, on_notification, tail=tail, on_forgotten=on_forgotten)


class BusGrants:
    """The authorizations of one server, kept by the Computer alone; nothing is remembered here."""

    def __init__(self, bus: Bus, bundle_id: str) -> None:
        self._bus = bus
        self._bundle_id = bundle_id

    async def load(self, key: str) -> Grant | None:
        """The grant under a key."""
        return read_grant((await self._bus.ask(WORKERS, GetGrant(self._bundle_id, key), timeout=ASK_LIMIT)).text)

    async def save(self, key: str, grant: Grant) -> None:
        """Has a grant kept."""
        await self._bus.ask(WORKERS, KeepGrant(self._bundle_id, key, sealed(grant)), timeout=ASK_LIMIT)


class WorkerDesk(Actor):
    """`worker/<bundle_id>`: tells how the worker is doing."""

    def __init__(self, hosted: Runner, tally: Tally) -> None:
        self._hosted = hosted
        self._tally = tally

    @handler
    def report(self, _: GetWorkerReport) -> WorkerReport:
        """Load and work of the hosted actor, up to now."""
        hosted = self._hosted
        return WorkerReport(
            os.getpid(),
            HOST,
            hosted.queued,
            hosted.high_water,
            hosted.busy,
            hosted.capacity,
            resident(),
            rows_of(self._tally, hosted.address),
        )


def resident() -> int:
    """Bytes of memory of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
