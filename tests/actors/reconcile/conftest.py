"""A reconcile actor and a tool actor on a real bus, in front of server actors that do as the test says."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, RestartPolicy, Supervisor, handler
from smcp_runtime.actors.reconcile.actor import ReconcileActor
from smcp_runtime.actors.reconcile.config.computer_config import canonical, parse_computer_config
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.actors.reconcile.config.policies import Placement
from smcp_runtime.actors.reconcile.held import Held
from smcp_runtime.actors.reconcile.rendering.resolution import Chain
from smcp_runtime.actors.reconcile.running.keeper import InlineServers
from smcp_runtime.actors.tools.actor import ToolActor
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import SmcpError
from smcp_runtime.wire.messages.kernel import ActorUp
from smcp_runtime.wire.messages.mcp import (
    AnnounceAgain,
    GetServerStatus,
    LaunchPlan,
    ResourcesListed,
    RestartServer,
    ServerStatus,
    ServerStatusChanged,
    StandBy,
    StartServer,
    StopServer,
    ToolsListed,
)
from smcp_runtime.wire.messages.projection import (
    ChangeResult,
    Committed,
    ControlServer,
    EndStart,
    GetConfig,
    GetLaunchPlan,
    GetProjectionStatus,
    GrantStart,
    HaltServers,
    MountServer,
    ProjectionStatus,
    SyncConfig,
    UnmountServer,
)
from smcp_runtime.wire.messages.tools import ListTools

RECONCILE = Address("reconcile")
QUICK = RestartPolicy(backoff=Backoff(initial=0.001, longest=0.01))


class StubServer(Actor):
    """The actor of a server: renders, takes a place, and is connected at once with the tools it was given."""

    def __init__(self, world: World, bundle_id: str) -> None:
        self.world = world
        self.bundle_id = bundle_id
        self.session = time.time_ns() // 1000
        self.connected = self.starting = False
        self.said = ServerStatus(bundle_id)

    @handler(concurrent=16)
    async def start(self, _: StartServer) -> ServerStatus:
        self.world.orders.append(("start", self.bundle_id))
        if self.connected or self.starting:
            return self.said
        self.starting = True
        self.tasks.start_soon(self._run)
        return self.report("connecting", "starting")

    @handler
    def stand_by(self, _: StandBy) -> ServerStatus:
        self.world.orders.append(("stand by", self.bundle_id))
        return self.said if self.connected else self.report("disconnected", "idle", reason="idle")

    def doze(self) -> None:
        self.connected = False
        self.report("disconnected", "idle", reason="idle")

    @handler(concurrent=16)
    async def restart(self, _: RestartServer) -> ServerStatus:
        self.world.orders.append(("restart", self.bundle_id))
        plan = await self._plan()
        self.withdraw()
        self._up(plan)
        return self.report("connected", "ready")

    @handler(concurrent=16)
    async def stop(self, _: StopServer) -> ServerStatus:
        self.world.orders.append(("stop", self.bundle_id))
        await self.world.may_stop.wait()
        self.withdraw()
        self.connected = False
        return self.report("disconnected", "stopped", activation="stopped")

    @handler
    def announce(self, _: AnnounceAgain) -> ServerStatus:
        if self.connected:
            self.list_tools()
        self.publish(ServerStatusChanged(self.said))
        return self.said

    async def _run(self) -> None:
        try:
            await self.ask(RECONCILE, GrantStart(self.bundle_id))
            self._up(await self._plan())
            await self.ask(RECONCILE, EndStart(self.bundle_id))
        except SmcpError as error:
            self.report("error", "backing_off", reason=error.message, category=error.category, code=error.code)
        finally:
            self.starting = False

    async def _plan(self) -> LaunchPlan:
        plan = await self.ask(RECONCILE, GetLaunchPlan(self.bundle_id))
        self.world.plans.setdefault(self.bundle_id, []).append(plan)
        return plan

    def _up(self, plan: LaunchPlan) -> None:
        if plan.command == "never":
            return
        self.session += 1
        self.connected = True
        self.report("connected", "ready")
        self.list_tools()

    def list_tools(self, *names: str) -> None:
        tools = names or self.world.tools.get(self.bundle_id, ("echo",))
        listing = [{"name": name, "inputSchema": {}} for name in tools]
        self.publish(ToolsListed(self.bundle_id, self.session, Attachment(json.dumps(listing).encode())))

    def list_resources(self, *uris: str) -> None:
        resources = Attachment(json.dumps([{"uri": uri, "name": uri} for uri in uris]).encode())
        self.publish(ResourcesListed(self.bundle_id, self.session, resources, subscribe=True))

    def withdraw(self) -> None:
        self.publish(ToolsListed(self.bundle_id, self.session, Attachment(b"[]")))

    def lose(self) -> None:
        self.withdraw()
        self.connected = False
        self.report("error", "backing_off", reason="gone", category="network", code="lost")

    def report(self, connection: Any, phase: str, activation: Any = "started", **more: Any) -> ServerStatus:
        self.said = ServerStatus(self.bundle_id, activation, connection, phase, **more)
        self.publish(ServerStatusChanged(self.said))
        return self.said

    @handler
    def status(self, _: GetServerStatus) -> ServerStatus:
        return self.said


class World:
    """Everything around the actor under test, and the asks a Computer would send it."""

    def __init__(self, bus: Bus, supervisor: Supervisor) -> None:
        self.bus, self.supervisor = bus, supervisor
        self.orders: list[tuple[str, str]] = []
        self.plans: dict[str, list[LaunchPlan]] = {}
        self.tools: dict[str, tuple[str, ...]] = {}
        self.actors: dict[str, StubServer] = {}
        self.may_stop = anyio.Event()
        self.may_stop.set()
        self.commits = Observer(bus, Committed)
        self.held = Held(parse_computer_config({"name": "desk"}).config)
        self.keeper: Any = InlineServers(supervisor, self._make, policy=QUICK)

    def _make(self, bundle_id: str) -> StubServer:
        self.actors[bundle_id] = StubServer(self, bundle_id)
        return self.actors[bundle_id]

    async def start(
        self,
        servers: Any = (),
        inputs: Iterable[Any] = (),
        *,
        slices: Any = ("tool_list",),
        chain: Chain | None = None,
        **given: Any,
    ) -> None:
        """Starts tools and reconcile with a configuration."""
        self.held.config = self.config(servers, inputs)
        options = settle(RuntimeOptions(**{"env": {}, "drain_timeout_s": 0.0, "project_root": "/project", **given}))[0]

        def make() -> ReconcileActor:
            return ReconcileActor(self.held, self.keeper, options, slices=slices, chain=chain, wall_clock=lambda: 500.0)

        await self.supervisor.start_child(ChildSpec(Address("tools"), ToolActor, policy=QUICK))
        await self.supervisor.start_child(ChildSpec(RECONCILE, make, policy=QUICK))

    @staticmethod
    def config(servers: Any = (), inputs: Iterable[Any] = ()) -> Any:
        named = {name: {"command": name} for name in servers} if not isinstance(servers, dict) else servers
        return parse_computer_config({"name": "desk", "servers": named, "inputs": list(inputs)}).config

    async def sync(self, servers: Any = (), inputs: Iterable[Any] = ()) -> ChangeResult:
        text = json.dumps(canonical(self.config(servers, inputs))).encode()
        return await self.bus.ask(RECONCILE, SyncConfig(Attachment(text)))

    async def mount(self, **raw: Any) -> ChangeResult:
        return await self.bus.ask(RECONCILE, MountServer(Attachment(json.dumps(raw).encode())))

    async def unmount(self, bundle_id: str) -> ChangeResult:
        return await self.bus.ask(RECONCILE, UnmountServer(bundle_id))

    async def control(self, bundle_id: str, action: Any) -> ServerStatus:
        return await self.bus.ask(RECONCILE, ControlServer(bundle_id, action))

    async def halt(self) -> None:
        await self.bus.ask(RECONCILE, HaltServers(0.0))

    async def plan(self, bundle_id: str) -> LaunchPlan:
        return await self.bus.ask(RECONCILE, GetLaunchPlan(bundle_id))

    async def status(self) -> ProjectionStatus:
        return await self.bus.ask(RECONCILE, GetProjectionStatus())

    async def server(self, bundle_id: str) -> ServerStatus:
        return {status.bundle_id: status for status in (await self.status()).servers}[bundle_id]

    async def servers(self) -> dict[str, Any]:
        projected = await self.bus.ask(RECONCILE, GetConfig())
        found: dict[str, Any] = json.loads(projected.config.data)["servers"]
        return found

    async def names(self) -> list[str]:
        listed = await self.bus.ask(Address("tools"), ListTools())
        return [tool["name"] for tool in json.loads(listed.tools.data)]

    async def until(self, check: Callable[[], Any]) -> None:
        """Waits for a condition, plain or to be awaited; looks again after every commit and shortly after none."""
        with anyio.fail_after(5):
            while True:
                found = check()
                if await found if hasattr(found, "__await__") else found:
                    return
                await anyio.sleep(0.002)

    async def until_listed(self, *names: str) -> None:
        async def fits() -> bool:
            return await self.names() == sorted(names)

        await self.until(fits)

    async def kill(self, address: str) -> None:
        """Kills an actor and waits for its next life."""
        with Observer(self.bus, ActorUp) as ups, anyio.fail_after(5):
            self.supervisor.kill_child(Address(address))
            async for fact in ups:
                if isinstance(fact, ActorUp) and fact.address == address:
                    return

    async def next_commit(self) -> Committed:
        with anyio.fail_after(5):
            fact = await anext(aiter(self.commits))
        assert isinstance(fact, Committed)
        return fact


class SlowKeeper:
    """A keeper whose children take their time to come up, until they are let."""

    def __init__(self, inner: InlineServers, slow: str) -> None:
        self.inner, self.slow, self.let = inner, slow, anyio.Event()

    async def start_child(self, bundle_id: str, placement: Placement) -> None:
        if bundle_id == self.slow:
            await self.let.wait()
        await self.inner.start_child(bundle_id, placement)

    async def stop_child(self, bundle_id: str) -> None:
        await self.inner.stop_child(bundle_id)

    async def wake_child(self, bundle_id: str) -> None:
        await self.inner.wake_child(bundle_id)

    def children(self) -> Iterable[str]:
        return self.inner.children()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Bus() as bus, Supervisor(bus) as supervisor:
        world = World(bus, supervisor)
        with world.commits:
            yield world
