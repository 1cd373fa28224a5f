"""Server actors on a real bus, in front of a stand-in for `reconcile` that renders what the test says."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.actors.mcp.actor import McpSupervisor
from smcp_runtime.actors.mcp.transports.opener import Opener
from smcp_runtime.actors.mcp.transports.process_record import ProcessRecords
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import SmcpError
from smcp_runtime.wire.messages.mcp import (
    CallTool,
    GetServerStatus,
    LaunchPlan,
    ResourcesListed,
    ResourceUpdated,
    RestartServer,
    ServerStatus,
    ServerStatusChanged,
    StartServer,
    StopServer,
    ToolOutcome,
    ToolsListed,
)
from smcp_runtime.wire.messages.projection import EndStart, GetLaunchPlan, GrantStart

LIGHT = "smcp_runtime.fixtures.servers.light_stdio"
LIMIT = 10.0

collect_ignore = [] if sys.platform == "win32" else ["test_job_tree_on_windows.py"]
"""Job objects exist on Windows only; elsewhere that module has no test that could be run, so it is none to skip."""


def light(bundle_id: str, *flags: str, **more: Any) -> LaunchPlan:
    """A plan for the bare stdio server; its display name differs from its identity."""
    arguments = ("-m", LIGHT, *flags)
    return LaunchPlan(bundle_id, f"{bundle_id} (display)", "stdio", command=sys.executable, args=arguments, **more)


class Reconcile(Actor):
    """Renders `plans`, raises an exception found there instead, and counts who has a place to start."""

    def __init__(self) -> None:
        self.plans: dict[str, LaunchPlan | SmcpError] = {}
        self.rendered: list[GetLaunchPlan] = []
        self.granted: list[GrantStart] = []
        self.starting: set[str] = set()
        self.cap = 8
        self.most = 0
        self._freed = anyio.Event()

    @handler(concurrent=256)
    async def render(self, message: GetLaunchPlan) -> LaunchPlan:
        self.rendered.append(message)
        plan = self.plans[message.bundle_id]
        if isinstance(plan, SmcpError):
            raise plan
        return plan

    @handler(concurrent=256)
    async def grant(self, message: GrantStart) -> None:
        while len(self.starting) >= self.cap:
            await self._freed.wait()
        self.granted.append(message)
        self.starting.add(message.bundle_id)
        self.most = max(self.most, len(self.starting))

    @handler
    async def give_back(self, message: EndStart) -> None:
        self.starting.discard(message.bundle_id)
        self._freed.set()
        self._freed = anyio.Event()


class Host:
    """What a test drives."""

    def __init__(self, bus: Bus, supervisor: Supervisor, folder: Path) -> None:
        self.bus = bus
        self.supervisor = supervisor
        self.reconcile = Reconcile()
        self.records = ProcessRecords(folder / "processes")
        self.opener = Opener(records=self.records, log_folder=folder / "logs")
        self.facts: list[Any] = []
        self._news = anyio.Event()

    async def observe(self, observer: Observer) -> None:
        async for fact in observer:
            self.facts.append(fact)
            self._news.set()
            self._news = anyio.Event()

    # -- doing --

    async def add(self, plan: LaunchPlan | SmcpError, bundle_id: str = "") -> Address:
        """Puts up the actor of a server, stopped."""
        bundle_id = bundle_id or (plan.bundle_id if isinstance(plan, LaunchPlan) else "")
        self.reconcile.plans[bundle_id] = plan
        address = Address(f"mcp/{bundle_id}")
        spec = ChildSpec(address, lambda: McpSupervisor(bundle_id, self.opener), stop_timeout=12.0)
        await self.supervisor.start_child(spec)
        return address

    async def start(self, plan: LaunchPlan) -> Address:
        """Puts a server up and waits until it is ready."""
        address = await self.add(plan)
        await self.bus.ask(address, StartServer())
        await self.until(plan.bundle_id, phase="ready")
        return address

    async def status(self, bundle_id: str) -> ServerStatus:
        return await self.bus.ask(Address(f"mcp/{bundle_id}"), GetServerStatus(), timeout=1.0)

    async def stop(self, bundle_id: str, drain: float = 0.0) -> ServerStatus:
        return await self.bus.ask(Address(f"mcp/{bundle_id}"), StopServer(drain), timeout=drain + 15.0)

    async def restart(self, bundle_id: str) -> ServerStatus:
        return await self.bus.ask(Address(f"mcp/{bundle_id}"), RestartServer(0.0), timeout=15.0)

    async def call(
        self, bundle_id: str, tool: str, arguments: dict[str, Any] | None = None, *, timeout: float = 5.0, **more: Any
    ) -> ToolOutcome:
        message = CallTool(tool, Attachment(json.dumps(arguments or {}).encode()), timeout, **more)
        return await self.bus.ask(Address(f"mcp/{bundle_id}"), message, timeout=timeout + 5.0)

    @staticmethod
    def address(bundle_id: str) -> Address:
        return Address(f"mcp/{bundle_id}")

    # -- seeing --

    def seen(self, kind: type[Any], bundle_id: str) -> list[Any]:
        found = [fact for fact in self.facts if isinstance(fact, kind)]
        return [fact for fact in found if _of(fact) == bundle_id]

    def tools(self, bundle_id: str) -> list[str]:
        """Names in the newest listing."""
        listed = self.seen(ToolsListed, bundle_id)
        return [tool["name"] for tool in json.loads(listed[-1].tools.data)] if listed else []

    def sessions(self, bundle_id: str) -> int:
        """How many sessions have been listed."""
        return len({fact.session for fact in self.seen(ToolsListed, bundle_id)})

    def phases(self, bundle_id: str) -> list[str]:
        return [fact.status.phase for fact in self.seen(ServerStatusChanged, bundle_id)]

    async def until(self, bundle_id: str, *, timeout: float = LIMIT, **wanted: Any) -> ServerStatus:
        """The first status, past or coming, whose newest state has these values."""

        def found() -> ServerStatus | None:
            seen = self.seen(ServerStatusChanged, bundle_id)
            newest = seen[-1].status if seen else None
            fits = newest is not None and all(getattr(newest, name) == value for name, value in wanted.items())
            return newest if fits else None

        return await self.eventually(found, timeout)

    async def eventually(self, condition: Callable[[], Any], timeout: float = LIMIT) -> Any:
        """The value of a condition over the facts once it is true."""
        with anyio.fail_after(timeout):
            while not (value := condition()):
                await self._news.wait()
        return value

    @staticmethod
    async def eventually_true(condition: Callable[[], object], timeout: float = LIMIT) -> None:
        """Waits for what no fact announces."""
        with anyio.fail_after(timeout):
            while not condition():  # noqa: ASYNC110
                await anyio.sleep(0.01)


def _of(fact: Any) -> str:
    found = fact.status.bundle_id if isinstance(fact, ServerStatusChanged) else fact.bundle_id
    return str(found)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with Bus() as bus, Supervisor(bus) as supervisor, anyio.create_task_group() as group:
        made = Host(bus, supervisor, tmp_path)
        observer = Observer(bus, ServerStatusChanged, ToolsListed, ResourcesListed, ResourceUpdated, capacity=10_000)
        group.start_soon(made.observe, observer)
        await supervisor.start_child(ChildSpec(Address("reconcile"), lambda: made.reconcile))
        yield made
        await supervisor.stop_all()
        group.cancel_scope.cancel()
