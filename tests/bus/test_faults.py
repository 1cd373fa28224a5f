"""What a bus keeps of its promises when it loses, delays and repeats messages, on every transport."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import anyio
import pytest

from smcp_runtime.bus import OVERTIME, Observer
from smcp_runtime.bus.faults import NONE, Faults, Shares
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import BusError, DeadlineExceeded
from support.waiting import until

from .conftest import OpenWorld
from .vocabulary import BusEcho, BusEchoed, BusNote, BusSaid
from .worlds import World

pytestmark = pytest.mark.anyio

A = Address("a")
ENVELOPE = Envelope("ask", "BusEcho", A)


class Late(Faults):
    """Everything delayed comes as late as this."""

    def lateness(self) -> float:
        return self.shares.longest


async def asks(world: World, count: int, timeout: float) -> Counter[str]:
    """So many asks at once, each with a text of its own, and what became of them."""
    ends: Counter[str] = Counter()

    async def one(text: str) -> None:
        began = time.monotonic()
        try:
            reply = await world.near.ask(A, BusEcho(text), timeout=timeout)
            ends["right" if reply.text == text else "wrong"] += 1
        except BusError as error:
            ends[error.code] += 1
        if time.monotonic() - began > timeout + OVERTIME + 1.0:
            ends["late"] += 1

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, str(number))
    return ends


class TestLoss:
    async def test_a_lost_ask_ends_by_its_deadline_and_is_not_executed(self, open_world: OpenWorld) -> None:
        faults = Faults(1)
        async with open_world(faults) as world:
            receiver = await world.serve("a")
            faults.shares = Shares(drop=1.0)
            with anyio.fail_after(1.1), pytest.raises(DeadlineExceeded) as caught:
                await world.near.ask(A, BusEcho("lost"), timeout=0.1)
            assert caught.value.details["executed"] == "unknown"
            assert receiver.seen == []
            assert faults.done == {("ask", "drop"): 1}

    async def test_an_ask_whose_answer_is_lost_ends_by_its_deadline(self, open_world: OpenWorld) -> None:
        faults = Faults(1)

        async def answer(message: BusEcho) -> BusEchoed:
            faults.shares = Shares(drop=1.0)
            return BusEchoed(message.text)

        async with open_world(faults) as world:
            receiver = await world.serve("a")
            receiver.on[BusEcho] = answer
            with anyio.fail_after(1.1), pytest.raises(DeadlineExceeded) as caught:
                await world.near.ask(A, BusEcho("done"), timeout=0.1)
            assert caught.value.details["executed"] == "unknown"
            assert receiver.texts == ["done"]
            faults.shares = NONE
            receiver.on[BusEcho] = _echo
            assert await world.near.ask(A, BusEcho("next")) == BusEchoed("next")

    async def test_a_lost_tell_is_reported_to_its_sender(self, open_world: OpenWorld) -> None:
        faults = Faults(1)
        async with open_world(faults) as world:
            receiver = await world.serve("a")
            faults.shares = Shares(drop=1.0)
            with anyio.fail_after(1.1), pytest.raises(DeadlineExceeded):
                await world.near.tell(A, BusNote(1), timeout=0.1)
            assert receiver.seen == []

    async def test_every_tell_without_receipt_is_delivered_or_counted_as_lost(self, open_world: OpenWorld) -> None:
        faults = Faults(2)
        async with open_world(faults) as world:
            receiver = await world.serve("a")
            faults.shares = Shares(drop=0.3)
            refused = sum(not world.near.tell_nowait(A, BusNote(number)) for number in range(300))
            await until(lambda: len(receiver.seen) + refused + faults.done["tell", "drop"] == 300)
            assert faults.done["tell", "drop"] > 30

    async def test_every_fact_reaches_its_observer_or_is_counted_as_lost(self, open_world: OpenWorld) -> None:
        faults = Faults(3)
        async with open_world(faults) as world:
            with Observer(world.far, BusSaid) as heard:
                await until(lambda: world.near is world.far or world.near.gateway.wants("BusSaid"))  # type: ignore[union-attr]
                faults.shares = Shares(drop=0.3)
                for number in range(100):
                    world.near.publish(BusSaid(number))
                faults.shares = Shares(drop=0.0)
                seen = []
                with anyio.fail_after(5):
                    # What the near end has lost is known at once; over a link the far end draws for itself.
                    while len(seen) + faults.done["fact", "drop"] < 100:
                        seen.append(await anext(heard))
            assert faults.done["fact", "drop"] > 10


async def _echo(message: BusEcho) -> BusEchoed:
    return BusEchoed(message.text)


class TestRepetition:
    async def test_an_ask_that_comes_twice_is_executed_once(self, open_world: OpenWorld) -> None:
        faults = Faults(4)
        async with open_world(faults) as world:
            receiver = await world.serve("a")
            faults.shares = Shares(duplicate=1.0, longest=0.05)
            assert await asks(world, 50, 5.0) == {"right": 50}
            await until(lambda: faults.suppressed >= 50)
            assert sorted(receiver.texts, key=int) == [str(number) for number in range(50)]

    async def test_an_ask_that_comes_again_while_it_is_in_work_is_executed_once(self, open_world: OpenWorld) -> None:
        faults = Late(4)
        async with open_world(faults) as world:
            receiver = await world.serve("a")
            done = anyio.Event()

            async def work(message: Any) -> BusEchoed:
                await done.wait()
                return BusEchoed(message.text)

            receiver.on[BusEcho] = work
            faults.shares = Shares(duplicate=1.0, longest=0.01)
            async with anyio.create_task_group() as group:
                group.start_soon(world.near.ask, A, BusEcho("once"))
                await until(lambda: faults.suppressed >= 1)
                done.set()
            assert receiver.texts == ["once"]

    async def test_tells_that_come_twice_are_executed_once(self, open_world: OpenWorld) -> None:
        faults = Faults(5)
        async with open_world(faults) as world:
            receiver = await world.serve("a")
            faults.shares = Shares(duplicate=1.0, longest=0.05)
            for number in range(20):
                await world.near.tell(A, BusNote(number))
                assert world.near.tell_nowait(A, BusNote(100 + number))
            await until(lambda: faults.suppressed >= 40)
            wanted = [*range(20), *range(100, 120)]
            assert sorted(note.number for note in receiver.seen) == wanted  # type: ignore[attr-defined]

    async def test_an_observer_sees_a_repeated_fact_twice(self, open_world: OpenWorld) -> None:
        faults = Faults(6)
        async with open_world(faults) as world:
            with Observer(world.near, BusSaid) as heard:
                faults.shares = Shares(duplicate=1.0, longest=0.05)
                world.near.publish(BusSaid(7))
                with anyio.fail_after(5):
                    assert [await anext(heard), await anext(heard)] == [BusSaid(7), BusSaid(7)]


class TestDelay:
    async def test_late_asks_get_their_own_answers(self, open_world: OpenWorld) -> None:
        faults = Faults(7)
        async with open_world(faults) as world:
            await world.serve("a")
            faults.shares = Shares(delay=1.0, longest=0.1)
            assert await asks(world, 50, 5.0) == {"right": 50}
            assert faults.done["ask", "delay"] >= 50

    async def test_a_late_ask_that_nobody_waits_for_goes_no_further(self, open_world: OpenWorld) -> None:
        faults = Late(8)
        async with open_world(faults) as world:
            receiver = await world.serve("a")
            faults.shares = Shares(delay=1.0, longest=0.1)
            assert await asks(world, 10, 0.01) == {"deadline": 10}
            await until(lambda: faults.late == 10)
            assert receiver.seen == []

    async def test_a_late_fact_arrives(self, open_world: OpenWorld) -> None:
        faults = Faults(9)
        async with open_world(faults) as world:
            with Observer(world.near, BusSaid) as heard:
                faults.shares = Shares(delay=1.0, longest=0.05)
                world.near.publish(BusSaid(7))
                with anyio.fail_after(5):
                    assert await anext(heard) == BusSaid(7)


@pytest.mark.parametrize("seed", range(2))
async def test_under_all_faults_every_ask_ends_in_time_is_right_and_executed_at_most_once(
    open_world: OpenWorld, seed: int
) -> None:
    faults = Faults(seed)
    async with open_world(faults) as world:
        receiver = await world.serve("a")
        faults.shares = Shares(drop=0.1, delay=0.2, duplicate=0.2, longest=0.1)
        ends = await asks(world, 300, 0.5)
        assert set(ends) == {"right", "deadline"}
        assert sum(ends.values()) == 300
        assert ends["deadline"] >= faults.done["ask", "drop"] > 5
        assert max(Counter(receiver.texts).values()) == 1
        faults.shares = NONE
        assert await asks(world, 20, 5.0) == {"right": 20}


class TestDraws:
    def test_the_same_seed_gives_the_same_faults(self) -> None:
        shares = Shares(drop=0.2, delay=0.2, duplicate=0.2)
        first, second, other = (Faults(seed, shares) for seed in (1, 1, 2))
        drawn = [[faults.fate(ENVELOPE, "ask") for _ in range(100)] for faults in (first, second, other)]
        assert drawn[0] == drawn[1] != drawn[2]
        assert set(drawn[0]) == {"pass", "drop", "delay", "duplicate"}

    def test_only_chosen_messages_meet_faults(self) -> None:
        faults = Faults(1, Shares(drop=1.0), chosen=lambda envelope: envelope.target == "b")
        assert faults.fate(ENVELOPE, "ask") == "pass"
        assert faults.fate(Envelope("ask", "BusEcho", Address("b")), "ask") == "drop"
