"""The same two ends of a bus on every transport: one asks (`near`), the other answers (`far`)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup

from smcp_runtime.bus import Answer, Bus, Settled
from smcp_runtime.bus.faults import Faults, FaultyBus
from smcp_runtime.bus.measure import Outcome
from smcp_runtime.bus.zeromq import ZmqHub, ZmqNode
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import SmcpError
from support.waiting import until

from .scripted import Scripted

UVLOOP = ("asyncio", {"use_uvloop": True})
KINDS: dict[str, str | tuple[str, dict[str, bool]]] = {
    "in process": "asyncio",
    "in process, trio": "trio",
    "hub to node": "asyncio",
    "hub to node, uvloop": UVLOOP,
    "hub to node, socket pair": "asyncio",
    "node to hub, socket pair, uvloop": UVLOOP,
    "node to hub": "asyncio",
    "node to node": "asyncio",
}
"""Transports of the contract, and the event loop each runs on."""


class CountingMeter:
    """Counts what a bus reports."""

    def __init__(self) -> None:
        self.refusals: list[str] = []
        self.outcomes: list[str] = []
        self.dead: list[str] = []
        self.dropped = 0
        self.coalesced = 0

    def delivered(self, envelope: Envelope) -> None:
        pass

    def refused(self, envelope: Envelope, why: str) -> None:
        self.refusals.append(why)

    def handled(self, address: Address, envelope: Envelope, began: float, ended: float, end: Answer | Outcome) -> None:
        if isinstance(end, Answer):
            self.outcomes.append("ok")

    def answered(self, envelope: Envelope, latency: float, end: Settled) -> None:
        self.outcomes.append(end.code if isinstance(end, SmcpError) else "ok")

    def abandoned(self, envelope: Envelope, latency: float) -> None:
        self.outcomes.append("cancelled")

    def dead_letter(self, envelope: Envelope, why: str) -> None:
        self.dead.append(why)

    def fact_dropped(self, envelope: Envelope, observer: Address) -> None:
        self.dropped += 1

    def fact_coalesced(self, envelope: Envelope, observer: Address) -> None:
        self.coalesced += 1


class World:
    """Two ends of a bus; over ZeroMQ they are two buses.

    Attributes:
        remote: Whether a process boundary could lie between the ends.
        meters: Of all buses a message may pass.
    """

    def __init__(self, near: Bus, far: Bus, tasks: TaskGroup, meters: list[CountingMeter]) -> None:
        self.meters = meters
        self.near = near
        self.far = far
        self.tasks = tasks

    @property
    def remote(self) -> bool:
        return self.near is not self.far

    async def serve(self, address: str, **settings: int) -> Scripted:
        """A receiver at the far end that the near end can reach."""
        receiver = self.serve_on(self.far, address, **settings)
        await until(lambda: self.near.reaches(receiver.address))
        return receiver

    async def serve_near(self, address: str, **settings: int) -> Scripted:
        """A receiver at the near end that the far end can reach."""
        receiver = self.serve_on(self.near, address, **settings)
        await until(lambda: self.far.reaches(receiver.address))
        return receiver

    def serve_on(self, bus: Bus, address: str, **settings: int) -> Scripted:
        """A receiver on one of the buses."""
        receiver = Scripted(bus, address, **settings)
        bus.attach(receiver.address, receiver)
        self.tasks.start_soon(receiver.run)
        return receiver


@asynccontextmanager
async def world(kind: str, faults: Faults | None = None, **limits: Any) -> AsyncIterator[World]:
    """A world of this kind, all of its buses with these faults. `limits` (`window`, `line`) are those of the links."""

    def new_bus(meter: CountingMeter) -> Bus:
        return Bus(meter) if faults is None else FaultyBus(faults, meter)

    async with AsyncExitStack() as stack:
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        if kind.startswith("in process"):
            meter = CountingMeter()
            bus = await stack.enter_async_context(new_bus(meter))
            yield World(bus, bus, tasks, [meter])
            return
        meters = [CountingMeter()]
        center = await stack.enter_async_context(new_bus(meters[0]))
        paired = "socket pair" in kind
        hub = await stack.enter_async_context(ZmqHub(center, listens=not paired, **limits))
        nodes = []
        for name in ("left", "right") if kind == "node to node" else ("left",):
            meters.append(CountingMeter())
            node_bus = await stack.enter_async_context(new_bus(meters[-1]))
            ours, theirs = socket.socketpair() if paired else (None, None)
            if ours is not None:
                hub.adopt(ours, name)
            await stack.enter_async_context(ZmqNode(node_bus, hub.endpoint, name, pair=theirs, **limits))
            nodes.append(node_bus)
        ends = {
            "hub to node": (center, nodes[0]),
            "node to hub": (nodes[0], center),
            "node to node": (nodes[0], nodes[-1]),
        }
        yield World(*ends[kind.partition(",")[0]], tasks, meters)
