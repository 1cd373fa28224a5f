"""Two buses joined by real links over a fake line that is slow, says things twice, loses frames, and breaks.

A line that loses a frame or breaks is what a transport is after a lost connection: both ends notice, each in its own
time, and a new line comes up. Whatever happens, an ask ends by its deadline, and nothing is executed twice.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from smcp_runtime.actors.kernel import ChildSpec, Supervisor
from smcp_runtime.bus import OVERTIME, Bus, Tally, Verdict, Whereabouts
from smcp_runtime.bus.zeromq import frames
from smcp_runtime.bus.zeromq.link import Link
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import SmcpError

from .kernel import WAYS, Book, SimNews, SimStep, SimTold, Worker
from .play import Play, on_trio

ACTORS = tuple(Address(name) for name in ("ant", "bee"))
HORIZON = 6.0
MOMENT = 1e-6


class Line:
    """One connection: a link at each end, and frames that take their time. Order is kept, as a transport keeps it."""

    def __init__(self, play: Play, group: Any, near: Bus, far: Bus) -> None:
        self.play, self.group = play, group
        window = play.random.randint(1, 4)
        self.near = Link(near, "far", self._sender(0), window=window, line=3)
        self.far = Link(far, "near", self._sender(1), window=window, line=3)
        self._under_way: tuple[deque[tuple[float, list[bytes]]], ...] = (deque(), deque())
        self._slowness = play.span(0.0001, 0.1)
        self._twice, self._lost = play.pick(0.0, 0.2), play.pick(0.0, 0.0, 0.03)
        self.cut = False
        self.over = anyio.Event()

    def _sender(self, direction: int) -> Any:
        def send(message: list[bytes]) -> bool:
            if self.cut:
                return False
            if self.play.chance(self._lost):
                self.play.note("a frame is lost")
                self.group.start_soon(self.break_off)
                return True
            queue = self._under_way[direction]
            # A fact may be said twice, it only tells how things are; whoever asks for something means it once.
            directed = not isinstance(frames.unpack(message)[0], frames.Published)
            for _ in range(2 if directed and self.play.chance(self._twice) else 1):
                queue.append((anyio.current_time() + self.play.random.random() * self._slowness, message))
                if len(queue) == 1:
                    self.group.start_soon(self._carry_over, direction)
            return True

        return send

    async def _carry_over(self, direction: int) -> None:
        queue, link = self._under_way[direction], (self.far, self.near)[direction]
        while queue:
            due, message = queue[0]
            await anyio.sleep_until(due)
            if not self.cut and not link.closed:
                link.receive(*frames.unpack(message))
            queue.popleft()

    async def break_off(self) -> None:
        """The connection is gone at once; each end is told a little later."""
        if self.cut:
            return
        self.cut = True
        self.play.note("the line breaks")
        ends = [self.near, self.far]
        self.play.random.shuffle(ends)
        for end in ends:
            await anyio.sleep(self.play.span(0.0001, 0.3))
            end.close("the line broke")
        self.over.set()


class Gateway:
    """The way from the near bus to the far one, over whatever line there is."""

    def __init__(self, play: Play, group: Any, near: Bus, far: Bus) -> None:
        self._make: Callable[[], Line] = lambda: Line(play, group, near, far)
        self.line: Line = self._make()
        self.play = play

    async def keep(self) -> None:
        """Replaces a line that broke, once both ends know."""
        while True:
            await self.line.over.wait()
            await anyio.sleep(self.play.span(0.001, 0.5))
            self.line = self._make()
            self.play.note("a new line is up")

    def carry(self, envelope: Envelope) -> Verdict | None:
        return None if self.line.near.closed else self.line.near.carry(envelope)

    def cancel(self, envelope: Envelope) -> Whereabouts | None:
        return self.line.near.cancel(envelope)

    def reaches(self, address: Address) -> bool:
        return not self.line.near.closed

    def has_left(self, envelope: Envelope) -> bool:
        return self.line.near.holds(envelope.id)

    def wants(self, subject: str) -> bool:
        return subject == SimNews.subject() and not self.line.near.closed

    def publish(self, envelope: Envelope) -> None:
        self.line.near.publish(envelope)

    def observe(self, subject: str) -> None: ...

    def unobserve(self, subject: str) -> None: ...

    def announce(self, address: Address) -> None: ...

    def withdraw(self, address: Address, why: str | None) -> None: ...


class Caller:
    """Asks from the near end, and knows what it was told."""

    def __init__(self, play: Play, near: Bus, book: Book, gateway: Gateway) -> None:
        self.play, self.near, self.book, self.gateway = play, near, book, gateway
        self.numbers = itertools.count(1)
        self.news = itertools.count(1)

    def step(self, way: str) -> SimStep:
        play = self.play
        ending = play.pick("reply", "reply", "reply", "refuse", "crash")
        takes = play.pick(0.0, play.span(0.001, 1.0))
        return SimStep(next(self.numbers), play.pick(*ACTORS), takes, ending, way)

    async def ask(self) -> None:
        play, book = self.play, self.book
        step, timeout = self.step(play.pick("serial", "beside", "urgent")), play.span(0.005, 3.0)
        book.deadlines[step.number] = until = play.now() + timeout
        play.note(f"ask {step.number} of {step.target} within {timeout:.4f} s")
        number = step.number
        with anyio.move_on_after(play.pick(float("inf"), play.span(0.001, 2.0))) as patience:
            try:
                value = await self.near.ask(Address(step.target), WAYS[step.way]((step,)), timeout=timeout)
                play.claim(value == number and book.finished[number] == 1, f"{number} was answered but not finished")
            except SmcpError as error:
                executed = error.details.get("executed")
                play.note(f"{number} failed: {error.code} {executed or ''}")
                play.claim(executed != "no" or not book.began[number], f"{number} ran, but is said not to have")
                if executed == "no":
                    book.refused.add(number)
        if patience.cancelled_caught:
            play.note(f"{number} was given up")
        late = play.now() - until
        play.claim(late <= OVERTIME + MOMENT, f"{number} was told {late:g} s after its deadline")

    async def tell(self) -> None:
        step = self.step("serial")
        try:
            await self.near.tell(Address(step.target), SimTold((step,)), timeout=self.play.span(0.01, 3.0))
        except SmcpError as error:
            if error.details.get("executed") == "no":
                self.book.refused.add(step.number)
            self.play.note(f"telling {step.number} failed: {error.code}")

    async def publish(self) -> None:
        self.near.publish(SimNews(next(self.news)))

    async def cut(self) -> None:
        await self.gateway.line.break_off()

    async def after(self, delay: float, deed: Any) -> None:
        await anyio.sleep(delay)
        await deed()


async def main(play: Play) -> None:
    """One schedule."""
    book = Book(play)
    async with anyio.create_task_group() as background, Bus(Tally()) as near, Bus(Tally()) as far:
        gateway = Gateway(play, background, near, far)
        near.gateway = gateway
        async with Supervisor(far) as supervisor:
            for address in ACTORS:
                await supervisor.start_child(
                    ChildSpec(address, lambda: Worker(book), capacity=4, waiting=3, stop_timeout=0.5)
                )
            background.start_soon(gateway.keep)
            caller = Caller(play, near, book, gateway)
            deeds = [caller.ask] * 6 + [caller.tell] * 2 + [caller.publish] + [caller.cut] * play.chance(0.5)
            async with anyio.create_task_group() as group:
                for _ in range(play.random.randint(4, 20)):
                    group.start_soon(caller.after, play.random.random() * HORIZON, play.pick(*deeds))
                if play.chance(0.3):
                    group.start_soon(caller.after, play.random.random() * HORIZON, lambda: _kill(play, supervisor))
            play.claim(not near._pending, f"the near bus still waits for {list(near._pending)}")
            await anyio.sleep(60.0)
            play.claim(not far._pending, f"the far bus still waits for {list(far._pending)}")
            with suppress(SmcpError):
                await supervisor.stop_all()
        background.cancel_scope.cancel()
    for number in book.refused:
        play.claim(not book.began[number], f"{number} ran after its sender was told that it would not")


async def _kill(play: Play, supervisor: Supervisor) -> None:
    address = play.pick(*ACTORS)
    play.note(f"kill {address}: {supervisor.kill_child(address)}")


line = on_trio(main)
