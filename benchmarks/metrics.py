"""What metrics cost: the throughput of the bus with a tally, against the same without.

Each side is a process of its own, since one that ran both would spoil the call caches of either. Short slices
alternate, each pair in a fresh random order, and what counts is processor time: another process that takes the machine
away for a moment then hits neither. Processes differ by some percent from birth, so several pairs of them are measured.
The result is the median over the pairs of processes of the median of their ratios.

    python benchmarks/metrics.py [--rounds 7] [--pairs 30] [--in-flight 64] [--loop uvloop|asyncio] [--limit 0.05]

Ends with status 1 when the cost exceeds `--limit`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import uvloop

from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.bus import Bus
from smcp_runtime.bus.tally import Tally
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.message import Ask, Record

ECHO = Address("echo")
SLICE = 6_400
"""Asks of one slice."""


class Echoed(Record):
    """Reply of `Echo`."""

    data: bytes


class Echo(Ask[Echoed]):
    """Wants its bytes back."""

    data: bytes


class EchoActor(Actor):
    """Answers one at a time."""

    @handler
    async def echo(self, message: Echo) -> Echoed:
        return Echoed(message.data)


async def one_slice(bus: Bus, in_flight: int) -> float:
    """Processor seconds a slice takes."""

    async def ask(times: int) -> None:
        for _ in range(times):
            await bus.ask(ECHO, Echo(b"x" * 200))

    gc.collect()
    began = time.process_time()
    await asyncio.gather(*(ask(SLICE // in_flight) for _ in range(in_flight)))
    return time.process_time() - began


async def side(*, counted: bool, in_flight: int) -> None:
    """One of the two processes: a slice for each line on stdin, its seconds on stdout."""
    async with Bus(Tally() if counted else None) as bus, Supervisor(bus) as supervisor:
        await supervisor.start_child(ChildSpec(ECHO, EchoActor))
        for _ in range(3):
            await one_slice(bus, in_flight)
        print("ready", flush=True)
        while sys.stdin.readline():
            print(await one_slice(bus, in_flight), flush=True)


class Side:
    """A process as the other end sees it."""

    def __init__(self, words: list[str]) -> None:
        command = [sys.executable, __file__, *words]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def slice(self) -> float:
        """Processor seconds of one more slice."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def one_round(pairs: int, words: list[str]) -> tuple[float, dict[str, float]]:
    """The ratio of throughputs, counted to plain, and the microseconds of an ask on each side."""
    taken: dict[str, list[float]] = {"plain": [], "counted": []}
    with ExitStack() as stack:
        sides = {name: stack.enter_context(Side(["--side", name, *words])) for name in taken}
        for _ in range(pairs):
            for name in random.sample(list(taken), 2):
                taken[name].append(sides[name].slice())
    ratio = statistics.median(plain / counted for plain, counted in zip(*taken.values(), strict=True))
    return ratio, {name: statistics.median(seconds) / SLICE * 1e6 for name, seconds in taken.items()}


def measure(rounds: int, pairs: int, words: list[str]) -> dict[str, float]:
    """The figures of one run; `words` are passed on to both sides."""
    results = [one_round(pairs, words) for _ in range(rounds)]
    ratio = statistics.median(ratio for ratio, _ in results)
    figures = {
        f"{name}, us per ask": statistics.median(spent[name] for _, spent in results) for name in ("plain", "counted")
    }
    return {**figures, "throughput counted / plain": ratio, "cost": 1 - ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of metrics on the bus.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--limit", type=float, default=0.05)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=("plain", "counted"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.side:
        run = uvloop.run if words.loop == "uvloop" else asyncio.run
        run(side(counted=words.side == "counted", in_flight=words.in_flight))
        return
    figures = measure(words.rounds, words.pairs, ["--in-flight", str(words.in_flight), "--loop", words.loop])
    if words.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:28} {value:8.3f}")
    sys.exit(figures["cost"] > words.limit)


if __name__ == "__main__":
    main()
