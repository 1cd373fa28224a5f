"""What the tally of a bus counts, on a real bus with real actors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler, observer
from smcp_runtime.bus import Bus, Tally
from smcp_runtime.bus.tally import BOUNDS, CODES, OTHER, ROWS, Spread
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import DeadlineExceeded, PolicyError, SmcpError, Undeliverable
from support.waiting import until

from .vocabulary import BusEcho, BusEchoed, BusFetch, BusFetched, BusNote, BusSaid

pytestmark = pytest.mark.anyio

A = Address("a")


class Clerk(Actor):
    """Echoes; refuses what says so, and waits for what says so."""

    @handler(concurrent=8)
    async def echo(self, message: BusEcho) -> BusEchoed:
        if message.text == "refuse":
            raise PolicyError("no", code="refused")
        if message.text == "wait":
            await anyio.sleep_forever()
        return BusEchoed(message.text)

    @handler
    async def fetch(self, message: BusFetch) -> BusFetched:
        return BusFetched("", message.chunk)

    @handler
    def note(self, message: BusNote) -> None:
        pass

    @observer
    def said(self, fact: BusSaid) -> None:
        pass


class Office:
    """A bus with a tally and a clerk at `a`."""

    tally: Tally
    bus: Bus
    supervisor: Supervisor


@pytest.fixture
async def office(anyio_backend: str) -> AsyncIterator[Office]:
    made = Office()
    async with AsyncExitStack() as stack:
        made.tally = Tally()
        made.bus = await stack.enter_async_context(Bus(made.tally))
        made.supervisor = await stack.enter_async_context(Supervisor(made.bus))
        await made.supervisor.start_child(ChildSpec(A, Clerk))
        yield made


async def test_an_answered_ask_is_one_handling_and_one_latency(office: Office) -> None:
    for _ in range(3):
        await office.bus.ask(A, BusEcho("x"))
    row = office.tally.work[A]["BusEcho"]
    assert (row.count, row.latency.count, row.failed, row.cancelled) == (3, 3, 0, 0)
    assert row.latency.total >= row.total > 0
    assert "BusEcho" not in office.tally.traffic


async def test_bytes_are_those_of_bodies_and_attachments_both_ways(office: Office) -> None:
    await office.bus.ask(A, BusFetch(Attachment(b"x" * 10_000)))
    row = office.tally.work[A]["BusFetch"]
    assert 10_000 < row.bytes_in < 10_100
    assert 10_000 < row.bytes_out < 10_100


async def test_a_refusing_handler_counts_as_failed_and_its_ask_under_its_code(office: Office) -> None:
    with pytest.raises(PolicyError):
        await office.bus.ask(A, BusEcho("refuse"))
    row = office.tally.work[A]["BusEcho"]
    assert (row.count, row.failed, row.latency.count) == (1, 1, 0)
    assert office.tally.traffic["BusEcho"].failed == {"refused": 1}


async def test_an_ask_that_nobody_answers_in_time_is_counted_once_as_such(office: Office) -> None:
    with pytest.raises(DeadlineExceeded) as raised:
        await office.bus.ask(A, BusEcho("wait"), timeout=0.02)
    await until(lambda: office.tally.work.get(A, {}).get("BusEcho") is not None)
    assert office.tally.traffic["BusEcho"].failed == {raised.value.code: 1}
    row = office.tally.work[A]["BusEcho"]
    assert (row.count, row.cancelled, row.latency.count) == (1, 1, 0)


async def test_an_abandoned_ask_is_counted_as_cancelled(office: Office) -> None:
    with anyio.move_on_after(0.02):
        await office.bus.ask(A, BusEcho("wait"))
    assert office.tally.traffic["BusEcho"].failed == {"cancelled": 1}


async def test_tells_and_facts_are_counted_where_they_are_taken_in(office: Office) -> None:
    await office.bus.tell(A, BusNote(1))
    assert office.bus.tell_nowait(A, BusNote(2))
    office.bus.publish(BusSaid(3))
    await until(lambda: sum(row.count for row in office.tally.work.get(A, {}).values()) == 3)
    notes, said = office.tally.traffic["BusNote"], office.tally.traffic["BusSaid"]
    assert (notes.kind, notes.count, notes.delivered) == ("tell", 1, 1)
    assert (said.kind, said.count, said.delivered) == ("fact", 0, 1)


async def test_messages_to_nobody_are_counted_by_type(office: Office) -> None:
    for _ in range(2):
        with pytest.raises(Undeliverable):
            await office.bus.ask(Address("nobody"), BusEcho())
    assert office.tally.dead == {"BusEcho": 2}


async def test_names_that_a_peer_makes_up_do_not_grow_the_tally_without_bound() -> None:
    tally = Tally()
    for number in range(2 * ROWS):
        made_up = Envelope("ask", f"Made{number}", A, id=1)
        tally.answered(made_up, 0.1, SmcpError("no", code="no"))
        tally.dead_letter(made_up, "nobody")
        tally.handled(Address(f"at/{number}"), made_up, 0.0, 0.1, "ok")
    for number in range(2 * CODES):
        tally.answered(Envelope("ask", "Made0", A, id=1), 0.1, SmcpError("no", code=f"code-{number}"))
    assert len(tally.traffic) == len(tally.dead) == len(tally.work) == ROWS + 1
    assert len(tally.traffic["Made0"].failed) == CODES + 1
    assert sum(row.count for row in tally.traffic.values()) == 2 * ROWS + 2 * CODES
    assert tally.dead[OTHER] == ROWS


async def test_each_duration_falls_into_the_bucket_whose_bound_it_does_not_exceed() -> None:
    spread = Spread()
    for bound in BOUNDS:
        spread.add(bound)
    spread.add(BOUNDS[-1] + 1)
    assert spread.quick == 1
    assert spread.counts == [0, *([1] * len(BOUNDS))]
    assert spread.count == len(BOUNDS) + 1
    merged = Spread()
    merged.merge(spread)
    merged.merge(spread)
    assert merged.count == 2 * spread.count
    assert merged.total == pytest.approx(2 * spread.total)


async def test_the_load_of_an_actor_shows_what_waits_and_what_is_at_work(office: Office) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(office.bus.ask, A, BusEcho("wait"))
        await until(lambda: office.supervisor.loads()[0].busy == 8)
        (load,) = office.supervisor.loads()
        assert (load.address, load.queued, load.capacity) == (A, 2, 1024)
        tasks.cancel_scope.cancel()
    await until(lambda: office.supervisor.loads()[0].queued == 0)
