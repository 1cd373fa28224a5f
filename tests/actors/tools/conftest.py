"""A tool actor on a real bus, in front of server actors that do as the test says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.actors.tools.actor import ToolActor, ToolSettings
from smcp_runtime.actors.tools.confirmation import ConfirmTool
from smcp_runtime.bus import Bus
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.messages.mcp import CallTool, ServerStatus, ServerStatusChanged, ToolOutcome
from smcp_runtime.wire.messages.tools import (
    Applied,
    ApplyTools,
    CallFinished,
    CallHistory,
    CallQueued,
    CancelTool,
    DrainCalls,
    GetCallHistory,
    ListTools,
    ResumeCalls,
    RunTool,
    ServerTools,
    ToolPolicy,
)

TOOLS = Address("tools")


def answered(result: dict[str, Any], attempts: int = 1) -> ToolOutcome:
    return ToolOutcome("answered", Attachment(json.dumps(result).encode()), attempts=attempts)


class StubServer(Actor):
    """Answers every call with `reply`, once `release` is set; notes what it was called with and what was cancelled."""

    def __init__(self) -> None:
        self.reply = answered({"content": [{"type": "text", "text": "done"}]})
        self.release = anyio.Event()
        self.release.set()
        self.called = anyio.Event()
        self.calls: list[CallTool] = []
        self.cancelled: list[str] = []
        self.queues = False

    def hold(self) -> None:
        self.release = anyio.Event()

    @handler(concurrent=1000)
    async def call(self, message: CallTool) -> ToolOutcome:
        self.calls.append(message)
        if self.queues:
            await self.tell(TOOLS, CallQueued(self.address.removeprefix("mcp/"), message.req_id, True))
        self.called.set()
        try:
            await self.release.wait()
        except BaseException:
            self.cancelled.append(message.req_id)
            raise
        return self.reply


class Bench:
    """What a test drives: the actor under test, its stub servers, and the asks an Agent's side would send."""

    def __init__(self, bus: Bus, supervisor: Supervisor) -> None:
        self.bus = bus
        self.supervisor = supervisor
        self.servers: dict[str, StubServer] = {}
        self.slices: dict[str, ServerTools] = {}
        self.finished: list[CallFinished] = []
        self.commits = 0

    async def start(self, confirmation: ConfirmTool | None = None, **settings: Any) -> None:
        def make() -> ToolActor:
            return ToolActor(ToolSettings(**settings), confirmation=confirmation, wall_clock=lambda: 1_000.0)

        await self.supervisor.start_child(ChildSpec(TOOLS, make))

    async def serve(
        self, bundle_id: str, *tools: str, connected: bool = True, running: bool = True, **policy: Any
    ) -> None:
        """Commits a server with these tools; by default all of them run without confirmation."""
        policy = {"default_tool_meta": {"auto_apply": True}, **policy}
        listing = json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in tools]).encode()
        self.slices[bundle_id] = ServerTools(
            ToolPolicy(bundle_id, f"{bundle_id} (display)", **policy), Attachment(listing), connected
        )
        if running and bundle_id not in self.servers:
            self.servers[bundle_id] = StubServer()
            spec = ChildSpec(Address(f"mcp/{bundle_id}"), lambda: self.servers[bundle_id])
            await self.supervisor.start_child(spec)
        await self.commit()

    async def commit(self) -> Applied:
        self.commits += 1
        slices = tuple(self.slices[bundle_id] for bundle_id in sorted(self.slices))
        return await self.bus.ask(TOOLS, ApplyTools(self.commits, slices))

    async def call(
        self, name: str, params: bytes = b"{}", *, req_id: str = "r1", timeout: int = 5, agent: str = "agent"
    ) -> dict[str, Any]:
        answer = await self.bus.ask(TOOLS, RunTool(req_id, name, Attachment(params), timeout, agent), timeout=20)
        result: dict[str, Any] = json.loads(answer.result.data)
        return result

    async def names(self) -> list[str]:
        reply = await self.bus.ask(TOOLS, ListTools())
        return [tool["name"] for tool in json.loads(reply.tools.data)]

    async def cancel(self, req_id: str = "r1") -> None:
        await self.bus.tell(TOOLS, CancelTool(req_id))

    async def drain(self, grace: float) -> None:
        await self.bus.ask(TOOLS, DrainCalls(grace))

    async def resume(self) -> None:
        await self.bus.ask(TOOLS, ResumeCalls())

    async def history(self) -> CallHistory:
        return await self.bus.ask(TOOLS, GetCallHistory())

    async def say_status(self, **status: Any) -> None:
        self.bus.publish(ServerStatusChanged(ServerStatus(**status)))
        await self.history()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with Bus() as bus, Supervisor(bus) as supervisor:
        yield Bench(bus, supervisor)
