"""What the bus costs, beside the least one could do and beside other actor libraries, in one run.

Rounds of all cases alternate, so that a slow moment of the machine hits each of them; the
tables show medians over rounds, and of the ratios to the bare case of the same round. Echo sides
of the ZeroMQ cases run in a process of their own.

    python benchmarks/bus.py [--rounds 5] [--loop uvloop|asyncio] [--only bus,bare] [--json FILE]

Needs the extra `bench` (pykka, xoscar).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import pykka
import uvloop
import xoscar
import zmq

from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.bus import Answer, Bus, Mailbox, Observer, Verdict
from smcp_runtime.bus.zeromq import ZmqHub, ZmqNode
from smcp_runtime.wire.codec import decode, encode
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.message import Ask, Record, Tell
from smcp_runtime.wire.messages.nodes import NodeUp

ECHO = Address("echo")
SIZES = {"200 B": 200, "64 KB": 65_536}
IN_FLIGHT = 64
Sender = Callable[[bytes], Awaitable[Any]]
Samples = dict[str, dict[str, dict[str, list[float]]]]


class Echoed(Record):
    """Reply of `Echo`."""

    data: bytes


class Echo(Ask[Echoed]):
    """Wants its bytes back."""

    data: bytes


class Take(Tell):
    """Bytes to throw away."""

    data: bytes


class Case:
    """One way to ask and, if it can, to tell."""

    def __init__(self, ask: Sender, tell: Sender | None = None) -> None:
        self.ask = ask
        self.tell = tell


# --- in process ----------------------------------------------------------------------------------


class EchoReceiver:
    """The least receiver a bus can have: a mailbox and one worker."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._mailbox = Mailbox(on_admit=self._admitted)
        self._wake: asyncio.Future[None] | None = None

    def deliver(self, envelope: Envelope) -> Verdict:
        verdict = self._mailbox.offer(envelope)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        return verdict

    def cancel(self, envelope_id: int) -> Any:
        return self._mailbox.withdraw(envelope_id)

    def is_serial(self, subject: str) -> bool:
        return True

    def _admitted(self, envelope: Envelope) -> None:
        if envelope.kind == "tell":
            self._bus.settle(envelope.id, None)

    async def run(self) -> None:
        while True:
            envelope = self._mailbox.take()
            if envelope is None:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
                self._wake = None
            elif envelope.kind == "ask":
                message = decode(Echo, envelope.body, envelope.attachments)
                self._bus.settle(envelope.id, Answer(*encode(Echoed(message.data))))
            else:
                decode(Take, envelope.body, envelope.attachments)


class EchoActor(Actor):
    """The same as an actor of the kernel."""

    @handler
    async def echo(self, message: Echo) -> Echoed:
        return Echoed(message.data)

    @handler
    async def take(self, message: Take) -> None:
        pass


@asynccontextmanager
async def background(run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """A task that lives as long as the block."""
    task = asyncio.ensure_future(run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def bare_deque() -> AsyncIterator[Case]:
    """A deque, one wake-up and a future per ask, with the encoding of the bus."""
    queue: deque[tuple[bytes, asyncio.Future[bytes] | None]] = deque()
    wake: asyncio.Future[None] | None = None
    loop = asyncio.get_running_loop()

    def put(body: bytes, reply: asyncio.Future[bytes] | None) -> None:
        queue.append((body, reply))
        if wake is not None and not wake.done():
            wake.set_result(None)

    async def ask(data: bytes) -> Echoed:
        reply: asyncio.Future[bytes] = loop.create_future()
        put(encode(Echo(data))[0], reply)
        return decode(Echoed, await reply)

    async def tell(data: bytes) -> None:
        put(encode(Take(data))[0], None)
        if len(queue) > 1024:
            await asyncio.sleep(0)

    async def work() -> None:
        nonlocal wake
        while True:
            if not queue:
                wake = loop.create_future()
                await wake
                wake = None
                continue
            body, reply = queue.popleft()
            if reply is None:
                decode(Take, body)
            elif not reply.done():
                reply.set_result(encode(Echoed(decode(Echo, body).data))[0])

    async with background(work):
        yield Case(ask, tell)


@asynccontextmanager
async def our_bus() -> AsyncIterator[Case]:
    async with Bus() as bus:
        receiver = EchoReceiver(bus)
        bus.attach(ECHO, receiver)
        async with background(receiver.run):
            yield Case(lambda data: bus.ask(ECHO, Echo(data)), lambda data: bus.tell(ECHO, Take(data)))


@asynccontextmanager
async def our_actor() -> AsyncIterator[Case]:
    async with Bus() as bus, Supervisor(bus) as supervisor:
        await supervisor.start_child(ChildSpec(ECHO, EchoActor))
        yield Case(lambda data: bus.ask(ECHO, Echo(data)), lambda data: bus.tell(ECHO, Take(data)))


@asynccontextmanager
async def pykka_actor() -> AsyncIterator[Case]:
    """An actor thread asked from the event loop; messages are encoded as on the bus."""

    class PykkaEcho(pykka.ThreadingActor):
        def on_receive(self, message: tuple[bool, bytes]) -> bytes | None:
            wants_reply, body = message
            if wants_reply:
                return encode(Echoed(decode(Echo, body).data))[0]
            decode(Take, body)
            return None

    actor = PykkaEcho.start()

    async def ask(data: bytes) -> Echoed:
        body = encode(Echo(data))[0]
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[bytes] = loop.create_future()
        future = actor.ask((True, body), block=False)
        # The cheapest bridge pykka leaves open: its future holds a queue, so a thread has to wait for it.
        reply = loop.run_in_executor(None, future.get)  # type: ignore[assignment]
        return decode(Echoed, await reply)

    async def tell(data: bytes) -> None:
        actor.tell((False, encode(Take(data))[0]))

    try:
        yield Case(ask, tell)
    finally:
        actor.stop()


@asynccontextmanager
async def pykka_blocking() -> AsyncIterator[Case]:
    """An actor thread asked by a thread that blocks: pykka at its best."""
    async with pykka_actor() as case:
        actor = pykka.ActorRegistry.get_all()[0]

        async def ask(data: bytes) -> Echoed:
            return decode(Echoed, actor.ask((True, encode(Echo(data))[0])))

        yield Case(ask, case.tell)


@asynccontextmanager
async def xoscar_actor() -> AsyncIterator[Case]:
    """An actor in the caller's own pool; it passes objects, messages are encoded as on the bus."""
    pool = await xoscar.create_actor_pool("127.0.0.1", n_process=0)
    async with pool:
        reference = await xoscar.create_actor(XoscarEcho, address=pool.external_address, uid="echo")

        async def ask(data: bytes) -> Echoed:
            return decode(Echoed, await reference.echo(encode(Echo(data))[0]))

        async def tell(data: bytes) -> None:
            await reference.take.tell(encode(Take(data))[0])

        yield Case(ask, tell)


class XoscarEcho(xoscar.Actor):
    """The xoscar side."""

    async def echo(self, body: bytes) -> bytes:
        return encode(Echoed(decode(Echo, body).data))[0]

    async def take(self, body: bytes) -> None:
        decode(Take, body)


# --- over ZeroMQ ---------------------------------------------------------------------------------


class BareSocket:
    """A socket drained by its descriptor, with nothing else: no deadlines, credit, greeting or liveness."""

    def __init__(self, socket: zmq.Socket[bytes], receive: Callable[[list[bytes]], None]) -> None:
        self._socket, self._receive = socket, receive
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(socket.fd, self._drain)
        self._drain()

    def send(self, frames: list[bytes]) -> None:
        self._socket.send_multipart(frames, zmq.NOBLOCK)
        if self._socket.events & zmq.POLLIN:
            self._loop.call_soon(self._drain)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fd)
        self._socket.close(linger=0)

    def _drain(self) -> None:
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._receive(frames)


_head = msgspec.msgpack.Encoder().encode
_unhead = msgspec.msgpack.Decoder(tuple[int, bool]).decode


def bare_socket(kind: int) -> tuple[zmq.Context[Any], zmq.Socket[bytes]]:
    """A socket that never drops and never lingers."""
    context: zmq.Context[Any] = zmq.Context()
    socket = context.socket(kind)
    socket.linger = 0
    socket.sndhwm = 0
    return context, socket


@asynccontextmanager
async def bare_zeromq() -> AsyncIterator[Case]:
    """ROUTER here, DEALER in the echo process; an id, a future, and the encoding of the bus."""
    loop = asyncio.get_running_loop()
    context, socket = bare_socket(zmq.ROUTER)
    waiting: dict[int, asyncio.Future[Any]] = {}
    peer: asyncio.Future[bytes] = loop.create_future()
    last = 0

    def receive(frames: list[bytes]) -> None:
        if not peer.done():
            peer.set_result(frames[0])
            return
        number, _ = _unhead(frames[1])
        waiting.pop(number).set_result(frames[2])

    with tempfile.TemporaryDirectory() as directory:
        endpoint = f"ipc://{directory}/bare"
        socket.bind(endpoint)
        drained = BareSocket(socket, receive)

        def send(wants_reply: bool, body: bytes) -> asyncio.Future[Any]:
            nonlocal last
            last += 1
            waiting[last] = future = loop.create_future()
            drained.send([peer.result(), _head((last, wants_reply)), body])
            return future

        async def ask(data: bytes) -> Echoed:
            return decode(Echoed, await send(True, encode(Echo(data))[0]))

        async def tell(data: bytes) -> None:
            # With a receipt, as ours: a sender that hears nothing can be told nothing.
            await send(False, encode(Take(data))[0])

        async with echo_process("bare", endpoint):
            await peer
            yield Case(ask, tell)
        drained.close()
    context.term()


async def bare_echo(endpoint: str) -> None:
    """Echo side of `bare_zeromq`."""
    _, socket = bare_socket(zmq.DEALER)
    socket.connect(endpoint)

    def receive(frames: list[bytes]) -> None:
        _, wants_reply = _unhead(frames[0])
        if wants_reply:
            drained.send([frames[0], encode(Echoed(decode(Echo, frames[1]).data))[0]])
        else:
            decode(Take, frames[1])
            drained.send([frames[0], b""])

    drained = BareSocket(socket, receive)
    drained.send([b"here"])
    await asyncio.Event().wait()


@asynccontextmanager
async def our_zeromq() -> AsyncIterator[Case]:
    async with Bus() as bus, ZmqHub(bus) as hub:
        with Observer(bus, NodeUp) as comings:
            async with echo_process("ours", hub.endpoint):
                await anext(comings)
                yield Case(lambda data: bus.ask(ECHO, Echo(data)), lambda data: bus.tell(ECHO, Take(data)))


async def our_echo(endpoint: str) -> None:
    """Echo side of `our_zeromq`."""
    async with Bus() as bus:
        receiver = EchoReceiver(bus)
        bus.attach(ECHO, receiver)
        async with background(receiver.run), ZmqNode(bus, endpoint, "echo"):
            await asyncio.Event().wait()


@asynccontextmanager
async def echo_process(kind: str, endpoint: str) -> AsyncIterator[None]:
    """The other process; it ends with the block."""
    loop = "uvloop" if isinstance(asyncio.get_running_loop(), uvloop.Loop) else "asyncio"
    command = [sys.executable, __file__, "--loop", loop, "--echo", kind, endpoint]
    child = await asyncio.create_subprocess_exec(*command)
    try:
        yield
    finally:
        child.kill()
        await child.wait()


# --- measuring -----------------------------------------------------------------------------------

CASES: dict[str, Callable[[], Any]] = {
    "bare": bare_deque,
    "bus": our_bus,
    "actor": our_actor,
    "pykka": pykka_actor,
    "pykka-blocking": pykka_blocking,
    "xoscar": xoscar_actor,
    "zmq-bare": bare_zeromq,
    "zmq-bus": our_zeromq,
}
TITLES = {
    "bare": "bare deque mailbox",
    "bus": "bus",
    "actor": "bus, kernel actor",
    "pykka": "pykka, asked from a loop",
    "pykka-blocking": "pykka, asked from a thread",
    "xoscar": "xoscar, in process",
    "zmq-bare": "bare ROUTER/DEALER",
    "zmq-bus": "bus over ZeroMQ",
}
BASE = {"zmq-bus": "zmq-bare", "zmq-bare": "zmq-bare"}
FIGURES = {
    "ask": "ask, one at a time (us)",
    "rate": f"asks/s, {IN_FLIGHT} in flight",
    "tell": f"tells/s, {IN_FLIGHT} in flight",
}


async def one_at_a_time(send: Sender, data: bytes, seconds: float) -> float:
    """Microseconds a call takes."""
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        for _ in range(20):
            await send(data)
        count += 20
    return took / count * 1e6


async def at_once(send: Sender, data: bytes, seconds: float) -> float:
    """Calls a second with `IN_FLIGHT` callers."""
    count, end = 0, time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal count
        while time.perf_counter() < end:
            for _ in range(5):
                await send(data)
            count += 5

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return count / (time.perf_counter() - began)


async def run(names: list[str], rounds: int, seconds: float) -> Samples:
    """All samples by size, case and figure."""
    samples: Samples = {size: {name: defaultdict(list) for name in names} for size in SIZES}
    async with AsyncExitStack() as stack:
        cases = {name: await stack.enter_async_context(CASES[name]()) for name in names}
        for number in range(rounds + 1):
            for size, length in SIZES.items():
                data = bytes(length)
                for name, case in cases.items():
                    found = {"ask": await one_at_a_time(case.ask, data, seconds)}
                    if name != "pykka-blocking":
                        found["rate"] = await at_once(case.ask, data, seconds)
                        found["tell"] = await at_once(case.tell, data, seconds)
                        # Whatever was told is worked off before the next case begins.
                        await case.ask(data)
                    if number:
                        # The first round warms up.
                        for figure, value in found.items():
                            samples[size][name][figure].append(value)
    return samples


def table(samples: Samples) -> str:
    """Markdown: medians, and in brackets the median over rounds of the ratio to the bare case of the same round."""
    lines = []
    for size, cases in samples.items():
        lines += [f"| {size} | {' | '.join(FIGURES.values())} |", "|---" * (len(FIGURES) + 1) + "|"]
        for name, found in cases.items():
            base = cases.get(BASE.get(name, "bare"), {})
            cells = [TITLES[name]]
            for figure in FIGURES:
                values = found.get(figure)
                if not values:
                    cells.append("")
                    continue
                text = f"{median(values):.1f}" if figure == "ask" else f"{median(values):,.0f}"
                if base:
                    ratio = median([value / least for value, least in zip(values, base[figure], strict=True)])
                    text += f" ({ratio:.2f}x)"
                cells.append(text)
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def in_loop(coroutine: Any, loop: str) -> Any:
    """Runs a coroutine on the chosen loop."""
    if loop == "uvloop":
        return uvloop.run(coroutine)
    return asyncio.run(coroutine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="per figure and round")
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--only", default=",".join(CASES), help="cases, comma-separated")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--echo", nargs=2, metavar=("KIND", "ENDPOINT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.echo:
        kind, endpoint = options.echo
        in_loop({"bare": bare_echo, "ours": our_echo}[kind](endpoint), options.loop)
        return
    samples = in_loop(run(options.only.split(","), options.rounds, options.seconds), options.loop)
    print(f"{options.loop}, Python {sys.version.split()[0]}, pyzmq {zmq.__version__}, {options.rounds} rounds\n")
    print(table(samples))
    if options.json:
        options.json.write_text(json.dumps(samples, indent=1))


if __name__ == "__main__":
    main()
