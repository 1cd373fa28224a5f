"""Every fault at every seat: calls end in time, none is wrong, all is well again soon, and nothing stays behind."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from support.leftovers import nothing_left
from support.load import SLACK
from support.waiting import until

from .matrix import FAULTS, Fault
from .rig import LIMIT, PLACEMENTS, TRANSPORTS, Rig, Seat, open_rig

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(150)]


class Cell:
    """One fault at one seat, and the calls that ran into it.

    Attributes:
        recovery: Seconds from the end of the fault to the first right answer.
        breaches: What did not hold.
    """

    def __init__(self, rig: Rig, fault: Fault, seat: Seat) -> None:
        self.fault, self.seat = fault, seat
        self.recovery = 0.0
        self.breaches: list[str] = []
        self._load = rig.loads[seat.name]
        self._tally = self._load.tallies[seat.name]
        self._before = copy.deepcopy(self._tally)
        self._tally.slowest = 0.0

    async def recover(self, over: float) -> None:
        """Waits until the seat answers rightly and what ran into the fault has ended; `over` is when the fault was."""
        with anyio.fail_after(self.fault.within + 10):
            self.recovery = await self._load.recovered(self.seat.name, over)
            await until(lambda: self._load.began_after(over), 10)
        self.breaches += [f"{self.fault.name} at {self.seat.name}: {breach}" for breach in self._judge()]

    def _judge(self) -> Iterator[str]:
        tally, before, placement = self._tally, self._before, self.seat.placement
        failed = tally.failed - before.failed
        if tally.hung > before.hung:
            yield f"{tally.hung - before.hung} calls hung"
        if tally.wrong != before.wrong:
            yield f"wrong answers: {tally.wrong[-3:]}"
        if tally.slowest > LIMIT + SLACK:
            yield f"a call ended after {tally.slowest:.2f} s"
        if self.recovery > self.fault.within:
            yield f"well again after {self.recovery:.2f} s"
        if placement in self.fault.fells and not failed:
            yield "no call failed, so it was not hurt"
        if placement not in self.fault.hurts and failed:
            yield f"calls failed that had nothing to do with it: {dict(failed)}"


async def inflict(rig: Rig, fault: Fault) -> list[Cell]:
    """Has a fault happen, and waits until every seat is well again."""
    cells = [Cell(rig, fault, seat) for seat in rig.seats]
    drawn = rig.faults.done.total()

    async def hurt(cell: Cell) -> None:
        assert fault.of_seat is not None
        await fault.of_seat(rig, cell.seat)
        await cell.recover(time.monotonic())

    async with anyio.create_task_group() as group:
        if fault.of_all is None:
            for cell in cells:
                group.start_soon(hurt, cell)
        else:
            await fault.of_all(rig)
            over = time.monotonic()
            for cell in cells:
                group.start_soon(cell.recover, over)
    if fault.of_envelopes and rig.faults.done.total() == drawn:
        cells[0].breaches.append(f"{fault.name}: no envelope met it")
    return cells


@pytest.mark.spec("DEC-2", "DEC-8", "DEC-10", "F-74")
async def test_every_fault_at_every_seat_leaves_calls_bounded_answers_right_and_nothing_behind(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    cells: list[Cell] = []
    async with nothing_left(), open_rig(tmp_path) as rig:
        for fault in FAULTS:
            cells += await inflict(rig, fault)
        for note in rig.notes:
            record_property("note", note)
    assert {(cell.fault, cell.seat.placement, cell.seat.transport) for cell in cells} == set(
        itertools.product(FAULTS, PLACEMENTS, TRANSPORTS)
    )
    for fault in FAULTS:
        of_fault = [cell for cell in cells if cell.fault is fault]
        took = (f"{max(c.recovery for c in of_fault if c.seat.placement == p):.2f} s {p}" for p in PLACEMENTS)
        record_property("note", f"{fault.name}: well again after {', '.join(took)}")
    assert [breach for cell in cells for breach in cell.breaches] == []
