"""Payloads for polling: what an official Server accepts, in order, bounded."""

from __future__ import annotations

import anyio
import pytest

from smcp_runtime.bus.link.outbox import Outbox

pytestmark = pytest.mark.anyio


@pytest.mark.spec("DEC-17", "F-76")
async def test_a_payload_holds_at_most_sixteen_packets() -> None:
    box = Outbox(payload_max=1000)
    for number in range(20):
        assert await box.put(b"%d" % number)
    first = await box.payload()
    box.sent()
    assert first.split(b"\x1e") == [b"%d" % number for number in range(16)]
    assert (await box.payload()).split(b"\x1e") == [b"16", b"17", b"18", b"19"]


@pytest.mark.spec("W-GEN-7")
async def test_a_payload_stays_within_what_the_server_takes() -> None:
    box = Outbox(payload_max=10)
    for packet in (b"aaaa", b"bbbb", b"cccc"):
        await box.put(packet)
    assert await box.payload() == b"aaaa\x1ebbbb"
    assert await box.payload() == b"cccc"


async def test_a_packet_above_the_payload_size_still_goes_alone() -> None:
    box = Outbox(payload_max=3)
    await box.put(b"aaaaaa")
    await box.put(b"b")
    assert await box.payload() == b"aaaaaa"
    assert await box.payload() == b"b"


async def test_a_full_box_makes_the_sender_wait_until_there_is_room() -> None:
    box = Outbox(payload_max=100, capacity=1)
    await box.put(b"a")
    with anyio.move_on_after(0.02) as waited:
        await box.put(b"b")
    assert waited.cancelled_caught
    assert await box.payload() == b"a"
    box.sent()
    assert await box.put(b"b")


async def test_flushed_waits_for_what_is_on_its_way() -> None:
    box = Outbox(payload_max=100)
    await box.put(b"a")
    await box.payload()
    with anyio.move_on_after(0.02) as waited:
        await box.flushed()
    assert waited.cancelled_caught
    box.sent()
    with anyio.fail_after(1):
        await box.flushed()


async def test_closing_lets_everybody_go_and_takes_nothing_more() -> None:
    box = Outbox(payload_max=100, capacity=1)
    await box.put(b"a")
    outcomes: list[bool] = []

    async def put() -> None:
        outcomes.append(await box.put(b"b"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(put)
        tasks.start_soon(box.flushed)
        await anyio.wait_all_tasks_blocked()
        box.close()
    assert outcomes == [False]
    assert await box.put(b"c") is False
