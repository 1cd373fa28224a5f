"""A network that is cut between a hub and a node: both give up, and find each other again once it is healed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import Pulse, ZmqHub, ZmqNode, generate, load_node
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ActorLost
from support.peers import Peers
from support.waiting import until

from ..bus.scripted import Scripted
from ..bus.vocabulary import BusEcho, BusEchoed
from .partition import free_port, network

pytestmark = pytest.mark.anyio

A = Address("a")


@pytest.mark.spec("F-86")
async def test_a_node_cut_off_by_a_relay_is_lost_and_comes_back(
    peers: Peers, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    keys = tmp_path / "keys"
    hub_keys = generate(keys, "hub")
    generate(keys, "far")
    with network(peers, namespace=False) as between:
        port = free_port(between.host)
        async with (
            anyio.create_task_group() as tasks,
            Bus() as near,
            ZmqHub(near, f"tcp://{between.host}:{port}", keys=hub_keys, allow=keys, pulse=Pulse(0.1, 0.6)),
            Bus() as far,
            ZmqNode(far, f"tcp://{between.host}:{await between.way_to(port)}", "far", keys=load_node(keys, "far")),
        ):
            receiver = Scripted(far, "a")
            far.attach(A, receiver)
            tasks.start_soon(receiver.run)
            await until(lambda: near.reaches(A))
            assert await near.ask(A, BusEcho("before")) == BusEchoed("before")
            between.cut()
            with anyio.fail_after(3), pytest.raises(ActorLost) as lost:
                await near.ask(A, BusEcho("during"), timeout=10.0)
            assert lost.value.details["executed"] == "unknown"
            between.heal()
            await until(lambda: near.reaches(A), 10)
            assert await near.ask(A, BusEcho("after")) == BusEchoed("after")
            assert "after" in receiver.texts
            tasks.cancel_scope.cancel()
