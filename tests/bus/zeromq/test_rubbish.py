"""Random frames change nothing: not at a hub, not at a node, whether the sender has greeted or not.

`SMCP_FUZZ_FRAMES=100000` makes it a long run.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
import zmq
from anyio.lowlevel import checkpoint

from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import ZmqHub, ZmqNode, frames
from smcp_runtime.bus.zeromq.frames import Beat, Hello, Welcome, encode_header, unpack
from smcp_runtime.bus.zeromq.hello import PROTOCOL, contract
from smcp_runtime.wire.codec import encode
from smcp_runtime.wire.envelope import Address, Envelope
from support.waiting import until

from ..vocabulary import BusEcho, BusEchoed
from .test_sessions import serving

FRAMES = int(os.environ.get("SMCP_FUZZ_FRAMES", "5000"))
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60 + FRAMES // 200)]

A = Address("a")


def rubbish(seed: int, *, known: bool) -> Iterator[list[bytes]]:
    """Messages of random bytes, of frames with random bytes changed, and (`known`) of well-formed headers with
    random values.
    """
    chance = random.Random(seed)
    samples = [encode_header(Beat()), encode_header(Hello(PROTOCOL, "feed", "x")), b"", b"\x93\x01\x02\x03"]

    def value() -> object:
        return chance.choice(
            [
                chance.randrange(-(2**40), 2**40),
                "a",
                "x" * 300,
                b"\xff",
                None,
                True,
                [],
                ["a", "b"],
                0.5,
                float("nan"),
                {},
            ]
        )

    while True:
        style = chance.randrange(3 if known else 2)
        if style == 0:
            head = chance.randbytes(chance.randrange(40))
        elif style == 1:
            changed = bytearray(chance.choice(samples) or b"\0")
            for _ in range(chance.randrange(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            head = bytes(changed)
        else:
            head = msgspec.msgpack.encode([chance.randrange(1, 14), *(value() for _ in range(chance.randrange(9)))])
        yield [head, *(chance.randbytes(chance.randrange(60)) for _ in range(chance.randrange(4)))]


@asynccontextmanager
async def peer(kind: int) -> AsyncIterator[zmq.Socket[bytes]]:
    """A socket of somebody else."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(kind)
    socket.linger = 0
    socket.sndhwm = 0
    try:
        yield socket
    finally:
        socket.close(linger=0)
        context.term()


async def received(socket: zmq.Socket[bytes]) -> list[bytes]:
    """The next message for that socket."""
    await until(lambda: socket.getsockopt(zmq.EVENTS) & zmq.POLLIN)
    return socket.recv_multipart()


@pytest.mark.parametrize("greeted", [False, True])
async def test_random_frames_at_a_hub_change_nothing(greeted: bool) -> None:
    async with (
        Bus() as main,
        Bus() as worker,
        serving(worker) as receiver,
        ZmqHub(main) as hub,
        peer(zmq.DEALER) as rogue,
        ZmqNode(worker, hub.endpoint, "w"),
    ):
        rogue.connect(hub.endpoint)
        if greeted:
            rogue.send(encode_header(Hello(PROTOCOL, contract(), "rogue")))
            assert isinstance(unpack(await received(rogue))[0], Welcome)
        before = main.addresses(), worker.addresses(), hub.nodes()[0].addresses
        messages = rubbish(1, known=False)
        for number in range(FRAMES):
            rogue.send_multipart(next(messages))
            if number % 100 == 0:
                assert await main.ask(A, BusEcho(str(number))) == BusEchoed(str(number))
        # A malformed frame of our own is counted after everything before it has been.
        counted = hub.notices.counts
        rogue.send(b"\xc1")
        total = counted["malformed"]
        await until(lambda: counted["malformed"] > total or counted.total() >= FRAMES)
        assert await main.ask(A, BusEcho("end")) == BusEchoed("end")
        assert (main.addresses(), worker.addresses(), hub.nodes()[0].addresses) == before
        assert len(receiver.seen) == len(range(0, FRAMES, 100)) + 1
        assert worker.dead_letters.total == 0
        assert counted["malformed"] > FRAMES // 4


async def test_well_formed_nonsense_from_a_greeted_peer_harms_nobody_else() -> None:
    async with (
        Bus() as main,
        Bus() as worker,
        serving(worker) as receiver,
        ZmqHub(main) as hub,
        peer(zmq.DEALER) as rogue,
        ZmqNode(worker, hub.endpoint, "w"),
    ):
        rogue.connect(hub.endpoint)
        rogue.send(encode_header(Hello(PROTOCOL, contract(), "rogue")))
        messages = rubbish(2, known=True)
        for number in range(FRAMES // 2):
            rogue.send_multipart(next(messages))
            if number % 100 == 0:
                assert await main.ask(A, BusEcho(str(number))) == BusEchoed(str(number))
        assert await main.ask(A, BusEcho("end")) == BusEchoed("end")
        assert A in hub.nodes()[0].addresses
        assert receiver.texts[-1] == "end"


async def test_random_frames_at_a_node_change_nothing(private: Path) -> None:
    endpoint = f"ipc://{private}/bus"
    async with Bus() as worker, serving(worker) as receiver, peer(zmq.ROUTER) as rogue:
        rogue.bind(endpoint)
        async with anyio.create_task_group() as tasks:
            up = anyio.Event()
            done = anyio.Event()

            async def work() -> None:
                async with ZmqNode(worker, endpoint, "w") as node:
                    up.set()
                    await done.wait()
                    assert node.state == "up"
                    assert node.notices.counts["malformed"] > FRAMES // 4

            tasks.start_soon(work)
            identity, hello = await received(rogue)
            assert isinstance(unpack([hello])[0], Hello)
            messages = rubbish(3, known=False)
            for _ in range(100):
                rogue.send_multipart([identity, *next(messages)])
            # Rubbish before the welcome is no welcome.
            await checkpoint()
            assert not up.is_set()
            rogue.send_multipart([identity, encode_header(Welcome("hub", ("remote",), (), 1.0, 5.0))])
            with anyio.fail_after(5):
                await up.wait()
            for number in range(FRAMES):
                rogue.send_multipart([identity, *next(messages)])
                if number % 100 == 0:
                    await until(lambda: _drained(rogue))
            question = frames.carry(Envelope("ask", "BusEcho", A, body=encode(BusEcho("end"))[0]), 10**9, 0.0)
            rogue.send_multipart([identity, *question])
            await until(lambda: receiver.texts == ["end"])
            assert worker.addresses() == (A,)
            assert worker.reaches(Address("remote"))
            assert worker.dead_letters.total == 0
            done.set()


def _drained(socket: zmq.Socket[bytes]) -> bool:
    """Throws away what came back."""
    while socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
        socket.recv_multipart()
    return True
