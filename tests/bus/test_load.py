"""Bursts that nobody can take: every message is answered or refused, the sender is told, and memory stays bounded."""

from __future__ import annotations

from collections import Counter

import anyio
import psutil
import pytest
from anyio.lowlevel import checkpoint

from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import BusError, DeadlineExceeded, Overloaded
from support.waiting import until

from .conftest import OpenWorld
from .vocabulary import BusEcho, BusNote
from .worlds import World

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

A = Address("a")
BURST = 50_000
SHORTER = 20_000
"""For the ways on which more would prove no more; still above what all lines together hold."""
AT_ONCE = 500
"""Messages a burst sends between two turns for everybody else."""


class Burst:
    """Sends a burst and counts what became of each message."""

    def __init__(self, world: World, *, timeout: float) -> None:
        self.outcomes: Counter[str] = Counter()
        self._world = world
        self._timeout = timeout

    async def asks(self, count: int) -> None:
        for number in range(count):
            self._world.tasks.start_soon(self._ask, str(number))
            if number % AT_ONCE == 0:
                await checkpoint()

    async def tells(self, count: int) -> None:
        for number in range(count):
            self._world.tasks.start_soon(self._tell, number)
            if number % AT_ONCE == 0:
                await checkpoint()

    async def _ask(self, text: str) -> None:
        try:
            reply = await self._world.near.ask(A, BusEcho(text), timeout=self._timeout)
            self.outcomes["answered" if reply.text == text else "wrong"] += 1
        except BusError as error:
            self._refused(error)

    async def _tell(self, number: int) -> None:
        try:
            await self._world.near.tell(A, BusNote(number, bytes(200)), timeout=self._timeout)
            self.outcomes["delivered"] += 1
        except BusError as error:
            self._refused(error)

    def _refused(self, error: BusError) -> None:
        executed = error.details.get("executed")
        known = isinstance(error, (Overloaded, DeadlineExceeded)) and executed == "no"
        self.outcomes["refused" if known else f"{error.code} {executed}"] += 1

    async def ended(self, count: int, timeout: float = 60.0) -> None:
        await until(lambda: self.outcomes.total() == count, timeout)


@pytest.mark.parametrize(
    ("kind", "count"),
    [("in process", BURST), ("in process, trio", SHORTER), ("hub to node", BURST), ("node to node", SHORTER)],
)
async def test_every_ask_of_a_burst_on_a_paused_mailbox_is_answered_or_refused(
    open_world: OpenWorld, count: int
) -> None:
    async with open_world() as world:
        receiver = await world.serve("a")
        receiver.pause()
        before = psutil.Process().memory_info().rss
        burst = Burst(world, timeout=60)
        await burst.asks(count)
        limit = receiver.mailbox.capacity + receiver.mailbox.waiting_capacity
        # Over ZeroMQ each link on the way has a window and a line of its own.
        await until(lambda: burst.outcomes["refused"] >= count - 3 * limit, 60)
        assert receiver.mailbox.high_water <= limit
        # What waits is at most three lines of 5,120 asks with their tasks; all 50,000 would take twice as much.
        assert psutil.Process().memory_info().rss - before < 150_000_000
        receiver.resume()
        await burst.ended(count)
        assert set(burst.outcomes) == {"answered", "refused"}
        assert burst.outcomes["answered"] == len(receiver.seen)


@pytest.mark.parametrize(
    ("kind", "count"), [("hub to node", BURST), ("node to hub", SHORTER), ("node to node", SHORTER)]
)
@pytest.mark.spec("F-84")
async def test_f84_what_is_delivered_and_what_is_refused_add_up_to_what_was_sent(
    open_world: OpenWorld, count: int
) -> None:
    async with open_world() as world:
        receiver = await world.serve("a")
        receiver.pause()
        burst = Burst(world, timeout=60)
        await burst.tells(count)
        limit = receiver.mailbox.capacity + receiver.mailbox.waiting_capacity
        await until(lambda: burst.outcomes["refused"] >= count - 3 * limit, 60)
        # The sender is told of those that are in the paused mailbox, and of no others.
        await until(lambda: burst.outcomes["delivered"] == receiver.mailbox.capacity)
        receiver.resume()
        await burst.ended(count)
        assert set(burst.outcomes) == {"delivered", "refused"}
        await world.near.ask(A, BusEcho("fence"))
        assert len(receiver.seen) == burst.outcomes["delivered"] + 1


@pytest.mark.spec("F-101")
async def test_f101_a_fast_sender_cannot_outrun_a_slow_actor(open_world: OpenWorld) -> None:
    async with open_world(window=32, line=32) as world:
        receiver = await world.serve("a", capacity=8, waiting=8)
        refused = delivered = 0

        async def slow(_message: object) -> None:
            await anyio.sleep(0.001)

        receiver.on[BusNote] = slow
        for number in range(2_000):
            # Nothing waits here: what finds no place is refused, and the sender sees it.
            try:
                await world.near.tell(A, BusNote(number), timeout=0)
                delivered += 1
            except (Overloaded, DeadlineExceeded) as error:
                refused += error.details["executed"] == "no"
        await until(lambda: len(receiver.seen) == delivered)
        assert receiver.mailbox.high_water <= 16
        assert delivered + refused == 2_000
        assert refused > 0
