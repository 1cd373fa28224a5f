"""A house is opened in one task, closed in another, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec
from smcp_runtime.actors.kernel.house import House
from smcp_runtime.wire.envelope import Address

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Stubborn(Actor):
    """Does not want to stop."""

    def __init__(self, ended: list[str]) -> None:
        self._ended = ended

    async def stopping(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self._ended.append("stubborn")


async def test_it_can_be_closed_by_another_task_than_the_one_that_opened_it() -> None:
    house = await asyncio.create_task(House.open())
    await house.supervisor.start_child(ChildSpec(Address("a"), Actor))
    await asyncio.create_task(house.close(1.0))
    assert house.gone.is_set()
    assert house.failure is None
    assert house.bus.closed


async def test_an_actor_that_does_not_stop_is_cancelled_after_the_limit() -> None:
    ended: list[str] = []
    house = await House.open()
    await house.supervisor.start_child(ChildSpec(Address("a"), lambda: Stubborn(ended), stop_timeout=30.0))
    with anyio.fail_after(2):
        await house.close(0.05)
    assert ended == ["stubborn"]
    assert house.gone.is_set()


async def test_two_houses_in_one_loop_do_not_share_addresses() -> None:
    first, second = await House.open(), await House.open()
    await first.supervisor.start_child(ChildSpec(Address("a"), Actor))
    assert first.bus.addresses() == ("a",)
    assert second.bus.addresses() == ()
    await first.close(1.0)
    await second.supervisor.start_child(ChildSpec(Address("a"), Actor))
    await second.close(1.0)


async def test_closing_twice_is_fine() -> None:
    house = await House.open()
    await house.close(1.0)
    await house.close(1.0)
