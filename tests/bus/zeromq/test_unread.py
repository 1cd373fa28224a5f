"""A peer that provokes answers and reads none of them is gone before they fill our memory; others notice nothing."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
import zmq

from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import ZmqHub, ZmqNode, frames, pair, transport
from smcp_runtime.bus.zeromq.frames import Hello, encode_header
from smcp_runtime.bus.zeromq.hello import PROTOCOL, contract
from smcp_runtime.wire.envelope import Address, Envelope
from support.waiting import until

from ..vocabulary import BusEcho, BusEchoed
from .test_rubbish import peer, received
from .test_sessions import serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

A = Address("a")
ENOUGH = 20_000
"""Questions whose answers no buffers of the system hold, at a limit of a few messages."""


def questions() -> Iterator[list[bytes]]:
    """Asks for an address nobody has; each is answered with an error that names it."""
    for number in range(1, ENOUGH):
        yield frames.carry(Envelope("ask", BusEcho.subject(), Address("x" * 200), id=number), number, 0.0)


@pytest.fixture(autouse=True)
def low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pair, transport):
        monkeypatch.setattr(module, "UNREAD_MAX", 64)


def names(hub: ZmqHub) -> set[str]:
    return {node.name for node in hub.nodes()}


@pytest.mark.spec("F-84", "DEC-36")
async def test_a_node_that_reads_no_answers_is_gone_and_the_others_stay() -> None:
    async with (
        Bus() as main,
        Bus() as worker,
        serving(worker),
        ZmqHub(main) as hub,
        peer(zmq.DEALER) as rogue,
        ZmqNode(worker, hub.endpoint, "w"),
    ):
        rogue.rcvhwm = 1
        rogue.connect(hub.endpoint)
        rogue.send(encode_header(Hello(PROTOCOL, contract(), "rogue")))
        await received(rogue)
        assert names(hub) == {"w", "rogue"}
        for number, question in enumerate(questions()):
            rogue.send_multipart(question)
            if number % 100 == 0:
                assert await main.ask(A, BusEcho("x")) == BusEchoed("x")
            if "rogue" not in names(hub):
                break
        await until(lambda: names(hub) == {"w"})
        assert await main.ask(A, BusEcho("end")) == BusEchoed("end")


@pytest.mark.spec("F-84", "DEC-36")
async def test_a_child_that_reads_no_answers_is_gone() -> None:
    async with Bus() as main, ZmqHub(main, listens=False) as hub:
        ours, theirs = socket.socketpair()
        with theirs:
            hub.adopt(ours, "child")
            theirs.setblocking(False)
            theirs.send(pair.written([encode_header(Hello(PROTOCOL, contract(), "child"))]))
            await until(lambda: names(hub) == {"child"})
            told = b"".join(map(pair.written, questions()))

            def is_gone() -> bool:
                nonlocal told
                with contextlib.suppress(BlockingIOError, BrokenPipeError):
                    told = told[theirs.send(told) :]
                return not names(hub)

            await until(is_gone)
