"""Starting and stopping, many times, with peers that do not answer, and on loops that cannot watch descriptors."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
import zmq

from smcp_runtime.bus import Bus, Observer
from smcp_runtime.bus.zeromq import ZmqHub, ZmqNode, transport
from smcp_runtime.bus.zeromq.watch import LoopWatch, ThreadWatch, watch
from smcp_runtime.wire.envelope import Address
from support.waiting import until

from ..scripted import Scripted
from ..vocabulary import BusEcho, BusEchoed, BusNote, BusSaid

A = Address("a")


def in_use() -> tuple[int, int]:
    """Open descriptors and threads of this process."""
    gc.collect()
    return psutil.Process().num_fds(), threading.active_count()


@contextmanager
def deaf_endpoint(directory: Path) -> Iterator[str]:
    """An endpoint that lets connections in and never says a word."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(directory / "deaf"))
        listener.listen(256)
        yield f"ipc://{directory}/deaf"


@pytest.mark.anyio
class TestStopping:
    @pytest.mark.spec("F-89")
    async def test_f89_a_hundred_starts_and_stops_with_a_peer_that_never_answers(self, private: Path) -> None:
        async def start_and_stop() -> None:
            async with Bus() as bus:
                with anyio.CancelScope() as scope:
                    node = ZmqNode(bus, endpoint, "w")
                    asyncio.get_running_loop().call_later(0.005, scope.cancel)
                    async with node:
                        pytest.fail("nobody can have welcomed it")
                # Its greeting was still pending when it stopped, inside the cancelled entry.
                assert node.state == "closed"

        with deaf_endpoint(private) as endpoint:
            await start_and_stop()
            before = in_use()
            for _ in range(100):
                began = time.monotonic()
                await start_and_stop()
                assert time.monotonic() - began < 1.0
            assert in_use() <= before

    @pytest.mark.spec("F-89")
    async def test_f89_a_hundred_hubs_with_messages_pending_for_a_stopped_reader(self) -> None:
        async def start_and_stop() -> None:
            async with Bus() as main, Bus() as worker, ZmqHub(main) as hub, ZmqNode(worker, hub.endpoint, "w"):
                receiver = Scripted(worker, "a")
                worker.attach(A, receiver)
                await until(lambda: main.reaches(A))
                for number in range(50):
                    main.tell_nowait(A, BusNote(number, bytes(1000)))
                began.append(time.monotonic())
            ended.append(time.monotonic())

        began: list[float] = []
        ended: list[float] = []
        await start_and_stop()
        before = in_use()
        for _ in range(100):
            await start_and_stop()
        assert max(end - begin for begin, end in zip(began, ended, strict=True)) < 1.0
        assert in_use() <= before

    @pytest.mark.spec("F-89")
    async def test_f89_a_context_that_does_not_end_is_left_to_itself(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(transport, "END_WITHIN", 0.1)
        context = transport.new_context()
        forgotten = context.socket(zmq.DEALER)
        began = time.monotonic()
        await transport.end_context(context)
        assert time.monotonic() - began < 1.0
        assert "did not end within" in caplog.text
        forgotten.close(linger=0)

    async def test_a_closed_hub_leaves_no_file(self) -> None:
        async with Bus() as bus:
            async with ZmqHub(bus) as hub:
                path = anyio.Path(hub.endpoint.removeprefix("ipc://"))
                assert await path.exists()
            assert not await path.parent.exists()
            assert bus.gateway is None


class NoReaders(asyncio.SelectorEventLoop):
    """A loop that cannot watch descriptors for others, like the one that runs child processes on Windows."""

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        raise NotImplementedError

    def remove_reader(self, fd: Any) -> bool:
        raise NotImplementedError


class TestLoopsWithoutReaders:
    def run(self, main: Callable[[], Any], loop: Callable[[], asyncio.AbstractEventLoop] = NoReaders) -> Any:
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(main())

    @pytest.mark.spec("F-91")
    def test_f91_the_bus_works_and_child_processes_start(self) -> None:
        async def main() -> None:
            async with Bus() as main, Bus() as worker, ZmqHub(main) as hub, anyio.create_task_group() as tasks:
                receiver = Scripted(worker, "a")
                worker.attach(A, receiver)
                tasks.start_soon(receiver.run)
                with Observer(main, BusSaid) as observer:
                    async with ZmqNode(worker, hub.endpoint, "w"):
                        for number in range(300):
                            assert await main.ask(A, BusEcho(str(number))) == BusEchoed(str(number))
                        worker.publish(BusSaid(7))
                        assert await anext(observer) == BusSaid(7)
                        child = await asyncio.create_subprocess_exec(
                            sys.executable, "-c", "print('child')", stdout=asyncio.subprocess.PIPE
                        )
                        output, _ = await child.communicate()
                        assert output.strip() == b"child"
                tasks.cancel_scope.cancel()

        self.run(main)
        for thread in threading.enumerate():
            if thread.name.startswith("smcp-bus"):
                thread.join(1.0)
                assert not thread.is_alive()

    @pytest.mark.spec("F-91")
    def test_f91_an_idle_bus_does_not_spin(self) -> None:
        async def main() -> float:
            async with Bus() as main, Bus() as worker, ZmqHub(main) as hub, ZmqNode(worker, hub.endpoint, "w"):
                began = time.process_time()
                await anyio.sleep(0.5)
                return time.process_time() - began

        assert self.run(main) < 0.25

    def test_the_kind_of_watch_follows_the_loop(self) -> None:
        async def kind() -> type:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                fired = asyncio.Event()
                watched = watch(ours.fileno(), fired.set)
                theirs.send(b"x")
                await asyncio.wait_for(fired.wait(), 2)
                watched.close()
                return type(watched)

        assert self.run(kind) is ThreadWatch
        assert self.run(kind, asyncio.SelectorEventLoop) is LoopWatch
