"""Operations take turns; a stop does not wait for what may be interrupted."""

from __future__ import annotations

import anyio
import pytest

from smcp_runtime.actors.kernel.turns import Turns
from smcp_runtime.wire.errors import ConflictError

pytestmark = pytest.mark.anyio


@pytest.mark.spec("R-LIFE-2")
async def test_operations_run_one_at_a_time_in_the_order_they_were_asked_for() -> None:
    turns, seen = Turns(), []

    async def operate(number: int) -> None:
        async with turns.take("work"):
            seen.append(f"{number} begins")
            await anyio.lowlevel.checkpoint()
            seen.append(f"{number} ends")

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(operate, number)
            await anyio.lowlevel.checkpoint()
    assert seen == [f"{number} {what}" for number in range(5) for what in ("begins", "ends")]


@pytest.mark.spec("R-LIFE-5")
async def test_a_stop_interrupts_the_running_operation_and_those_that_wait_before_it() -> None:
    turns = Turns()
    codes: list[str] = []
    began = anyio.Event()

    async def operate() -> None:
        try:
            async with turns.take("start", interruptible=True):
                began.set()
                await anyio.sleep_forever()
        except ConflictError as error:
            codes.append(error.code)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(operate)
        await began.wait()
        with anyio.fail_after(1), turns.cut_in():
            async with turns.take("stop"):
                assert codes == ["interrupted"] * 3


@pytest.mark.spec("R-LIFE-5")
async def test_a_stop_waits_for_an_operation_that_must_not_be_interrupted() -> None:
    turns = Turns()
    seen: list[str] = []
    began = anyio.Event()

    async def leave() -> None:
        async with turns.take("leave"):
            began.set()
            await anyio.sleep(0.02)
            seen.append("left")

    async with anyio.create_task_group() as group:
        group.start_soon(leave)
        await began.wait()
        with turns.cut_in():
            async with turns.take("stop"):
                seen.append("stopped")
    assert seen == ["left", "stopped"]


async def test_after_a_stop_operations_are_possible_again() -> None:
    turns = Turns()
    with turns.cut_in():
        async with turns.take("stop"):
            pass
    async with turns.take("start", interruptible=True):
        await anyio.lowlevel.checkpoint()
