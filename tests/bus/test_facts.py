"""What every bus promises, on every transport: facts and observers."""

from __future__ import annotations

import pytest

from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.message import Fact
from support.waiting import until

from .conftest import OpenWorld
from .vocabulary import BusEcho, BusElse, BusSaid

pytestmark = pytest.mark.anyio


async def observed(publisher: Bus, kind: type[Fact] = BusSaid) -> None:
    """Waits until a publisher knows that somebody elsewhere wants these facts."""
    await until(lambda: publisher.gateway is None or publisher.gateway.wants(kind.subject()))


async def take(observer: Observer, count: int) -> list[Fact]:
    return [await anext(observer) for _ in range(count)]


class TestFacts:
    async def test_facts_reach_an_observer_in_order(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            with Observer(world.far, BusSaid) as observer:
                await observed(world.near)
                for number in range(100):
                    world.near.publish(BusSaid(number))
                assert await take(observer, 100) == [BusSaid(number) for number in range(100)]

    async def test_facts_reach_observers_at_every_end(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            with Observer(world.far, BusSaid) as far, Observer(world.near, BusSaid) as near:
                await observed(world.near)
                world.near.publish(BusSaid(1))
                assert await take(far, 1) == await take(near, 1) == [BusSaid(1)]

    async def test_a_fact_comes_back_to_its_publisher_only_once(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            with Observer(world.far, BusSaid), Observer(world.near, BusSaid) as near:
                await observed(world.near)
                for number in (1, 2):
                    world.near.publish(BusSaid(number))
                    receiver = await world.serve(f"fence{number}")
                    # The answer comes after whatever the far end may have sent back.
                    await world.near.ask(receiver.address, BusEcho())
                assert await take(near, 2) == [BusSaid(1), BusSaid(2)]

    async def test_facts_of_other_types_do_not_reach_an_observer(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            with Observer(world.far, BusSaid) as said, Observer(world.far, BusElse) as other:
                await observed(world.near)
                world.near.publish(BusSaid(1))
                await take(said, 1)
                await observed(world.near, BusElse)
                world.near.publish(BusElse(2))
                assert await take(other, 1) == [BusElse(2)]

    async def test_a_closed_observer_gets_nothing_more(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            observer = Observer(world.far, BusSaid)
            await observed(world.near)
            observer.close()
            await until(lambda: world.near.gateway is None or not world.near.gateway.wants("BusSaid"))
            world.near.publish(BusSaid(1))
            assert [fact async for fact in observer] == []

    async def test_an_observer_ends_with_its_bus(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            observer = Observer(world.far, BusSaid)
            world.far.close()
            assert [fact async for fact in observer] == []


class TestSlowObservers:
    async def test_facts_with_one_key_replace_each_other_and_the_last_one_wins(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            with Observer(world.far, BusSaid) as observer:
                await observed(world.near)
                for number in range(5000):
                    world.near.publish(BusSaid(number, topic="weather"))
                world.near.publish(BusSaid(-1, topic="last"))
                seen: list[Fact] = []
                while BusSaid(-1, "last") not in seen:
                    seen += await take(observer, 1)
                assert seen[-2] == BusSaid(4999, "weather")
                assert len(seen) + sum(meter.coalesced for meter in world.meters) == 5001
                assert sum(meter.dropped for meter in world.meters) == 0

    async def test_a_publisher_never_waits_and_what_is_lost_is_counted(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            with Observer(world.far, BusSaid, capacity=10) as observer:
                await observed(world.near)
                for number in range(20_000):
                    world.near.publish(BusSaid(number))
                got: list[int] = []

                async def read() -> None:
                    async for fact in observer:
                        assert isinstance(fact, BusSaid)
                        got.append(fact.number)

                world.tasks.start_soon(read)
                await until(lambda: len(got) + sum(meter.dropped for meter in world.meters) == 20_000)
                assert got == sorted(got)
                assert len(got) < 10_000
