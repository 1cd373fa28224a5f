"""The actor of one MCP server: asks come in, the supervision table decides, one life at a time acts.

It awaits nothing that the server does on behalf of anybody else: starting, stopping and status answer
while the server hangs (F-14). Its children are the tasks of its current life.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from ...wire.codec import Attachment
from ...wire.envelope import Address
from ...wire.errors import BusError
from ...wire.message import Fact
from ...wire.messages.channels import ResourcesRead
from ...wire.messages.mcp import (
    AnnounceAgain,
    CompleteArgument,
    Completions,
    GetServerStatus,
    LaunchPlan,
    ListResources,
    ReadResource,
    Relisted,
    RelistResources,
    ResourceContents,
    ResourcesListed,
    ResourcesPage,
    ResourceUpdated,
    RestartServer,
    ServerStatus,
    ServerStatusChanged,
    StandBy,
    StartServer,
    StopServer,
    ToolsListed,
    Watched,
    WatchResources,
)
from ...wire.messages.projection import EndStart, GetLaunchPlan, GrantStart
from ...wire.messages.tools import CallQueued, ToolsRead
from ...wire.payload import capability_missing, mcp_server_not_found
from ...wire.resources import list_digest
from ..kernel import handler, observer
from . import resources
from .calling import Calling
from .life import Life
from .reading import not_connected
from .session.listing import PAGE_LIMIT, Kind
from .session.session import Session
from .session.subscriptions import Wishes, updated_uri
from .status import Counters, complaint, essence, server_status
from .supervision.alarm import Alarm
from .supervision.lifecycle import (
    Begin,
    End,
    Event,
    Lifecycle,
    Placed,
    Rest,
    Restart,
    Start,
    Started,
    Stop,
    Tick,
    Withdraw,
)
from .transports.opener import Opener

logger = logging.getLogger(__name__)

RECONCILE = Address("reconcile")
TOOLS = Address("tools")
RENDER_LIMIT = 120.0
"""Seconds for a rendering; it may ask a person for an input."""
PLACE_LIMIT = 3600.0
"""Seconds a start may queue. Its own budget counts from when it has its place (DEC-3)."""
STOP_LIMIT = 10.0
"""Seconds, beside the drain, after which a stop is answered though the end has not been seen."""
READS = 64


class McpSupervisor(Calling):
    """Hosts one MCP server.

    Args:
        bundle_id: Its identity.
        opener: What the servers of this Computer share.
    """

    def __init__(self, bundle_id: str, opener: Opener) -> None:
        self._bundle_id = bundle_id
        self._opener = opener
        self._table = Lifecycle()
        self._life: Life | None = None
        self._older_only = False
        self._prepared: LaunchPlan | None = None
        self._interactive = False
        self._drain = 0.0
        self._wishes = Wishes()
        # A number of its own for every session, also of later lives: whoever missed a death sees it by that.
        self._session_number = self._status_number = time.time_ns() // 1000
        self._counters = Counters()
        self._alarm = Alarm()
        self._moved = asyncio.Event()
        self._published: ServerStatus | None = None
        self._announced: dict[type[Fact], ToolsListed | ResourcesListed] = {}

    async def started(self) -> None:
        self.tasks.start_soon(self._keep_time, name=f"{self.address} time")

    # -- control ------------------------------------------------------------------------

    @handler
    async def start(self, message: StartServer) -> ServerStatus:
        self._interactive = True
        self._handle(Start())
        return self._status()

    @handler
    async def stand_by(self, message: StandBy) -> ServerStatus:
        self._handle(Rest())
        return self._status()

    @handler(concurrent=READS)
    async def stop(self, message: StopServer) -> ServerStatus:
        self._drain = message.drain
        self._handle(Stop())
        await self._until_stopped(message.drain + STOP_LIMIT)
        return self._status()

    @handler(concurrent=READS)
    async def restart(self, message: RestartServer) -> ServerStatus:
        plan = await self.ask(RECONCILE, GetLaunchPlan(self._bundle_id, interactive=True), timeout=RENDER_LIMIT)
        self._prepared = plan
        self._drain = message.drain
        self._handle(Restart())
        if self._table.state not in ("stopping", "unhealthy"):
            self._prepared = None  # taken by the life that has begun, or no longer of use to one under way
        return self._status()

    @handler
    async def announce_again(self, message: AnnounceAgain) -> ServerStatus:
        status = self._status()
        self._say(status)
        for fact in self._announced.values():
            self.publish(fact)
        return status

    @handler
    async def status(self, message: GetServerStatus) -> ServerStatus:
        return self._status()

    async def stopping(self) -> None:
        """Ends the server with the actor; calls in flight have been settled by then."""
        self._drain = 0.0
        self._handle(Stop())
        await self._until_stopped(STOP_LIMIT)

    # -- use ----------------------------------------------------------------------------

    @handler(concurrent=READS)
    async def list_resources(self, message: ListResources) -> ResourcesPage:
        session = self._reachable()
        if not session.capabilities.resources:
            raise capability_missing(self._bundle_id, "resources").to_error()
        self._suspect()
        return await resources.page(session, self._bundle_id, message.cursor)

    @handler(concurrent=READS)
    async def relist(self, message: RelistResources) -> Relisted:
        items = await self._life.fresh("resources") if self._life is not None and self._session() is not None else None
        return Relisted("" if items is None else list_digest(items))

    @handler(concurrent=READS)
    async def read_resource(self, message: ReadResource) -> ResourceContents:
        return await resources.contents(self._readable(), message)

    @handler(concurrent=READS)
    async def complete(self, message: CompleteArgument) -> Completions:
        return await resources.completions(self._readable(), message)

    @handler(concurrent=READS)
    async def watch(self, message: WatchResources) -> Watched:
        self._wishes.set(message.channel, message.uris)
        if self._life is None:
            return Watched(())
        self._life.watch(self._wishes.all())
        subscriptions = self._life.subscriptions
        live = await subscriptions.live(message.uris, PAGE_LIMIT) if subscriptions is not None else ()
        return Watched(live)

    @observer
    async def tools_were_read(self, fact: ToolsRead) -> None:
        self._suspect()

    @observer
    async def resources_were_read(self, fact: ResourcesRead) -> None:
        self._suspect()

    # -- what a life needs (see `life.Host`) ------------------------------------------------

    async def render(self) -> LaunchPlan:
        """The plan of this life: rendered anew for each actual start (R-INPUT-20)."""
        interactive, self._interactive = self._interactive, False
        asked = GetLaunchPlan(self._bundle_id, interactive=interactive)
        plan = await self.ask(RECONCILE, asked, timeout=RENDER_LIMIT)
        self._go_by(plan)
        return plan

    async def take_place(self, launcher: str) -> None:
        await self.ask(RECONCILE, GrantStart(self._bundle_id, launcher), timeout=PLACE_LIMIT)

    def give_place_back(self) -> None:
        self.tasks.start_soon(self._give_place_back, name=f"{self.address} gives its place back")

    def report(self, event: Event) -> None:
        if not isinstance(event, Placed | Started):
            self._counters.stderr = self._life.stderr() if self._life is not None else ()
        self._handle(event)

    def notified(self, method: str, params: msgspec.Raw) -> None:
        """Marks what a notification makes stale; nothing here waits for the server (R-MCP-27)."""
        life = self._life
        if life is None:
            return
        if method == "notifications/tools/list_changed":
            life.changed("tools")
        elif method == "notifications/resources/list_changed":
            life.changed("resources")
        elif method == "notifications/resources/updated":
            uri = updated_uri(params)
            if uri is not None:
                self.updated(uri)

    def updated(self, uri: str) -> None:
        self.publish(ResourceUpdated(self._bundle_id, uri))

    def listed(self, kind: Kind, items: bytes, notes: tuple[str, ...]) -> None:
        if kind == "tools":
            self._announce(ToolsListed(self._bundle_id, self._session_number, Attachment(items), notes))
        elif kind == "resources" and self._life is not None and self._life.session is not None:
            subscribe = self._life.session.capabilities.subscribe
            number = self._session_number
            self._announce(
                ResourcesListed(self._bundle_id, number, Attachment(items), subscribe=subscribe, notes=notes)
            )

    def call_queued(self, req_id: str, waiting: bool) -> None:
        if req_id:
            self.tell_nowait(TOOLS, CallQueued(self._bundle_id, req_id, waiting))

    def session_began(self) -> None:
        self._session_number += 1

    # -- the table ------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        orders = self._table.handle(event, self.now())
        for order in orders:
            self._obey(order)
        if isinstance(event, Started):
            self._publish_capabilities()
        self._set_alarm()
        self._publish_status()
        self._moved.set()
        self._moved = asyncio.Event()

    def _set_alarm(self) -> None:
        at = self._table.wake_at
        self._alarm.set(None if at is None else at - self.now())

    def _go_by(self, plan: LaunchPlan) -> None:
        self._table.law.policy, self._table.idle_after = plan.reconnect, plan.limits.idle_stop

    def _obey(self, order: Event) -> None:
        if isinstance(order, Begin):
            self._older_only = self._life.older_only if self._life is not None else self._older_only
            prepared, self._prepared = self._prepared, None
            if prepared is not None:
                self._go_by(prepared)
            life = self._life = Life(self, self._opener, plan=prepared, older_only=self._older_only)
            life.watch(self._wishes.all())
            self.tasks.start_soon(life.run, name=f"{self.address} life")
        elif isinstance(order, End) and self._life is not None:
            self._life.end(self._drain if order.drain else 0.0)
        elif isinstance(order, Withdraw):
            self._withdraw()

    def _withdraw(self) -> None:
        nothing = Attachment(b"[]")
        self._announce(ToolsListed(self._bundle_id, self._session_number, nothing))
        self._announce(ResourcesListed(self._bundle_id, self._session_number, nothing, declared=False))

    def _publish_capabilities(self) -> None:
        """Lists that a server does not have are empty, and are known to be."""
        assert self._life is not None
        nothing = Attachment(b"[]")
        if "tools" not in self._life.kinds:
            self._announce(ToolsListed(self._bundle_id, self._session_number, nothing))
        if "resources" not in self._life.kinds:
            self._announce(ResourcesListed(self._bundle_id, self._session_number, nothing, declared=False))

    def _announce(self, fact: ToolsListed | ResourcesListed) -> None:
        """Publishes a listing, and keeps it for neighbours that lose it in a restart."""
        self._announced[type(fact)] = fact
        self.publish(fact)

    async def _keep_time(self) -> None:
        while True:
            await self._alarm.rings()
            self._handle(Tick())

    async def _until_stopped(self, limit: float) -> None:
        try:
            async with asyncio.timeout(limit):
                while self._table.state == "stopping":
                    await self._moved.wait()
        except TimeoutError:
            logger.warning("%s: the server has not ended within %g s", self.address, limit)

    async def _give_place_back(self) -> None:
        try:
            await self.ask(RECONCILE, EndStart(self._bundle_id), timeout=10.0)
        except BusError as error:
            logger.debug("%s: no one to give a place back to: %s", self.address, error.code)

    # -- resources ------------------------------------------------------------------------

    def _session(self) -> Session | None:
        session = self._life.session if self._life is not None else None
        return session if self._table.state == "ready" else None

    def _reachable(self) -> Session:
        session = self._session()
        if session is None:
            raise mcp_server_not_found(self._bundle_id).to_error()
        return session

    def _readable(self) -> Session:
        session = self._session()
        if session is None:
            raise not_connected()
        return session

    def _suspect(self) -> None:
        if self._life is not None:
            self._life.suspect_lists()

    # -- status ---------------------------------------------------------------------------

    def _status(self) -> ServerStatus:
        return server_status(self._bundle_id, self._table, self._life, self._counters, now=self.now(), wall=time.time())

    def _publish_status(self) -> None:
        """Publishes the status when it moved on either axis, or why it waits has changed."""
        status = self._status()
        known = self._published
        if known is None or essence(known) != essence(status):
            self._published = status
            self._say(status)
            line = complaint(status, time.time())
            if line is not None:
                logger.warning("%s", line)

    def _say(self, status: ServerStatus) -> None:
        self._status_number += 1
        self.publish(ServerStatusChanged(status, self._status_number))
