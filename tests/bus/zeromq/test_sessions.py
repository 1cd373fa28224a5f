"""Hub and nodes on real sockets, in one process: greeting, coming, going, and what either does to asks and facts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from smcp_runtime.bus import Bus, Observer
from smcp_runtime.bus.zeromq import Pulse, ZmqHub, ZmqNode
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ActorLost, NetworkError, NodeRefused, Undeliverable
from smcp_runtime.wire.messages.nodes import NodeDown, NodeUp
from support.waiting import until

from ..scripted import Scripted
from ..vocabulary import BusEcho, BusEchoed, BusSaid

pytestmark = pytest.mark.anyio

A = Address("a")
SOON = Backoff(initial=0.01, longest=0.05)


@asynccontextmanager
async def serving(bus: Bus, address: str = "a", **settings: int) -> AsyncIterator[Scripted]:
    """A receiver on a bus."""
    receiver = Scripted(bus, address, **settings)
    bus.attach(receiver.address, receiver)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receiver.run)
        yield receiver
        tasks.cancel_scope.cancel()


class Held:
    """A context that is open until `release`, in a task of its own, so that it may end before what was opened later."""

    def __init__(self, tasks: TaskGroup, context: AbstractAsyncContextManager[Any]) -> None:
        self._context = context
        self._release, self._released = anyio.Event(), anyio.Event()
        self._opened = anyio.Event()
        tasks.start_soon(self._hold)

    async def opened(self) -> None:
        with anyio.fail_after(5):
            await self._opened.wait()

    async def release(self) -> None:
        self._release.set()
        with anyio.fail_after(5):
            await self._released.wait()

    async def _hold(self) -> None:
        async with self._context:
            self._opened.set()
            await self._release.wait()
        self._released.set()


class TestGreeting:
    async def test_a_node_is_usable_as_soon_as_it_is_entered(self) -> None:
        async with (
            Bus() as main,
            Bus() as worker,
            serving(worker),
            ZmqHub(main) as hub,
            ZmqNode(worker, hub.endpoint, "w"),
        ):
            assert await main.ask(A, BusEcho("x")) == BusEchoed("x")

    async def test_another_schema_is_refused_with_a_clear_error(self) -> None:
        async with Bus() as main, Bus() as worker, ZmqHub(main) as hub:
            with pytest.raises(NodeRefused, match="run one release on both") as caught, anyio.fail_after(5):
                async with ZmqNode(worker, hub.endpoint, "w", schema="0123456789abcdef"):
                    pass
            assert caught.value.code == "schema"
            assert hub.nodes() == ()
            assert hub.notices.counts["schema"] == 1

    async def test_a_name_is_taken_while_its_node_lives(self) -> None:
        async with Bus() as main, Bus() as one, Bus() as two, ZmqHub(main) as hub:
            async with ZmqNode(one, hub.endpoint, "w"):
                with pytest.raises(NodeRefused) as caught:
                    async with ZmqNode(two, hub.endpoint, "w", connect_timeout=0.3):
                        pass
                assert caught.value.code == "name_taken"
            async with ZmqNode(two, hub.endpoint, "w"):
                assert [node.name for node in hub.nodes()] == ["w"]

    async def test_an_absent_hub_ends_the_wait_with_a_network_error(self, private: Path) -> None:
        async with Bus() as worker:
            began = time.monotonic()
            with pytest.raises(NetworkError, match="no bus answers"):
                async with ZmqNode(worker, f"ipc://{private}/bus", "w", connect_timeout=0.3):
                    pass
            assert time.monotonic() - began < 1.5
            assert worker.gateway is None

    async def test_a_node_waits_for_a_hub_that_comes_later(self, private: Path) -> None:
        endpoint = f"ipc://{private}/bus"
        async with Bus() as main, Bus() as worker, anyio.create_task_group() as tasks:
            up = anyio.Event()

            async def work() -> None:
                async with ZmqNode(worker, endpoint, "w", unreachable=SOON):
                    up.set()

            tasks.start_soon(work)
            await anyio.sleep(0.05)
            async with ZmqHub(main, endpoint):
                with anyio.fail_after(5):
                    await up.wait()

    async def test_a_bus_has_one_connection(self) -> None:
        async with Bus() as main, ZmqHub(main) as hub:
            with pytest.raises(ValueError, match="already"):
                async with ZmqHub(main):
                    pass
            with pytest.raises(ValueError, match="already"):
                async with ZmqNode(main, hub.endpoint, "w"):
                    pass

    async def test_addresses_and_subscriptions_made_before_and_after_the_greeting_are_all_known(self) -> None:
        async with Bus() as main, Bus() as worker, ZmqHub(main) as hub, serving(worker, "before"):
            with Observer(worker, BusSaid) as early:
                async with ZmqNode(worker, hub.endpoint, "w"):
                    assert main.reaches(Address("before"))
                    async with serving(worker, "after"), serving(main, "main/after"):
                        await until(lambda: main.reaches(Address("after")))
                        await until(lambda: worker.reaches(Address("main/after")))
                    main.publish(BusSaid(1))
                    assert await anext(early) == BusSaid(1)

    @pytest.mark.spec("F-86")
    async def test_f86_what_a_node_publishes_first_is_seen_two_hundred_times(self) -> None:
        async with Bus() as main, ZmqHub(main) as hub:
            with Observer(main, BusSaid) as observer:
                for number in range(200):
                    async with Bus() as worker, ZmqNode(worker, hub.endpoint, f"w{number}"):
                        worker.publish(BusSaid(number))
                seen = [await anext(observer) for _ in range(200)]
        assert seen == [BusSaid(number) for number in range(200)]

    @pytest.mark.spec("F-86")
    async def test_f86_what_the_hub_publishes_first_reaches_a_node_that_has_just_come(self) -> None:
        async with Bus() as main, ZmqHub(main) as hub, anyio.create_task_group() as tasks:

            async def greet() -> None:
                with Observer(main, NodeUp) as comings:
                    async for number in comings:
                        main.publish(BusSaid(int(number.node[1:])))  # type: ignore[attr-defined]

            tasks.start_soon(greet)
            await until(lambda: main.subjects() == ("NodeUp",))
            for number in range(50):
                async with Bus() as worker:
                    with Observer(worker, BusSaid) as observer:
                        async with ZmqNode(worker, hub.endpoint, f"w{number}"):
                            assert await anext(observer) == BusSaid(number)
            tasks.cancel_scope.cancel()


class Lost:
    """An ask that ends as lost within so many seconds from when it is looked at."""

    def __init__(self, tasks: TaskGroup, bus: Bus, target: Address = A, text: str = "", *, within: float = 1.0) -> None:
        self.sent = False
        self._errors: list[ActorLost] = []
        self._bus, self._target, self._text, self._within = bus, target, text, within
        tasks.start_soon(self._ask)

    async def _ask(self) -> None:
        self.sent = True
        with pytest.raises(ActorLost) as caught:
            await self._bus.ask(self._target, BusEcho(self._text), timeout=30)
        self._errors.append(caught.value)

    async def details(self) -> dict[str, Any]:
        """Of the error."""
        await until(lambda: self._errors, self._within)
        return self._errors[0].details


class TestComingAndGoing:
    async def test_both_sides_announce_each_other(self) -> None:
        async with Bus() as main, Bus() as worker, serving(worker), ZmqHub(main) as hub:
            with Observer(main, NodeUp, NodeDown) as here, Observer(worker, NodeUp, NodeDown) as there:
                async with ZmqNode(worker, hub.endpoint, "w"):
                    assert await anext(here) == NodeUp("w", ("a",))
                    # What the node says of its hub stays at the node; what the hub says of nodes goes round.
                    assert {await anext(there), await anext(there)} == {NodeUp("hub"), NodeUp("w", ("a",))}
                assert await anext(here) == NodeDown("w", "left", ("a",))
                assert isinstance(await anext(there), NodeDown)

    async def test_asks_in_work_at_a_node_that_leaves_end_at_once_and_its_addresses_are_gone(self) -> None:
        async with Bus() as main, Bus() as worker, serving(worker) as receiver, ZmqHub(main) as hub:
            receiver.pause()
            async with anyio.create_task_group() as tasks:
                node = Held(tasks, ZmqNode(worker, hub.endpoint, "w"))
                await node.opened()
                lost = Lost(tasks, main)
                await until(lambda: len(receiver.mailbox) == 1)
                await node.release()
                assert await lost.details() == {"executed": "unknown"}
            with pytest.raises(Undeliverable):
                await main.ask(A, BusEcho())
            assert len(receiver.mailbox) == 0

    async def test_a_hub_that_closes_ends_the_asks_of_its_nodes(self) -> None:
        async with Bus() as main, Bus() as worker, serving(main) as receiver, anyio.create_task_group() as tasks:
            receiver.pause()
            hub = ZmqHub(main)
            held = Held(tasks, hub)
            await held.opened()
            async with ZmqNode(worker, hub.endpoint, "w"):
                lost = Lost(tasks, worker)
                await until(lambda: len(receiver.mailbox) == 1)
                await held.release()
                assert await lost.details() == {"executed": "unknown"}
                with pytest.raises(ActorLost, match="hub") as caught:
                    await worker.ask(A, BusEcho())
                assert caught.value.details["executed"] == "no"

    async def test_a_node_comes_back_when_its_hub_does_with_all_it_had(self, private: Path) -> None:
        endpoint = f"ipc://{private}/bus"
        async with Bus() as one, Bus() as two, Bus() as worker, serving(worker), anyio.create_task_group() as tasks:
            with Observer(worker, BusSaid) as observer:
                first = Held(tasks, ZmqHub(one, endpoint))
                await first.opened()
                async with ZmqNode(worker, endpoint, "w", unreachable=SOON) as node:
                    assert await one.ask(A, BusEcho("1")) == BusEchoed("1")
                    await first.release()
                    async with ZmqHub(two, endpoint), serving(two, "new"):
                        await until(lambda: two.reaches(A))
                        assert await two.ask(A, BusEcho("2")) == BusEchoed("2")
                        two.publish(BusSaid(2))
                        assert await anext(observer) == BusSaid(2)
                        await until(lambda: worker.reaches(Address("new")))
                        assert node.state == "up"

    async def test_the_first_owner_of_an_address_keeps_it(self) -> None:
        async with (
            Bus() as main,
            Bus() as one,
            Bus() as two,
            ZmqHub(main) as hub,
            serving(one) as first,
            serving(two) as second,
            ZmqNode(one, hub.endpoint, "one"),
            ZmqNode(two, hub.endpoint, "two"),
        ):
            await main.ask(A, BusEcho("x"))
            assert (first.texts, second.texts) == (["x"], [])
            assert hub.notices.counts["address"] == 1

    async def test_an_address_of_the_hub_itself_is_not_given_away(self) -> None:
        async with (
            Bus() as main,
            Bus() as worker,
            ZmqHub(main) as hub,
            serving(main) as own,
            serving(worker),
            ZmqNode(worker, hub.endpoint, "w"),
        ):
            await main.ask(A, BusEcho("x"))
            assert own.texts == ["x"]
            assert hub.nodes()[0].addresses == ()

    async def test_the_hub_shows_its_nodes(self) -> None:
        async with Bus() as main, Bus() as worker, serving(worker) as receiver, ZmqHub(main, window=5) as hub:
            receiver.pause()
            async with ZmqNode(worker, hub.endpoint, "w"), anyio.create_task_group() as tasks:
                for _ in range(7):
                    tasks.start_soon(main.ask, A, BusEcho())
                await until(lambda: len(receiver.mailbox) == 5)
                (status,) = hub.nodes()
                assert (status.name, status.addresses, status.credits) == ("w", (A,), {A: 0})
                assert (status.in_flight, status.waiting) == (5, 2)
                assert 0 <= status.silent < 2
                receiver.resume()

    async def test_a_message_is_not_sent_back_to_the_node_it_came_from(self) -> None:
        async with (
            Bus() as main,
            Bus() as worker,
            serving(worker),
            ZmqHub(main) as hub,
            ZmqNode(worker, hub.endpoint, "w"),
        ):
            worker.detach(A)
            # Neither bus has it now; a message that bounced would end at its deadline only.
            with pytest.raises(Undeliverable), anyio.fail_after(2):
                await worker.ask(A, BusEcho(), timeout=30)


class TestSilence:
    async def test_a_hub_that_greets_and_falls_silent_is_given_up(self) -> None:
        pulse = Pulse(every=0.1, lost_after=0.6)
        async with (
            Bus() as main,
            Bus() as worker,
            serving(main),
            ZmqHub(main, pulse=pulse) as hub,
            ZmqNode(worker, hub.endpoint, "w", unreachable=SOON) as node,
        ):
            assert worker.reaches(A)
            mute(hub)
            with Observer(worker, NodeDown) as downs:
                with anyio.fail_after(5):
                    down = await anext(downs)
                assert isinstance(down, NodeDown)
                assert "silent" in down.reason
            assert node.state == "connecting"
            assert not worker.reaches(A)

    async def test_a_node_that_falls_silent_is_lost_with_all_it_had(self) -> None:
        pulse = Pulse(every=0.1, lost_after=0.6)
        async with Bus() as main, Bus() as worker, serving(worker) as receiver, ZmqHub(main, pulse=pulse) as hub:
            receiver.pause()
            async with ZmqNode(worker, hub.endpoint, "w", unreachable=SOON) as node:
                mute(node)
                began = time.monotonic()
                with pytest.raises(ActorLost, match="silent") as caught, anyio.fail_after(5):
                    await main.ask(A, BusEcho(), timeout=30)
                assert caught.value.details["executed"] == "unknown"
                assert time.monotonic() - began < 1.5

    async def test_a_quiet_connection_stays_up_on_beats_alone(self) -> None:
        pulse = Pulse(every=0.1, lost_after=0.6)
        async with Bus() as main, Bus() as worker, ZmqHub(main, pulse=pulse) as hub:
            with Observer(main, NodeDown) as here, Observer(worker, NodeDown) as there:
                async with ZmqNode(worker, hub.endpoint, "w"):
                    with anyio.move_on_after(1.2):
                        await anext(here)
                    with anyio.move_on_after(0.1):
                        await anext(there)
                    assert [status.name for status in hub.nodes()] == ["w"]


def mute(end: Any) -> None:
    """Lets an end send nothing more, as if a cable had been pulled."""
    end._socket.send = lambda _message: True
