"""Two links joined by a pair of queues that the test empties by hand: every order of events can be had."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from smcp_runtime.bus import Bus, Observer, Verdict, Whereabouts
from smcp_runtime.bus.zeromq import frames
from smcp_runtime.bus.zeromq.flow import FACT_LINE, FACT_WINDOW
from smcp_runtime.bus.zeromq.frames import encode_header
from smcp_runtime.bus.zeromq.link import Link
from smcp_runtime.wire.codec import encode
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import ActorLost, BusClosed, BusError, DeadlineExceeded, Overloaded, SmcpError
from support.waiting import until

from ..scripted import Scripted
from ..vocabulary import BusEcho, BusEchoed, BusNote, BusSaid, BusUrgent
from ..worlds import CountingMeter

pytestmark = pytest.mark.anyio

A, B = Address("a"), Address("b")


class OneLink:
    """The gateway of a bus that has a single peer, which owns every address."""

    link: Link

    def carry(self, envelope: Envelope) -> Verdict | None:
        return self.link.carry(envelope)

    def cancel(self, envelope: Envelope) -> Whereabouts | None:
        return self.link.cancel(envelope)

    def reaches(self, address: Address) -> bool:
        return True

    def has_left(self, envelope: Envelope) -> bool:
        return self.link.holds(envelope.id)

    def wants(self, subject: str) -> bool:
        return True

    def publish(self, envelope: Envelope) -> None:
        self.link.publish(envelope)

    def observe(self, subject: str) -> None:
        pass

    def unobserve(self, subject: str) -> None:
        pass

    def announce(self, address: Address) -> None:
        pass

    def withdraw(self, address: Address, why: str | None) -> None:
        pass


class Joined:
    """A near bus whose link ends at a far bus with one receiver; messages move when the test says so."""

    def __init__(self, tasks: Any, near: Bus, far: Bus, **limits: int) -> None:
        self.near, self.far = near, far
        self.meter = near.meter
        assert isinstance(self.meter, CountingMeter)
        self.there: deque[list[bytes]] = deque()
        self.back: deque[list[bytes]] = deque()
        self.link = Link(near, "far", self._put(self.there), **limits)
        self.end = Link(far, "near", self._put(self.back))
        gateway = OneLink()
        gateway.link = self.link
        near.gateway = gateway
        self.receiver = Scripted(far, "a", capacity=2, waiting=1)
        far.attach(A, self.receiver)
        tasks.start_soon(self.receiver.run)
        self.tasks = tasks
        self.outcomes: list[Any] = []

    @staticmethod
    def _put(queue: deque[list[bytes]]) -> Any:
        def put(message: list[bytes]) -> bool:
            queue.append(message)
            return True

        return put

    def ask(self, message: Any = None, target: Address = A, timeout: float = 10.0) -> None:
        """Asks in a task; its outcome is added to `outcomes`."""

        async def ask() -> None:
            try:
                self.outcomes.append(await self.near.ask(target, message or BusEcho(), timeout=timeout))
            except SmcpError as error:
                self.outcomes.append(error)

        self.tasks.start_soon(ask)

    def move_some(self, messages: int) -> None:
        """Delivers a few messages there, then a few back."""
        for queue, link in ((self.there, self.end), (self.back, self.link)):
            for _ in range(min(messages, len(queue))):
                link.receive(*frames.unpack(queue.popleft()))

    def move(self) -> int:
        """Delivers everything that is under way in both directions."""
        moved = 0
        for queue, link in ((self.there, self.end), (self.back, self.link)):
            while queue:
                link.receive(*frames.unpack(queue.popleft()))
                moved += 1
        return moved

    async def settle(self, outcomes: int) -> None:
        """Moves messages until so many asks have ended."""

        def moved() -> bool:
            self.move()
            return len(self.outcomes) >= outcomes

        await until(moved)

    async def sent(self, messages: int) -> None:
        """Waits until so many messages are on their way there."""
        await until(lambda: len(self.there) == messages)


@asynccontextmanager
async def joined(**limits: int) -> AsyncIterator[Joined]:
    async with anyio.create_task_group() as tasks, Bus(CountingMeter()) as near, Bus(CountingMeter()) as far:
        yield Joined(tasks, near, far, **limits)
        tasks.cancel_scope.cancel()


async def test_a_message_delivered_twice_is_executed_once() -> None:
    async with joined() as here:
        here.ask(BusEcho("once"))
        await here.sent(1)
        here.there.append(here.there[0])
        await here.settle(1)
        assert here.outcomes == [BusEchoed("once")]
        assert here.receiver.texts == ["once"]


async def test_a_message_that_comes_again_after_its_answer_is_not_executed_again() -> None:
    async with joined() as here:
        here.ask(BusEcho("once"))
        await here.sent(1)
        again = here.there[0]
        await here.settle(1)
        here.there.append(again)
        here.ask(BusEcho("next"))
        await here.sent(2)
        await here.settle(2)
        assert here.receiver.texts == ["once", "next"]


async def test_an_answer_that_comes_twice_or_to_nothing_is_ignored() -> None:
    async with joined() as here:
        here.ask(BusEcho("x"))
        await here.sent(1)
        here.move()
        await until(lambda: here.back)
        here.back.extend([here.back[0], [encode_header(frames.Replied(999)), b"\x91\xa0"]])
        await here.settle(1)
        here.ask(BusEcho("y"))
        await here.settle(2)
        assert here.outcomes == [BusEchoed("x"), BusEchoed("y")]
        assert here.link.credits() == {A: 1024}


async def test_a_receipt_does_not_answer_an_ask() -> None:
    async with joined() as here:
        here.receiver.pause()
        here.ask(timeout=0.2)
        await here.sent(1)
        here.back.append([encode_header(frames.Accepted(1))])
        await here.settle(1)
        assert isinstance(here.outcomes[0], DeadlineExceeded)


async def test_no_more_is_out_than_the_window_and_the_line_is_bounded() -> None:
    async with joined(window=2, line=3) as here:
        for _ in range(7):
            here.ask()
        await until(lambda: len(here.outcomes) == 2)
        assert [type(outcome) for outcome in here.outcomes] == [Overloaded, Overloaded]
        assert (here.link.in_flight, here.link.waiting, len(here.there)) == (2, 3, 2)
        await here.settle(7)
        assert here.outcomes[2:] == [BusEchoed()] * 5
        assert (here.link.in_flight, here.link.waiting) == (0, 0)


async def test_one_paused_actor_holds_up_no_other_and_no_control_message() -> None:
    async with joined(window=1, line=5) as here:
        other = Scripted(here.far, "b")
        here.far.attach(B, other)
        here.tasks.start_soon(other.run)
        here.receiver.pause()
        for _ in range(3):
            here.ask()
        await until(lambda: here.link.waiting == 2)
        here.ask(BusEcho("other"), B)
        here.ask(BusUrgent("control"))
        await here.settle(1)
        assert here.outcomes == [BusEchoed("other")]
        await until(lambda: len(here.receiver.mailbox) == 2)
        here.receiver.resume()
        await here.settle(5)
        assert here.receiver.texts[0] == "control"


async def test_a_message_whose_time_ran_out_in_line_is_never_sent() -> None:
    async with joined(window=1, line=5) as here:
        here.ask(BusEcho("out"), timeout=10)
        here.ask(BusEcho("late"), timeout=0.05)
        await until(lambda: len(here.outcomes) == 1)
        assert isinstance(here.outcomes[0], Overloaded)
        assert here.outcomes[0].details["executed"] == "no"
        await here.settle(2)
        assert here.receiver.texts == ["out"]


async def test_a_tell_that_was_refused_is_reported_to_its_sender() -> None:
    async with joined() as here:
        here.receiver.pause()
        told: list[str] = []

        async def tell(number: int) -> None:
            try:
                await here.near.tell(A, BusNote(number), timeout=20)
                told.append("accepted")
            except Overloaded:
                told.append("refused")

        for number in range(5):
            here.tasks.start_soon(tell, number)
        await here.sent(5)
        here.move()
        # Two in the mailbox, one in its line; the other two found no place.
        await until(lambda: here.move() == 0 and len(told) == 4)
        assert sorted(told) == ["accepted", "accepted", "refused", "refused"]
        here.receiver.resume()
        await until(lambda: here.move() == 0 and len(told) == 5)
        assert told[-1] == "accepted"


async def test_a_tell_without_a_receipt_takes_credit_and_gives_it_back() -> None:
    async with joined(window=2, line=1) as here:
        here.receiver.pause()
        assert [here.near.tell_nowait(A, BusNote(number)) for number in range(4)] == [True, True, True, False]
        assert here.link.credits() == {A: 0}
        while here.move():
            pass
        # Two are in the far mailbox, one waits in its line.
        assert here.link.credits() == {A: 1}
        assert here.near.tell_nowait(A, BusNote(4))
        while here.move():
            pass
        assert isinstance(here.meter, CountingMeter)
        assert here.meter.refusals == ["overloaded", "refused"]
        here.receiver.resume()
        await until(lambda: here.move() == 0 and here.link.credits() == {A: 2})
        await until(lambda: here.receiver.seen == [BusNote(0), BusNote(1), BusNote(2)])


async def test_cancelling_gives_the_place_back_once_the_peer_has_dropped_the_message() -> None:
    async with joined(window=1, line=1) as here:
        here.receiver.pause()
        with anyio.CancelScope() as scope:

            async def cancel() -> None:
                await here.sent(1)
                here.move()
                scope.cancel()

            here.tasks.start_soon(cancel)
            await here.near.ask(A, BusEcho("gone"), timeout=10)
        assert len(here.receiver.mailbox) == 1
        assert here.link.credits() == {A: 0}
        here.move()
        assert len(here.receiver.mailbox) == 0
        assert here.link.credits() == {A: 1}


async def test_cancelling_what_has_been_answered_meanwhile_does_no_harm() -> None:
    async with joined() as here:
        with anyio.CancelScope() as scope:

            async def cancel() -> None:
                await here.sent(1)
                here.end.receive(*frames.unpack(here.there.popleft()))
                await until(lambda: here.back)
                scope.cancel()

            here.tasks.start_soon(cancel)
            await here.near.ask(A, BusEcho("x"))
        here.move()
        assert here.link.credits() == {A: 1024}
        here.ask(BusEcho("next"))
        await here.settle(1)
        assert here.outcomes == [BusEchoed("next")]


async def test_closing_ends_what_was_out_as_unknown_and_what_waited_as_not_executed() -> None:
    async with joined(window=2, line=5) as here:
        here.receiver.pause()
        for _ in range(5):
            here.ask()
        await here.sent(2)
        await until(lambda: here.link.waiting == 3)
        here.link.close("silent for 5.0 s")
        await until(lambda: len(here.outcomes) == 5)
        assert {type(outcome) for outcome in here.outcomes} == {ActorLost}
        executed = [outcome.details["executed"] for outcome in here.outcomes]
        assert sorted(executed) == ["no", "no", "no", "unknown", "unknown"]


async def test_closing_interrupts_what_came_over_the_link() -> None:
    async with joined() as here:

        async def hang(_message: Any) -> None:
            await anyio.sleep_forever()

        here.receiver.on[BusEcho] = hang
        here.ask()
        await here.sent(1)
        here.move()
        await until(lambda: here.receiver.seen)
        here.end.close("the peer is gone")
        await until(lambda: here.receiver.interrupted == [BusEcho()])


async def test_what_waits_for_a_withdrawn_address_ends_at_once() -> None:
    async with joined(window=1, line=5) as here:
        here.receiver.pause()
        for _ in range(3):
            here.ask()
        await here.sent(1)
        await until(lambda: here.link.waiting == 2)
        here.link.forget_address(A, "restarting")
        await until(lambda: len(here.outcomes) == 2)
        assert {type(outcome) for outcome in here.outcomes} == {ActorLost}
        assert {outcome.details["executed"] for outcome in here.outcomes} == {"no"}


async def test_a_closed_bus_at_the_other_end_says_so_and_executes_nothing() -> None:
    async with joined() as here:
        here.far.close()
        here.ask()
        await here.settle(1)
        assert isinstance(here.outcomes[0], BusClosed)
        assert here.outcomes[0].details["executed"] == "no"
        assert here.receiver.seen == []


async def test_a_message_no_peer_would_accept_is_refused_before_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_MAX", 1000)
    async with joined() as here:
        here.ask(BusEcho("x" * 1001))
        await until(lambda: len(here.outcomes) == 1)
        assert isinstance(here.outcomes[0], BusError)
        assert (here.outcomes[0].code, here.outcomes[0].details) == ("too_large", {"executed": "no"})
        assert not here.there


async def test_a_reply_no_peer_would_accept_becomes_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_MAX", 1000)

    async def answer(_message: Any) -> BusEchoed:
        return BusEchoed("x" * 1001)

    async with joined() as here:
        here.receiver.on[BusEcho] = answer
        here.ask()
        await here.settle(1)
        assert isinstance(here.outcomes[0], BusError)
        assert here.outcomes[0].code == "too_large"


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x90", encode(["NoSuchError", "m", "c"])[0]])
async def test_a_failure_nobody_can_read_still_ends_the_ask(body: bytes) -> None:
    async with joined() as here:
        here.ask()
        await here.sent(1)
        header, _, _ = frames.unpack(here.there.popleft())
        assert isinstance(header, frames.Carry)
        here.back.append([encode_header(frames.Failed(header.id)), body])
        await here.settle(1)
        assert isinstance(here.outcomes[0], SmcpError)


async def test_facts_beyond_the_window_wait_for_receipts_and_the_rest_is_dropped_and_counted() -> None:
    async with joined() as here:
        with Observer(here.far, BusSaid, capacity=10_000) as observer:
            total = FACT_WINDOW + FACT_LINE + 500
            for number in range(total):
                here.near.publish(BusSaid(number))
            assert len(here.there) == FACT_WINDOW
            assert isinstance(here.meter, CountingMeter)
            assert here.meter.dropped == 500
            while here.move():
                pass
            got = [await anext(observer) for _ in range(total - 500)]
            assert got == [BusSaid(number) for number in range(total - 500)]


async def test_frames_for_a_hub_or_a_node_are_not_for_a_link() -> None:
    async with joined() as here:
        assert not here.link.receive(frames.Beat(), b"", ())
        assert not here.link.receive(frames.Hello(1, "", ""), b"", ())


@pytest.mark.parametrize("seed", range(60))
async def test_whatever_the_order_of_events_every_message_ends_once_and_all_credit_comes_back(seed: int) -> None:
    chance = random.Random(seed)
    async with joined(window=3, line=4) as here:
        asks: list[Journey] = []
        for _ in range(chance.randrange(20, 60)):
            step = chance.randrange(8)
            if step < 3:
                timeout = chance.choice([0.02, 5.0, 5.0])
                asks.append(Journey(here, tell=chance.random() < 0.4, timeout=timeout, number=len(asks)))
            elif step == 3 and asks:
                chance.choice(asks).scope.cancel()
            elif step == 4:
                here.receiver.pause()
            elif step == 5:
                here.receiver.resume()
            else:
                here.move_some(chance.randrange(1, 6))
            for _ in range(chance.randrange(3)):
                await checkpoint()
        here.receiver.resume()

        def over() -> bool:
            here.move()
            return all(ask.ends for ask in asks) and not here.link.in_flight and not here.there and not here.back

        await until(over)
        assert all(len(ask.ends) == 1 for ask in asks)
        assert all(credit == 3 for credit in here.link.credits().values())
        assert here.link.waiting == 0
        handled = Counter(ask.number for ask in asks for seen in here.receiver.seen if ask.is_it(seen))
        for ask in asks:
            # Executed at most once; exactly once when the sender heard so, never when it heard it was not.
            allowed = {"ok": {1}, "no": {0}}.get(ask.ends[0], {0, 1})
            assert handled[ask.number] in allowed, (ask.number, ask.ends)


class Journey:
    """One ask or tell under way: `ok`, what its error says of its execution, or `cancelled`."""

    def __init__(self, here: Joined, *, tell: bool, timeout: float, number: int) -> None:
        self.number = number
        self.ends: list[str] = []
        self.scope = anyio.CancelScope()
        self._here, self._tell, self._timeout = here, tell, timeout
        here.tasks.start_soon(self._run)

    def is_it(self, message: object) -> bool:
        return message in (BusNote(self.number), BusEcho(str(self.number)))

    async def _run(self) -> None:
        with self.scope:
            try:
                if self._tell:
                    await self._here.near.tell(A, BusNote(self.number), timeout=self._timeout)
                else:
                    await self._here.near.ask(A, BusEcho(str(self.number)), timeout=self._timeout)
                self.ends.append("ok")
            except SmcpError as error:
                self.ends.append(error.details["executed"])
        if self.scope.cancelled_caught:
            self.ends.append("cancelled")


async def test_a_cancel_of_what_never_came_gives_its_place_back_and_keeps_it_from_being_executed_later() -> None:
    async with joined(window=1, line=5) as here:
        here.ask(BusEcho("lost"), timeout=0.05)
        await here.sent(1)
        late = here.there.popleft()
        await until(lambda: len(here.outcomes) == 1)
        assert here.link.in_flight == 1
        here.move()
        assert here.link.in_flight == 0
        here.end.receive(*frames.unpack(late))
        here.ask(BusEcho("next"))
        await here.settle(2)
        assert here.receiver.texts == ["next"]


async def test_a_cancel_of_what_has_ended_gives_its_place_back_though_the_answer_was_lost() -> None:
    async with joined(window=1, line=5) as here:
        here.ask(BusEcho("done"), timeout=0.2)
        await here.sent(1)
        here.end.receive(*frames.unpack(here.there.popleft()))
        await until(lambda: len(here.back) == 1)
        here.back.clear()
        await until(lambda: len(here.outcomes) == 1)
        here.move()
        assert here.link.in_flight == 0
        assert here.receiver.texts == ["done"]
