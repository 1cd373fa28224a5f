"""A whole stack to be hurt: Server, Agent, and one Computer with a server on each seat of the matrix, under load.

A seat is a placement and a transport. All seats share a Computer, because a fault of one must not be felt on another;
each has lanes of its own that call it all the time and judge what they get.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import anyio

from smcp_runtime.agent import AsyncAgent, CallToolResult
from smcp_runtime.bus.faults import NONE, Faults, FaultyBus, Shares
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.envelope import Envelope
from smcp_runtime.wire.errors import SmcpError
from support.endpoint import Endpoint
from support.load import Load
from support.peers import Peers
from support.stack import OFFICE, QUICK, Restartable, light, options
from support.waiting import until

from .disk import Disk, small_disk
from .partition import Network, network
from .volunteers import Volunteers

Transport = Literal["stdio", "sse", "streamable"]
TRANSPORTS: tuple[Transport, ...] = ("stdio", "sse", "streamable")
PLACEMENTS = ("inline", "process", "external")

TOOLS = "echo,garbage,scramble,close_pipe,slow_down,binary"
THINK = 0.05
"""Seconds every call takes at its server; what else lanes would do is to use the machine up."""
LIMIT = 1
"""Seconds of a call, the least there is."""
MARGIN = 0.5
"""Seconds an Agent waits beyond; 2 by default, but here also a call whose Server is gone has to end within a second."""
LANES = 2
BIG = 1_200_000
"""Bytes of a result that has to be kept on disk; a smaller one may go into the answer where the disk is full."""


class Seat:
    """One server: where its actor is placed, how it is reached."""

    def __init__(self, placement: str, transport: Transport) -> None:
        self.placement, self.transport = placement, transport
        self.name = f"{placement}-{transport}"
        self.endpoint: Endpoint | None = None

    async def entry(self, peers: Peers, host: str) -> dict[str, Any]:
        """Its part of the configuration; a server over HTTP runs when this returns."""
        if self.transport == "stdio":
            return light(self.name, "--delay", str(THINK), tools=TOOLS)
        self.endpoint = Endpoint(peers, self.transport, "--tools", TOOLS, "--delay", str(THINK), "--host", host)
        await self.endpoint.start()
        return {
            "name": self.name,
            "type": self.transport,
            "server_parameters": {"url": self.endpoint.url},
            "default_tool_meta": {"auto_apply": True},
        }


class Rig:
    """Made by `open_rig`.

    Attributes:
        notes: How this machine lets faults be made, for the report of the tests.
    """

    def __init__(self, server: Restartable, computer: Computer, agent: AsyncAgent, disk: Disk, faults: Faults) -> None:
        self.server, self.computer, self.agent, self.disk, self.faults = server, computer, agent, disk, faults
        self.network: Network | None = None
        self.notes = [f"disk full: {disk.how}"]
        self.seats: list[Seat] = []
        self.loads: dict[str, Load] = {}

    # -- calls ---------------------------------------------------------------------------

    async def echo(self, server: str, word: str) -> CallToolResult:
        """The word again, from that server."""
        return await self.call(server, "echo", text=word)

    async def call(self, server: str, tool: str, **arguments: Any) -> CallToolResult:
        """One call of one tool."""
        return await self.agent.tool_call(self.computer.name, f"{server}__{tool}", arguments, timeout=LIMIT)

    async def told(self, seat: Seat, tool: str, **arguments: Any) -> bool:
        """Has the server of a seat do something; whether it says that it did."""
        with suppress(SmcpError):
            return not (await self.call(seat.name, tool, **arguments)).is_error
        return False

    # -- processes -----------------------------------------------------------------------

    async def pid(self, seat: Seat) -> int:
        """The process of its server; waits until there is one."""
        if seat.endpoint is not None:
            return seat.endpoint.pid
        found: list[int] = []

        async def known() -> bool:
            servers = (await self.computer.diagnostics()).servers
            found[:] = [s.pid for s in servers if s.bundle_id == seat.name and s.phase == "ready" and s.pid]
            return bool(found)

        await until(known)
        return found[0]

    async def signal(self, seat: Seat, number: int) -> int:
        """Sends the server's process a signal; its pid."""
        pid = await self.pid(seat)
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid

    async def kill(self, seat: Seat) -> None:
        """SIGKILL. A server over HTTP is started again, as its own supervisor would do; that is ours for stdio."""
        if seat.endpoint is None:
            await self.signal(seat, signal.SIGKILL)
        else:
            await seat.endpoint.kill()
            await anyio.sleep(0.2)
            await seat.endpoint.start()

    # -- envelopes -----------------------------------------------------------------------

    @asynccontextmanager
    async def envelopes(self, shares: Shares, *subjects: str) -> AsyncIterator[None]:
        """Faults of the Computer's bus inside the block, for messages of these types."""

        def chosen(envelope: Envelope) -> bool:
            return envelope.subject in subjects

        self.faults.chosen, self.faults.shares = chosen, shares
        try:
            yield
        finally:
            self.faults.shares = NONE


@asynccontextmanager
async def open_rig(
    folder: Path, placements: Sequence[str] = PLACEMENTS, *, longest_delay: float = 0.5
) -> AsyncIterator[Rig]:
    """Everything up, joined, and every seat under load.

    Args:
        folder: An empty directory.
        longest_delay: Seconds between two tries to have a server back, at most.
    """
    async with AsyncExitStack() as stack:
        peers = stack.enter_context(Peers())
        disk = stack.enter_context(small_disk(folder))
        between = stack.enter_context(network(peers)) if "external" in placements else None
        seats = [Seat(placement, transport) for placement in placements for transport in TRANSPORTS]
        host = between.host if between is not None else "127.0.0.1"
        volunteers = stack.enter_context(Volunteers(peers, between)) if between is not None else None
        entries = [await seat.entry(peers, host) for seat in seats]
        server = await stack.enter_async_context(Restartable())
        faults = Faults(7)
        computer = Computer.from_config(
            {
                "name": "desk",
                "mcp_servers": entries,
                "settings": {"mcpServerRuntime": {"servers": {s.name: {"placement": s.placement} for s in seats}}},
            },
            options(
                home=str(disk.folder / "home"),
                state_dir=str(disk.folder / "state"),
                blob_cache_root=str(disk.folder / "blobs"),
                health_check={"interval_secs": 0.3, "timeout_secs": 0.3},
                reconnect_policy={"initial_delay_ms": 50, "max_delay_ms": longest_delay * 1000, "max_retries": 0},
                **(volunteers.options if volunteers is not None else {}),
            ),
        )
        if volunteers is not None:
            await volunteers.start(seat.name for seat in seats if seat.placement == "external")
        computer.make_bus = lambda meter: FaultyBus(faults, meter)
        await stack.enter_async_context(computer)
        await computer.connect(server.url, office=OFFICE)
        agent = AsyncAgent(server.url, name="planner", office=OFFICE, backoff=QUICK, tool_margin=MARGIN)
        await stack.enter_async_context(agent)
        rig = Rig(server, computer, agent, disk, faults)
        rig.seats = seats
        if between is not None:
            rig.network = between
            rig.notes.append(f"partition: {between.how}")
        async with anyio.create_task_group() as lanes:
            for seat in seats:
                load = rig.loads[seat.name] = Load(rig.echo, [seat.name], deadline=LIMIT)
                lanes.start_soon(load.run, LANES)
            with anyio.fail_after(30):
                for seat in seats:
                    await rig.loads[seat.name].recovered(seat.name)
            yield rig
            for load in rig.loads.values():
                load.stop()
