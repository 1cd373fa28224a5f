"""A socket pair as a connection of the hub: whole messages in any pieces, the end of either side, who may use it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import anyio
import msgspec
import pytest

from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import ZmqHub, ZmqNode
from smcp_runtime.bus.zeromq.pair import MESSAGE_MAX, READ, PairSocket
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import NodeRefused
from support.waiting import until

from ..scripted import Scripted
from ..vocabulary import BusEcho, BusEchoed

pytestmark = pytest.mark.anyio
A = Address("a")


def written(frames: list[bytes]) -> bytes:
    message = msgspec.msgpack.encode(frames)
    return struct.pack(">Q", len(message)) + message


class End:
    """One end, and what it heard."""

    def __init__(self, sock: socket.socket) -> None:
        self.heard: list[list[bytes]] = []
        self.is_over = False
        self.pair = PairSocket(sock, lambda frames, user: self.heard.append(frames), self._over)

    def _over(self) -> None:
        self.is_over = True


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


async def test_messages_of_any_size_arrive_whole_and_in_order(ends: tuple[socket.socket, socket.socket]) -> None:
    left, right = End(ends[0]), End(ends[1])
    messages = [
        [b"h"],
        [b"head", b"", b"x" * 3_000_000, b"tail"],
        [b"%d" % n for n in range(2000)],
        [b"last", b"y" * READ],
    ]
    for message in messages:
        assert left.pair.send(message)
    assert right.pair.send([b"the other way"])
    with anyio.fail_after(5):
        await until(lambda: right.heard == messages)
        await until(lambda: left.heard == [[b"the other way"]])
    left.pair.close()
    await until(lambda: right.is_over)
    assert not right.pair.send([b"nobody there"])


async def test_a_message_may_come_in_single_bytes(ends: tuple[socket.socket, socket.socket]) -> None:
    end = End(ends[0])
    for byte in written([b"a", b"", b"bc"]) + written([b"d"]):
        ends[1].send(bytes([byte]))
        await anyio.lowlevel.checkpoint()
    await until(lambda: end.heard == [[b"a", b"", b"bc"], [b"d"]])
    end.pair.close()


@pytest.mark.parametrize(
    "rubbish",
    [
        struct.pack(">Q", 0),
        struct.pack(">Q", MESSAGE_MAX + 1),
        struct.pack(">Q", 3) + b"abc",
        struct.pack(">Q", 2) + msgspec.msgpack.encode([1]),
    ],
)
async def test_what_is_no_message_ends_the_connection(
    ends: tuple[socket.socket, socket.socket], rubbish: bytes
) -> None:
    end = End(ends[0])
    ends[1].send(rubbish)
    await until(lambda: end.is_over)
    assert end.heard == []


async def test_a_receiver_that_fails_at_one_message_gets_the_next(ends: tuple[socket.socket, socket.socket]) -> None:
    heard: list[bytes] = []

    def receive(frames: list[bytes], _user: str) -> None:
        heard.append(frames[0])
        if frames[0] == b"bad":
            raise RuntimeError("this one")

    pair = PairSocket(ends[0], receive, lambda: None)
    failures: list[object] = []
    pair._loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    for word in (b"bad", b"good"):
        ends[1].send(written([word]))
    await until(lambda: heard == [b"bad", b"good"])
    assert len(failures) == 1
    pair.close()


async def test_an_adopted_child_is_a_node_and_the_end_of_either_side_is_known_at_once() -> None:
    async with Bus() as main, ZmqHub(main, listens=False) as hub:
        ours, theirs = socket.socketpair()
        hub.adopt(ours, "child")
        async with Bus() as worker, anyio.create_task_group() as tasks:
            receiver = Scripted(worker, "a")
            worker.attach(receiver.address, receiver)
            tasks.start_soon(receiver.run)
            async with ZmqNode(worker, "", "child", pair=theirs) as node:
                await until(lambda: main.reaches(A))
                assert await main.ask(A, BusEcho("hello")) == BusEchoed("hello")
                hub.dismiss("child", "enough")
                await until(lambda: node.state == "refused")
                assert not main.reaches(A)
                with pytest.raises(NodeRefused):
                    await node.until_stopped()
            tasks.cancel_scope.cancel()
        assert hub.nodes() == ()


async def test_a_child_that_gives_another_name_than_its_own_is_refused() -> None:
    async with Bus() as main, ZmqHub(main, listens=False) as hub, Bus() as worker:
        ours, theirs = socket.socketpair()
        hub.adopt(ours, "child")
        with pytest.raises(NodeRefused) as refused:
            async with ZmqNode(worker, "", "another", pair=theirs):
                pass
        assert refused.value.code == "name"


async def test_nobody_else_comes_in_under_the_name_of_a_child() -> None:
    async with Bus() as main, ZmqHub(main) as hub, Bus() as stranger:
        ours, theirs = socket.socketpair()
        hub.adopt(ours, "child")
        with pytest.raises(NodeRefused) as refused:
            async with ZmqNode(stranger, hub.endpoint, "child"):
                pass
        assert refused.value.code == "name"
        theirs.close()
