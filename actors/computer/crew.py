"""The crew: the actors of one running Computer, wired to each other, and the watch over them.

Who there is, in which order they come up, and what each is given to work with. A Computer
has a crew from start to stop; what a crew must not lose is handed to it from outside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TypeVar

import anyio
import anyio.to_thread
import msgspec

from ...bus import Bus, Meter
from ...wire.diagnostics import ActorStatus
from ...wire.envelope import Address
from ...wire.errors import ActorLost, BusError, SmcpError, Undeliverable
from ...wire.message import Ask
from ...wire.messages.mcp import GetServerStatus, ServerStatus
from ...wire.messages.projection import Degradation, HaltServers, ProjectionStatus
from ...wire.messages.socket import Disconnect, GetLinkStatus, LinkChanged, LinkStatus
from ..finder import Resolver
from ..kernel import ChildSpec
from ..kernel.house import House
from ..mcp.oauth.browser import shown_by
from ..mcp.oauth.credentials import authorizer
from ..mcp.oauth.vault import Vault
from ..ops.actor import OpsActor
from ..ops.operations import Operations
from ..reconcile.actor import ReconcileActor
from ..reconcile.commits.overview import Overview
from ..reconcile.config import directories
from ..reconcile.config.options import RuntimeOptions
from ..reconcile.files.atomic import make_private_directory
from ..reconcile.held import Held
from ..reconcile.loading import load_all, settings_of
from ..reconcile.running.keeper import address_of, bundle_id_of
from ..reconcile.values.chain import token_store_of
from ..socket.actor import SocketActor
from ..socket.credentials import Credentials
from ..socket.settings import SocketSettings
from ..socket.standing import Wish
from ..tools.actor import ToolActor
from .channels import SLICES, channel_specs, tool_settings
from .health_hook import HealthHook
from .hosting import Grounds, Hosting
from .log_guard import guarded
from .metrics_hook import MetricsHook

R = TypeVar("R")

TOOLS, RECONCILE, SOCKET, OPS = Address("tools"), Address("reconcile"), Address("socket"), Address("ops")

CLOSE_LIMIT = 8.0
"""Seconds for all actors to end once their servers have."""

GOODBYE_LIMIT = 6.0
"""Seconds beside the drain for leaving and disconnecting."""
HALT_LIMIT = 8.0
"""Seconds beside the drain for all servers to end; R-MCP-26 gives each 5."""
STATUS_LIMIT = 2.0
START_LIMIT = 30.0
"""Seconds for the ReconcileActor to start, beside what it fetches."""
FETCHES = 8
"""Marketplaces that may all use up their time at one boot."""

logger = logging.getLogger(__name__)


class CrewView(msgspec.Struct, frozen=True):
    """What there is to see of a crew, for the diagnostics."""

    projection: ProjectionStatus = ProjectionStatus(0)
    degradations: tuple[Degradation, ...] = ()
    link: LinkStatus = LinkStatus()
    actors: tuple[ActorStatus, ...] = ()


class Crew:
    """Made by `muster`.

    Attributes:
        house: Bus and supervisor.
        overview: What is degraded.
        registry: The secrets of its servers; no log record holds one while there is a crew.
    """

    def __init__(
        self, house: House, overview: Overview, held: Held, options: RuntimeOptions, operations: Operations
    ) -> None:
        self.house = house
        self.overview = overview
        self.registry = held.registry
        self._ends = ExitStack()
        self._ends.enter_context(guarded(held.registry, options.log))
        watches = [overview.run()]
        if options.health is not None:
            watches.append(HealthHook(house.bus, options.health, held.registry).run())
        if options.metrics is not None:
            every = options.metrics_interval_s
            watches.append(MetricsHook(options.metrics, operations.samples, held.registry, every).run())
        loop = asyncio.get_running_loop()
        self._watches = [loop.create_task(watch, name="smcp watch") for watch in watches]

    @classmethod
    async def muster(
        cls,
        held: Held,
        options: RuntimeOptions,
        *,
        operations: Operations,
        credentials: Credentials,
        wish: Callable[[], Wish],
        resolver: Callable[[], Resolver | None] = lambda: None,
        link_numbers: Iterator[int],
        on_change: Callable[[], None],
        on_link: Callable[[LinkChanged], None],
        on_actor: Callable[[str, bool], None],
        make_bus: Callable[[Meter | None], Bus] = Bus,
    ) -> Crew:
        """Brings the actors up, those first that others ask.

        Args:
            held: Intents that outlive the ReconcileActor.
            operations: What counts, and shows what there is to see.
            wish: Where the SocketActor of the next life shall be.
            resolver: The document resolver that is registered.
            on_change, on_link, on_actor: See `Overview`.
            make_bus: Its bus; a decorated one where faults are injected.
        Raises:
            SmcpError: An actor did not start; nothing is left open.
        """
        await _read_files(held, options)
        vault = Vault(token_store_of(options, directories.resolve(options).state, held.tokens), held.registry)
        grounds = await Grounds.prepare(held.config.name, options)
        authorize = authorizer(vault, shown_by(options.browser))
        house = await House.open(operations.tally, make_bus)
        operations.attach(house.bus, house.supervisor)
        overview = Overview(house.bus, on_change=on_change, on_link=on_link, on_actor=on_actor)
        crew = cls(house, overview, held, options, operations)
        hosting = Hosting(house, grounds, vault, options, operations)
        settings = socket_settings(held, options)
        try:
            await hosting.open()
            for spec in (
                *ops_specs(operations, options),
                *channel_specs(held, options, office=lambda: wish().office or "", resolver=resolver),
                ChildSpec(TOOLS, lambda: ToolActor(tool_settings(options), confirmation=options.tool_confirmation)),
                ChildSpec(
                    RECONCILE,
                    lambda: ReconcileActor(held, hosting.servers, options, slices=SLICES, authorize=authorize),
                    start_timeout=START_LIMIT + FETCHES * options.git_timeout_s,
                ),
                ChildSpec(
                    SOCKET,
                    lambda: SocketActor(settings, auth=credentials, wish=wish(), changes=link_numbers),
                    stop_timeout=3.0,
                ),
            ):
                await house.supervisor.start_child(spec)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await crew.dismiss()
            raise
        return crew

    async def ask(self, target: Address, message: Ask[R], limit: float) -> R:
        """Asks one of the actors; see `Bus.ask`."""
        return await self.house.bus.ask(target, message, timeout=limit)

    async def view(self) -> CrewView:
        """What it can say of itself now."""
        children = self.house.supervisor.children()
        try:
            link = await self.ask(SOCKET, GetLinkStatus(), STATUS_LIMIT)
        except BusError:
            link = LinkStatus()  # that actor is being restarted
        known = self.overview.status
        return CrewView(
            msgspec.structs.replace(known, servers=await self._servers(known.servers)),
            self.overview.degradations,
            link,
            tuple(ActorStatus(*msgspec.structs.astuple(child)) for child in children),
        )

    async def _servers(self, known: tuple[ServerStatus, ...]) -> tuple[ServerStatus, ...]:
        """Servers with their counters of this moment; one whose actor does not answer as it was last heard of."""
        found = {status.bundle_id: status for status in known}

        async def ask(bundle_id: str) -> None:
            with suppress(BusError):
                found[bundle_id] = await self.ask(address_of(bundle_id), GetServerStatus(), STATUS_LIMIT)

        async with anyio.create_task_group() as group:
            for child in self.house.supervisor.children():
                bundle_id = bundle_id_of(child.address)
                if bundle_id in found and self.house.bus.reaches(child.address):
                    group.start_soon(ask, bundle_id)
        return tuple(found.values())

    async def hang_up(self, grace: float) -> None:
        """Drains for `grace` seconds, leaves and disconnects; never fails, it only takes its time at most."""
        try:
            await self.ask(SOCKET, Disconnect(grace), grace + GOODBYE_LIMIT)
        except SmcpError as error:
            logger.warning("the connection did not end cleanly: %s", error.code)

    async def halt(self, grace: float) -> list[str]:
        """Ends the servers, side by side; what they say of it is not news any more. Returns what went wrong."""
        self._watch_no_longer()
        try:
            await self.ask(RECONCILE, HaltServers(grace), grace + HALT_LIMIT)
        except (ActorLost, Undeliverable):
            # Nobody to give the order; their own actors end them as well.
            await self._stop_servers()
        except BusError as error:
            return [f"reconcile: {error.code}"]
        return []

    def _watch_no_longer(self) -> None:
        for watch in self._watches:
            watch.cancel()

    async def _stop_servers(self) -> None:
        supervisor = self.house.supervisor
        async with anyio.create_task_group() as group:
            for child in supervisor.children():
                if bundle_id_of(child.address) is not None:
                    group.start_soon(supervisor.stop_child, child.address)

    async def dismiss(self, within: float = CLOSE_LIMIT) -> list[str]:
        """Ends everything, whatever it takes. Returns what went wrong, without secrets."""
        with self._ends:
            # First, for whoever is cancelled in here waits for nothing that follows.
            self._watch_no_longer()
            await self.house.close(within)
            await asyncio.wait(self._watches)
        errors = (self.house.failure, *map(_failure, self._watches))
        return [type(error).__name__ for error in errors if error is not None]


def ops_specs(operations: Operations, options: RuntimeOptions) -> tuple[ChildSpec, ...]:
    """The operator endpoint, if one is wanted. It comes up first and goes down last."""
    endpoint = options.ops
    if endpoint is None:
        return ()
    return (ChildSpec(OPS, lambda: OpsActor(operations, endpoint, options.ops_token), stop_timeout=2.0),)


def socket_settings(held: Held, options: RuntimeOptions) -> SocketSettings:
    """The SocketActor's part of the options."""
    return SocketSettings(
        computer=held.config.name,
        coalesce=options.coalesce_ms / 1000,
        coalesce_longest=options.coalesce_max_wait_ms / 1000,
        drain_timeout=options.drain_timeout_s,
        transports=tuple(options.transports),
        connect_timeout=options.connect_timeout_s,
        reconnect=options.reconnect,
        backoff=options.reconnect_backoff,
        rejoin_budget=options.rejoin_budget_s,
    )


async def _read_files(held: Held, options: RuntimeOptions) -> None:
    """Reads what the run is made of before anything is opened: a bad flag file or home ends it there (R-LIFE-8)."""
    held.loaded = await anyio.to_thread.run_sync(load_all, options)
    held.settings = settings_of(held.config, held.loaded)
    await anyio.to_thread.run_sync(make_private_directory, directories.resolve(options).home)


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()
