"""The small parts of the bus: dead letters, deadlines, the wait graph, hooks."""

from __future__ import annotations

import logging
import math

import anyio
import pytest

from smcp_runtime.bus import Bus
from smcp_runtime.bus.cycles import WaitGraph
from smcp_runtime.bus.dead_letter import DeadLetters
from smcp_runtime.bus.deadlines import SWEEP_FROM, Deadlines
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import Undeliverable
from support.waiting import until

from .vocabulary import BusEcho, BusNote
from .worlds import CountingMeter, world

A, B, C, D = Address("a"), Address("b"), Address("c"), Address("d")


class Clock:
    """A clock we move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(target: Address, *chain: Address) -> Envelope:
    return Envelope("ask", "Thing", target, chain[-1] if chain else Address(""), 1, chain=chain)


class TestDeadLetters:
    @pytest.mark.spec("F-105")
    def test_f105_every_letter_is_counted_and_few_are_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        clock = Clock()
        letters = DeadLetters(clock)
        with caplog.at_level(logging.WARNING):
            letters.add(ask(A), "stopped")
            assert (letters.total, len(caplog.records)) == (1, 1)
            for _ in range(9_999):
                letters.add(ask(A), "stopped")
            assert (letters.total, len(caplog.records)) == (10_000, 1)
            clock.now += 11
            letters.add(ask(A), "stopped")
        assert len(caplog.records) == 2
        assert "10000 since the last such line, 10001 in all" in caplog.text

    def test_many_addresses_share_one_bound_of_log_lines(self, caplog: pytest.LogCaptureFixture) -> None:
        letters = DeadLetters(Clock(), lines=20)
        for number in range(5_000):
            letters.add(ask(Address(f"no/{number}")), "no such address")
        assert letters.total == 5_000
        assert len(caplog.records) == 20

    def test_the_ring_keeps_the_last_ones_and_never_a_body(self) -> None:
        letters = DeadLetters(Clock(), keep=3)
        for number in range(5):
            envelope = ask(Address(f"no/{number}"))
            envelope.body = b"secret"
            letters.add(envelope, "no such address")
        assert [letter.target for letter in letters.recent] == ["no/2", "no/3", "no/4"]
        assert "secret" not in repr(letters.recent)

    @pytest.mark.anyio
    @pytest.mark.spec("F-105")
    async def test_f105_ten_thousand_tells_to_nobody_are_all_refused_and_counted(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        meter = CountingMeter()
        async with Bus(meter) as bus:
            for number in range(10_000):
                assert not bus.tell_nowait(A, BusNote(number))
            with pytest.raises(Undeliverable):
                await bus.ask(A, BusEcho())
            assert bus.dead_letters.total == len(meter.dead) == 10_001
        assert len(caplog.records) == 1


class TestDeadlines:
    @pytest.mark.anyio
    async def test_each_live_entry_expires_once_and_in_order(self) -> None:
        live = set(range(10))
        expired: list[int] = []

        def expire(entry: int) -> None:
            live.discard(entry)
            expired.append(entry)

        deadlines = Deadlines(live, expire, anyio.current_time)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deadlines.run)
            now = anyio.current_time()
            for entry in (3, 1, 2):
                deadlines.add(entry, now + entry / 50)
            deadlines.add(4, now - 1)
            deadlines.add(5, math.inf)
            live.discard(2)
            await until(lambda: expired == [4, 1, 3])
            # A sleeper wakes for a deadline that is nearer than the one it sleeps for.
            deadlines.add(6, anyio.current_time() + 60)
            deadlines.add(7, anyio.current_time() + 0.01)
            await until(lambda: expired == [4, 1, 3, 7])
            tasks.cancel_scope.cancel()

    def test_entries_of_ended_messages_do_not_pile_up(self) -> None:
        live: set[int] = set()
        deadlines = Deadlines(live, live.discard, Clock())
        for entry in range(100_000):
            live.add(entry)
            deadlines.add(entry, 2000.0 + entry)
            live.discard(entry)
        assert len(deadlines) <= SWEEP_FROM + 1


class TestWaitGraph:
    def test_an_ask_along_the_chain_closes_a_circle(self) -> None:
        graph = WaitGraph()
        assert graph.closes(ask(A, A)) == (A, A)
        assert graph.closes(ask(A, A, B, C)) == (C, A, B, C)
        assert graph.closes(ask(D, A, B, C)) is None

    def test_independent_asks_that_cross_close_a_circle(self) -> None:
        graph = WaitGraph()
        graph.add(A, B)
        graph.add(B, C)
        assert graph.closes(ask(A, C)) == (C, A, B, C)
        graph.remove(B, C)
        assert graph.closes(ask(A, C)) is None

    def test_two_asks_along_one_edge_need_two_ends(self) -> None:
        graph = WaitGraph()
        graph.add(A, B)
        graph.add(A, B)
        graph.remove(A, B)
        assert graph.path(A, B) == (A, B)
        graph.remove(A, B)
        assert graph.path(A, B) is None

    def test_a_chain_that_leaves_names_everybody_who_waits_for_it(self) -> None:
        graph = WaitGraph()
        graph.add(A, B)
        graph.add(C, A)
        graph.add(D, D)
        assert set(graph.behind((B,))) == {A, B, C}
        assert graph.behind((B,))[-1] == B


class TestHooks:
    @pytest.mark.anyio
    async def test_every_end_of_an_ask_is_measured_with_its_outcome(self) -> None:
        async with world("in process") as here:
            receiver = await here.serve("a", capacity=1, waiting=0)
            await here.near.ask(A, BusEcho())
            receiver.pause()
            with anyio.move_on_after(0.05):
                await here.near.ask(A, BusEcho())
            assert here.meters[0].outcomes == ["ok", "cancelled"]

    @pytest.mark.anyio
    async def test_an_address_has_one_owner(self) -> None:
        async with world("in process") as here:
            receiver = await here.serve("a")
            with pytest.raises(ValueError, match="taken"):
                here.near.attach(A, receiver)
            assert here.near.addresses() == (A,)
