"""Messages and an actor for the kernel's tests."""

from __future__ import annotations

import anyio

from smcp_runtime.actors.kernel import Actor, handler, observer
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import PolicyError
from smcp_runtime.wire.message import Ask, Fact, Tell


class KernelEcho(Ask[str]):
    text: str


class KernelHold(Ask[str]):
    """Answers when the gate of the actor opens."""


class KernelHoldBeside(Ask[str]):
    """The same in a concurrent handler."""


class KernelUrgent(Ask[int]):
    lane = "control"


class KernelRefuse(Ask[None]):
    pass


class KernelCrash(Ask[None]):
    secret: str = "hunter2"


class KernelShout(Tell):
    text: str


class KernelTrip(Tell):
    pass


class KernelNews(Fact):
    text: str
    key: str | None = None

    def coalesce_key(self) -> str | None:
        return self.key


class KernelVisit(Ask[str]):
    """Asks along the stops, the last one answers."""

    stops: tuple[str, ...]


class KernelVisitBeside(Ask[str]):
    stops: tuple[str, ...]


class Sample(Actor):
    """Everything an actor can do, observable from outside."""

    def __init__(self) -> None:
        self.gate = anyio.Event()
        self.heard: list[str] = []
        self.interrupted = anyio.Event()
        self.entered = anyio.Event()
        self.side_by_side = 0
        self.most_side_by_side = 0
        self.said_goodbye = False

    async def stopping(self) -> None:
        self.said_goodbye = True

    @handler
    def echo(self, message: KernelEcho) -> str:
        self.heard.append(message.text)
        return message.text

    @handler
    async def hold(self, message: KernelHold) -> str:
        self.entered.set()
        try:
            await self.gate.wait()
        except BaseException:
            self.interrupted.set()
            raise
        return "held"

    @handler(concurrent=3)
    async def hold_beside(self, message: KernelHoldBeside) -> str:
        self.side_by_side += 1
        self.most_side_by_side = max(self.most_side_by_side, self.side_by_side)
        try:
            await self.gate.wait()
        finally:
            self.side_by_side -= 1
        return "held beside"

    @handler
    def urgent(self, message: KernelUrgent) -> int:
        self.heard.append("urgent")
        return len(self.heard)

    @handler
    def refuse(self, message: KernelRefuse) -> None:
        raise PolicyError("not today", code="closed_on_sundays", field="day", bundle_id="b", details={"n": 1})

    @handler
    async def crash(self, message: KernelCrash) -> None:
        raise RuntimeError(message.secret)

    @handler
    def shout(self, message: KernelShout) -> None:
        self.heard.append(message.text)

    @handler
    async def trip(self, message: KernelTrip) -> None:
        raise RuntimeError("tripped over hunter2")

    @observer
    def news(self, fact: KernelNews) -> None:
        self.heard.append(fact.text)

    @handler
    async def visit(self, message: KernelVisit) -> str:
        return await self._next_stop(message.stops)

    @handler(concurrent=8)
    async def visit_beside(self, message: KernelVisitBeside) -> str:
        return await self._next_stop(message.stops)

    async def _next_stop(self, stops: tuple[str, ...]) -> str:
        if not stops:
            return str(self.address)
        name, mode = stops[0].split("/") if "/" in stops[0] else (stops[0], "serial")
        ask = KernelVisitBeside if mode == "beside" else KernelVisit
        return await self.ask(Address(name), ask(stops[1:]), timeout=3.0)
