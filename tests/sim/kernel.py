"""Asks, tells and facts between actors that are slow, refuse, crash, and are killed under way."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any, ClassVar

import anyio

from smcp_runtime.actors.kernel import Actor, ChildSpec, RestartPolicy, Supervisor, handler, observer
from smcp_runtime.bus import Bus, Tally
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ConflictError, PolicyError, SmcpError
from smcp_runtime.wire.message import Ask, Fact, Record, Tell

from .facts import Lives
from .play import Play, on_trio

ACTORS = tuple(Address(name) for name in ("ant", "bee", "cat", "dog"))
HORIZON = 8.0
BESIDE = 3
CAPACITY, WAITING = 4, 3
STABLE = 60.0
"""Seconds after which whatever is under way has ended."""
MOMENT = 1e-6
"""Seconds by which rounding may move an instant."""


class SimStep(Record):
    """One stop of a piece of work: how long it takes there, and how it ends unless a later stop decides."""

    number: int
    target: str
    takes: float
    ending: str
    way: str


class SimWork(Ask[int]):
    """Serial work: the first step here, the others by asking on."""

    steps: tuple[SimStep, ...]


class SimUrgent(Ask[int]):
    """The same, overtaking."""

    lane: ClassVar[str] = "control"
    steps: tuple[SimStep, ...]


class SimBeside(Ask[int]):
    """The same in a concurrent handler."""

    steps: tuple[SimStep, ...]


class SimTold(Tell):
    """Work nobody waits for."""

    steps: tuple[SimStep, ...]


class SimNews(Fact):
    """Something to observe; numbered in the order of publishing."""

    number: int


WAYS = {"serial": SimWork, "urgent": SimUrgent, "beside": SimBeside}


class Book:
    """What really happened, to be compared with what askers were told."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.began: Counter[int] = Counter()
        self.finished: Counter[int] = Counter()
        self.left: dict[int, float] = {}
        self.sent: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.order: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.accepted: dict[str, list[int]] = defaultdict(list)
        self.serial: dict[str, int] = {}
        self.beside: Counter[str] = Counter()
        self.deadlines: dict[int, float] = {}
        self.pending = 0
        self.refused: set[int] = set()
        self.news: dict[str, int] = {}

    def begin(self, address: str, step: SimStep) -> None:
        self.play.note(f"{address} begins {step.number} ({step.way})")
        self.began[step.number] += 1
        self.play.claim(self.began[step.number] == 1, f"{step.number} was executed twice")
        if step.way == "beside":
            self.beside[address] += 1
            self.play.claim(self.beside[address] <= BESIDE, f"{address} runs more than {BESIDE} beside each other")
            return
        other = self.serial.get(address)
        self.play.claim(other is None, f"{address} works on {step.number} and {other} at once")
        self.serial[address] = step.number
        self.order[address, "control" if step.way == "urgent" else "ordinary"].append(step.number)

    def leave(self, address: str, step: SimStep) -> None:
        self.play.note(f"{address} leaves {step.number}")
        self.left[step.number] = self.play.now()
        if step.way == "beside":
            self.beside[address] -= 1
        else:
            del self.serial[address]


async def send(ask: Any, book: Book, steps: tuple[SimStep, ...], timeout: float | None, until: float) -> int:
    """Asks for the first step, and holds the end of the ask against what happened.

    Args:
        ask: `Bus.ask` or `Actor.ask`.
        until: Moment by which the asker is to be told, at the latest.
    """
    play, step = book.play, steps[0]
    until = min(until, play.now() + timeout) if timeout is not None else until
    book.deadlines[step.number] = until
    if step.way != "beside":
        book.sent[step.target, "control" if step.way == "urgent" else "ordinary"].append(step.number)
    book.pending += 1
    try:
        value: int = await ask(Address(step.target), WAYS[step.way](steps), timeout=timeout)
    except SmcpError as error:
        play.note(f"{step.number} failed: {error.code} {error.details.get('executed', '')}")
        executed = error.details.get("executed")
        play.claim(executed != "no" or not book.began[step.number], f"{step.number} ran, but is said not to have")
        play.claim(
            error.category == "bus" or book.began[step.number], f"{step.number} was refused by a handler that never ran"
        )
        raise
    else:
        play.claim(book.finished[step.number] == 1, f"{step.number} was answered but not finished")
        play.claim(value == step.number, f"{step.number} got the answer of {value}")
        return value
    finally:
        book.pending -= 1
        play.claim(play.now() <= until + MOMENT, f"{step.number} was told {play.now() - until:g} s after its deadline")


class Worker(Actor):
    """Does what each message says."""

    def __init__(self, book: Book) -> None:
        self._book = book

    @handler
    async def work(self, message: SimWork) -> int:
        return await self._do(message.steps)

    @handler
    async def urgent(self, message: SimUrgent) -> int:
        return await self._do(message.steps)

    @handler(concurrent=BESIDE)
    async def beside(self, message: SimBeside) -> int:
        return await self._do(message.steps)

    @handler
    async def told(self, message: SimTold) -> None:
        await self._do(message.steps)

    @observer
    async def news(self, fact: SimNews) -> None:
        last = self._book.news.get(self.address, 0)
        self._book.play.claim(fact.number > last, f"{self.address} heard of {fact.number} after {last}")
        self._book.news[self.address] = fact.number

    async def _do(self, steps: tuple[SimStep, ...]) -> int:
        book, step = self._book, steps[0]
        book.begin(self.address, step)
        try:
            await anyio.sleep(step.takes)
            if len(steps) > 1:
                await send(self.ask, book, steps[1:], None, book.deadlines.get(step.number, float("inf")))
            if step.ending == "refuse":
                raise PolicyError("no", code="sim")
            if step.ending == "crash":
                raise ZeroDivisionError
            book.finished[step.number] += 1
            return step.number
        finally:
            book.leave(self.address, step)


class Cast:
    """The outside: what happens to the actors, and when."""

    def __init__(self, play: Play, bus: Bus, supervisor: Supervisor, book: Book) -> None:
        self.play, self.bus, self.supervisor, self.book = play, bus, supervisor, book
        self.numbers = itertools.count(1)
        self.news = itertools.count(1)

    def spec(self, address: Address) -> ChildSpec:
        policy = RestartPolicy(Backoff(0.05, 0.5), max_restarts=4, within=2.0, stable_after=1.0, park_retry=1.5)
        return ChildSpec(
            address, lambda: Worker(self.book), policy=policy, stop_timeout=0.3, capacity=CAPACITY, waiting=WAITING
        )

    def steps(self, longest: int = 3) -> tuple[SimStep, ...]:
        return tuple(
            SimStep(
                next(self.numbers),
                self.play.pick(*ACTORS),
                self.play.pick(0.0, 0.0, self.play.span(0.001, 2.0)),
                self.play.pick("reply", "reply", "reply", "refuse", "crash"),
                self.play.pick("serial", "serial", "beside", "urgent"),
            )
            for _ in range(self.play.random.randint(1, longest))
        )

    async def ask(self) -> None:
        steps, timeout = self.steps(), self.play.span(0.005, 5.0)
        patience = self.play.span(0.001, 3.0) if self.play.chance(0.2) else float("inf")
        number = steps[0].number
        self.play.note(f"ask {number} of {steps[0].target} within {timeout:.4f} s")
        with anyio.move_on_after(patience) as scope:
            with suppress(SmcpError):
                await send(self.bus.ask, self.book, steps, timeout, float("inf"))
        if scope.cancelled_caught:
            self.play.note(f"{number} was given up")
            self.book.deadlines[number] = min(self.book.deadlines[number], self.play.now())

    async def tell(self) -> None:
        step = self.steps(1)[0]
        step = SimStep(step.number, step.target, step.takes, step.ending, "serial")
        self.book.sent[step.target, "ordinary"].append(step.number)
        try:
            await self.bus.tell(Address(step.target), SimTold((step,)), timeout=self.play.span(0.01, 3.0))
        except SmcpError as error:
            self.play.note(f"telling {step.number} failed: {error.code}")
            self.play.claim(not self.book.began[step.number], f"{step.number} ran, but was not accepted")
        else:
            self.book.accepted[step.target].append(step.number)

    async def publish(self) -> None:
        self.bus.publish(SimNews(next(self.news)))

    async def kill(self) -> None:
        address = self.play.pick(*ACTORS)
        self.play.note(f"kill {address}: {self.supervisor.kill_child(address)}")

    async def replace(self) -> None:
        address = self.play.pick(*ACTORS)
        began = self.play.now()
        await self.supervisor.stop_child(address)
        self.play.claim(self.play.now() <= began + 1.6 + MOMENT, f"{address} took too long to stop")
        self.play.note(f"{address} is stopped")
        await anyio.sleep(self.play.span(0.001, 0.5))
        with suppress(ConflictError):  # another one was quicker
            await self.supervisor.start_child(self.spec(address))

    async def after(self, delay: float, deed: Any) -> None:
        await anyio.sleep(delay)
        await deed()


async def main(play: Play) -> None:
    """One schedule."""
    book = Book(play)
    async with Bus(Tally()) as bus:
        lives = Lives(play, bus)
        async with Supervisor(bus) as supervisor:
            cast = Cast(play, bus, supervisor, book)
            for address in ACTORS:
                await supervisor.start_child(cast.spec(address))
            deeds = [cast.ask] * 6 + [cast.tell] * 2 + [cast.publish] + [cast.kill] + [cast.replace] * play.chance(0.3)
            async with anyio.create_task_group() as group:
                for _ in range(play.random.randint(8, 28)):
                    group.start_soon(cast.after, play.random.random() * HORIZON, play.pick(*deeds))
            await anyio.sleep(STABLE)
            for address in ACTORS:
                left = [number for number in book.accepted[address] if not book.began[number]]
                play.claim(not left or lives.deaths[address], f"{address} accepted {left} and never did it")
        lives.over()
    play.claim(not bus._pending, f"the bus still waits for {list(bus._pending)}")
    play.claim(not bus._waits._edges, "the wait graph still has edges")
    play.claim(not book.serial and not +book.beside, "a handler outlived its actor")
    for number, deadline in book.deadlines.items():
        ended = book.left.get(number, 0.0)
        play.claim(ended <= deadline + MOMENT, f"work on {number} went on after nobody waited for it")
    for (name, lane), began in book.order.items():
        in_turn = [number for number in book.sent[name, lane] if number in set(began)]
        play.claim(began == in_turn, f"{name} took the {lane} lane out of turn: {began}")


kernel = on_trio(main)
