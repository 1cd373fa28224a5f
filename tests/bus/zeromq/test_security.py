"""Who may take part over TCP, and what happens to the others: they get nothing, and both sides are told."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import zmq

from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import KeyPair, NodeKeys, ZmqHub, ZmqNode, generate, load, load_node
from smcp_runtime.bus.zeromq.attempts import REFUSALS
from smcp_runtime.bus.zeromq.frames import Hello, encode_header
from smcp_runtime.bus.zeromq.hello import PROTOCOL, contract
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ActorLost, ConflictError, NodeRefused, PolicyError, Undeliverable
from support.waiting import until

from ..vocabulary import BusEcho, BusEchoed
from .test_sessions import serving

pytestmark = pytest.mark.anyio

A = Address("a")
LOCAL = "tcp://127.0.0.1:*"
SOON = Backoff(initial=0.01, longest=0.02)


class Ring:
    """Keys of a hub and two workers; `worker` is on the allow-list, `stranger` is not."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "keys"
        self.allow = directory / "allow"
        self.allow.mkdir()
        for name in ("hub", "worker", "stranger"):
            generate(self.directory, name)
        self.admit("worker")

    def admit(self, name: str) -> None:
        shutil.copy(self.directory / f"{name}.public", self.allow)

    @property
    def hub(self) -> KeyPair:
        return load(self.directory, "hub")

    def of(self, name: str) -> NodeKeys:
        return load_node(self.directory, name)


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    return Ring(tmp_path)


@asynccontextmanager
async def guarded(ring: Ring, endpoint: str = LOCAL) -> AsyncIterator[tuple[Bus, ZmqHub]]:
    """A hub that only takes in who is on the list."""
    async with Bus() as bus, ZmqHub(bus, endpoint, keys=ring.hub, allow=ring.allow) as hub:
        yield bus, hub


class TestAdmission:
    async def test_a_node_on_the_list_takes_part_over_tcp(self, ring: Ring) -> None:
        async with (
            guarded(ring) as (main, hub),
            Bus() as bus,
            serving(bus),
            ZmqNode(bus, hub.endpoint, "worker", keys=ring.of("worker")),
        ):
            assert await main.ask(A, BusEcho("x")) == BusEchoed("x")

    async def test_keys_guard_a_unix_socket_too(self, ring: Ring, private: Path) -> None:
        async with guarded(ring, f"ipc://{private}/bus") as (main, hub), Bus() as bus, serving(bus):
            async with ZmqNode(bus, hub.endpoint, "worker", keys=ring.of("worker")):
                assert await main.ask(A, BusEcho("x")) == BusEchoed("x")
            with pytest.raises(NodeRefused):
                async with ZmqNode(bus, hub.endpoint, "worker"):
                    pass

    async def test_who_is_put_on_the_list_later_comes_in_without_a_restart(self, ring: Ring) -> None:
        async with guarded(ring) as (_, hub), Bus() as bus:
            with pytest.raises(NodeRefused):
                async with ZmqNode(bus, hub.endpoint, "stranger", keys=ring.of("stranger")):
                    pass
            ring.admit("stranger")
            async with ZmqNode(bus, hub.endpoint, "stranger", keys=ring.of("stranger")):
                assert [node.name for node in hub.nodes()] == ["stranger"]

    async def test_a_key_does_not_allow_the_name_of_another(self, ring: Ring) -> None:
        ring.admit("stranger")
        async with guarded(ring) as (_, hub), Bus() as bus:
            with pytest.raises(NodeRefused, match="does not allow the name worker") as caught:
                async with ZmqNode(bus, hub.endpoint, "worker", keys=ring.of("stranger")):
                    pass
            assert caught.value.code == "name"
            assert hub.nodes() == ()

    async def test_a_hub_does_not_open_tcp_without_keys(self) -> None:
        async with Bus() as bus:
            with pytest.raises(PolicyError):
                async with ZmqHub(bus, LOCAL):
                    pass
            assert bus.gateway is None

    async def test_a_port_that_is_taken_is_a_conflict_and_leaves_nothing_open(self, ring: Ring) -> None:
        async with guarded(ring) as (_, hub), Bus() as bus:
            with pytest.raises(ConflictError, match="cannot listen"):
                async with ZmqHub(bus, hub.endpoint, keys=ring.hub, allow=ring.allow):
                    pass
            assert bus.gateway is None


class TestRefusal:
    @pytest.mark.spec("F-92")
    async def test_f92_a_refused_key_is_shown_within_two_seconds_on_both_sides(
        self, ring: Ring, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with guarded(ring) as (_, hub), Bus() as bus, serving(bus):
            began = time.monotonic()
            with pytest.raises(NodeRefused, match="refuses the key") as caught:
                async with ZmqNode(bus, hub.endpoint, "stranger", keys=ring.of("stranger")):
                    pass
            assert time.monotonic() - began < 2.0
            assert caught.value.code == "key"
            assert hub.nodes() == ()
            assert hub.notices.counts["key"] == 1
        refusals = [record for record in caplog.records if "key that is not allowed" in record.getMessage()]
        assert [record.levelno for record in refusals] == [logging.WARNING]

    @pytest.mark.spec("F-92")
    async def test_f92_a_hub_with_another_key_than_expected_is_not_trusted(self, ring: Ring) -> None:
        expected = NodeKeys(ring.of("worker").own, ring.of("stranger").own.public)
        async with guarded(ring) as (_, hub), Bus() as bus, serving(bus):
            with pytest.raises(NodeRefused, match="wrong hub key") as caught, anyio.fail_after(2):
                async with ZmqNode(bus, hub.endpoint, "worker", keys=expected):
                    pass
            assert caught.value.code == "key"
            assert hub.nodes() == ()

    @pytest.mark.spec("F-92")
    async def test_f92_a_node_refused_later_tries_a_few_times_and_then_tells_whoever_waits(
        self, ring: Ring, private: Path
    ) -> None:
        endpoint = f"ipc://{private}/bus"
        async with Bus() as bus, anyio.create_task_group() as tasks:
            outcomes: list[str] = []

            async def work() -> None:
                keys = ring.of("worker")
                async with ZmqNode(bus, endpoint, "worker", keys=keys, unreachable=SOON, refused=SOON) as node:
                    outcomes.append("up")
                    with pytest.raises(NodeRefused, match="refuses the key"):
                        await node.until_stopped()
                    outcomes.append(node.state)
                    # Sending ends with a typed error and never waits.
                    with pytest.raises((ActorLost, Undeliverable)), anyio.fail_after(1):
                        await bus.ask(A, BusEcho())

            async with guarded(ring, endpoint) as (main, _), serving(main):
                tasks.start_soon(work)
                await until(lambda: outcomes == ["up"])
                await until(lambda: bus.reaches(A))
            (ring.allow / "worker.public").unlink()
            async with guarded(ring, endpoint) as (_, hub):
                await until(lambda: outcomes == ["up", "refused"])
                assert hub.notices.counts["key"] == REFUSALS

    async def test_peers_without_keys_get_nothing_and_are_logged_at_a_bounded_rate(
        self, ring: Ring, caplog: pytest.LogCaptureFixture
    ) -> None:
        hello = encode_header(Hello(PROTOCOL, contract(), "worker", ("a",)))
        async with guarded(ring) as (main, hub):
            with zmq.Context() as context:
                sockets = [context.socket(zmq.DEALER) for _ in range(20)]
                for socket in sockets:
                    socket.linger = 0
                    socket.connect(hub.endpoint)
                    socket.send(hello)
                await until(lambda: hub.notices.counts["handshake"] >= 20)
                assert [socket.poll(0) for socket in sockets] == [0] * 20
                context.destroy(linger=0)
            assert hub.nodes() == ()
            assert not main.reaches(A)
        refusals = [record for record in caplog.records if "security handshake" in record.getMessage()]
        assert len(refusals) == 1
