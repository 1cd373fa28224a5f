"""A bus across real processes, and what their sudden ends do."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from smcp_runtime.bus import Bus, Observer
from smcp_runtime.bus.zeromq import Pulse, ZmqHub, ZmqNode
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ActorLost, Overloaded
from smcp_runtime.wire.messages.nodes import NodeDown, NodeUp
from support.peers import Peer, Peers
from support.waiting import until

from ..vocabulary import BusEcho, BusEchoed, BusFetch, BusNote, BusSaid
from .test_sessions import Lost

pytestmark = pytest.mark.anyio

WORKER = Path(__file__).parents[1] / "worker.py"
W = Address("w/one")
PULSE = Pulse(every=0.1, lost_after=0.6)


async def start(peers: Peers, *words: str) -> Peer:
    peer = peers.start([sys.executable, WORKER, *words])
    await peer.line("^up$", timeout=20)
    return peer


async def pid_of(bus: Bus, address: Address = W) -> int:
    return int((await bus.ask(address, BusEcho("pid"))).text)


async def test_asks_and_attachments_cross_processes(peers: Peers) -> None:
    async with Bus() as bus, ZmqHub(bus) as hub:
        await start(peers, "node", hub.endpoint, "one")
        await until(lambda: bus.reaches(W))
        assert await bus.ask(W, BusEcho("x")) == BusEchoed("x")
        data = bytes(range(256)) * 40_000
        assert (await bus.ask(W, BusFetch(Attachment(data)))).chunk.data == data


async def test_nodes_of_two_processes_ask_each_other_through_the_hub(peers: Peers) -> None:
    async with Bus() as main, ZmqHub(main) as hub, Bus() as ours:
        await start(peers, "node", hub.endpoint, "one")
        async with ZmqNode(ours, hub.endpoint, "here"):
            await until(lambda: ours.reaches(W))
            assert await ours.ask(W, BusEcho("x")) == BusEchoed("x")


@pytest.mark.spec("F-86")
async def test_f86_the_first_fact_of_a_fresh_process_is_seen(peers: Peers) -> None:
    async with Bus() as bus, ZmqHub(bus) as hub:
        with Observer(bus, BusSaid) as observer:
            for number in range(3):
                peer = await start(peers, "node", hub.endpoint, f"p{number}", "publish")
                with anyio.fail_after(5):
                    said = await anext(observer)
                assert said == BusSaid(await pid_of(bus, Address(f"w/p{number}")))
                peer.kill()


async def test_a_killed_worker_takes_its_addresses_along_and_its_asks_end_at_once(peers: Peers) -> None:
    async with Bus() as bus, ZmqHub(bus, window=2) as hub, anyio.create_task_group() as tasks:
        with Observer(bus, NodeDown) as downs:
            peer = await start(peers, "node", hub.endpoint, "one")
            await until(lambda: bus.reaches(W))
            pid = await pid_of(bus)
            executed: list[str] = []

            async def ask() -> None:
                with pytest.raises(ActorLost) as caught:
                    await bus.ask(W, BusEcho("hang"), timeout=60)
                executed.append(caught.value.details["executed"])

            for _ in range(5):
                tasks.start_soon(ask)
            await until(lambda: hub.nodes()[0].waiting == 3)
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            await until(lambda: len(executed) == 5)
            # Far below the five seconds of silence: the broken connection is noticed.
            assert time.monotonic() - began < 1.0
            assert sorted(executed) == ["no", "no", "no", "unknown", "unknown"]
            assert await anext(downs) == NodeDown("one", "disconnected", ("w/one",))
            with pytest.raises(ActorLost, match="one") as caught:
                await bus.ask(W, BusEcho())
            assert caught.value.details["executed"] == "no"
            peer.kill()


async def test_a_worker_that_takes_the_place_of_a_killed_one_is_welcome_at_once(peers: Peers) -> None:
    async with Bus() as bus, ZmqHub(bus) as hub:
        first = await start(peers, "node", hub.endpoint, "one")
        await until(lambda: bus.reaches(W))
        old = await pid_of(bus)
        first.kill()
        await start(peers, "node", hub.endpoint, "one")
        await until(lambda: bus.reaches(W))
        assert await pid_of(bus) != old


async def test_a_stopped_worker_is_lost_and_does_not_execute_what_was_given_up_when_it_wakes(peers: Peers) -> None:
    async with Bus() as bus, ZmqHub(bus, pulse=PULSE) as hub, anyio.create_task_group() as tasks:
        with Observer(bus, NodeUp, NodeDown) as changes:
            await start(peers, "node", hub.endpoint, "one")
            with anyio.fail_after(5):
                assert isinstance(await anext(changes), NodeUp)
            pid = await pid_of(bus)
            os.kill(pid, signal.SIGSTOP)
            try:
                lost = Lost(tasks, bus, W, "stale", within=PULSE.lost_after + 1.0)
                assert await lost.details() == {"executed": "unknown"}
                assert isinstance(await anext(changes), NodeDown)
            finally:
                os.kill(pid, signal.SIGCONT)
            with anyio.fail_after(10):
                assert isinstance(await anext(changes), NodeUp)
            assert (await bus.ask(W, BusEcho("texts"))).text == "pid texts"


async def test_a_hub_process_that_dies_ends_the_asks_of_its_nodes_and_its_successor_gets_them_back(
    peers: Peers, private: Path
) -> None:
    endpoint = f"ipc://{private}/bus"
    hub_address = Address("h")
    async with Bus() as bus, anyio.create_task_group() as tasks:
        first = await start(peers, "hub", endpoint)
        async with ZmqNode(bus, endpoint, "one", unreachable=Backoff(initial=0.05, longest=0.1)):
            await until(lambda: bus.reaches(hub_address))
            lost = Lost(tasks, bus, hub_address, "hang")
            await until(lambda: lost.sent)
            first.kill()
            assert await lost.details() == {"executed": "unknown"}
            await start(peers, "hub", endpoint)
            await until(lambda: bus.reaches(hub_address))
            assert await bus.ask(hub_address, BusEcho("x")) == BusEchoed("x")


@pytest.mark.timeout(120)
@pytest.mark.spec("F-84")
async def test_f84_fifty_thousand_messages_to_a_paused_consumer_in_another_process_add_up(peers: Peers) -> None:
    sent, delivered, refused = 50_000, 0, 0
    async with Bus() as bus, ZmqHub(bus) as hub, anyio.create_task_group() as tasks:
        await start(peers, "node", hub.endpoint, "one", "paused")
        await until(lambda: bus.reaches(Address("gate/one")))

        async def tell(number: int) -> None:
            nonlocal delivered, refused
            try:
                await bus.tell(W, BusNote(number, bytes(200)), timeout=60)
                delivered += 1
            except Overloaded:
                refused += 1

        for number in range(sent):
            tasks.start_soon(tell, number)
            if number % 200 == 0:
                await checkpoint()
        # A mailbox of 1,024 has accepted its fill, 1,024 more are out, 4,096 wait here.
        await until(lambda: delivered == 1_024 and refused >= sent - 1_024 - 1_024 - 4_096 - 4_096, 30)
        await bus.ask(Address("gate/one"), BusEcho())
        await until(lambda: delivered + refused == sent, 30)
        handled = int((await bus.ask(W, BusEcho("count"))).text)
        assert handled == delivered
