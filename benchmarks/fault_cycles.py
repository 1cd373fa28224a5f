"""Whether faults leave something behind: descriptors, tasks, processes and memory of a Computer over many of them.

    python benchmarks/fault_cycles.py [--cycles 1000] [--placement inline,process] [--json FILE]

Server, Agent and Computer run in this process, under load; what they open shows up here. One cycle hurts every server
at once and waits until all answer again: SIGKILL, closed pipes and the death of the actor in turn, and every tenth time
the Server is restarted as well. The status is 1 when more than `SLACK` descriptors stayed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from faults.matrix import close_pipe, kill, restart_server
from faults.rig import Rig, Seat, open_rig

from smcp_runtime.wire.errors import SmcpError
from support.waiting import until

SLACK = 8
"""Descriptors by which the last cycles may exceed the first: connections kept alive come and go."""
LONGEST_DELAY = 0.1


async def kill_actor(rig: Rig, seat: Seat) -> None:
    """The death of the actor of a server; started by hand, since one that dies so often would be parked (DEC-35)."""
    rig.computer.operations.kill(f"mcp/{seat.name}")

    async def started() -> bool:
        with contextlib.suppress(SmcpError):
            return (await rig.computer.control(seat.name, "start")).activation == "started"
        return False

    await until(started, 10)


HURTS: tuple[Callable[[Rig, Seat], Awaitable[None]], ...] = (kill, close_pipe, kill_actor)


class Pauses:
    """How long the event loop had no turn; while the machine is elsewhere nothing ends in time."""

    longest = 0.0

    async def watch(self) -> None:
        """Looks ten times a second."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.1)
            self.longest = max(self.longest, time.monotonic() - began - 0.1)


def measure() -> dict[str, int]:
    """What this process holds now."""
    me = psutil.Process()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
        "processes": len(me.children(recursive=True)),
        "rss": me.memory_info().rss,
    }


async def cycle(rig: Rig, number: int) -> None:
    """Hurts everybody, and waits until all is well."""

    async def hurt(seat: Seat) -> None:
        await HURTS[number % len(HURTS)](rig, seat)
        await rig.loads[seat.name].recovered(seat.name)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(hurt, rig.seats))
        if number % 10 == 9:
            await restart_server(rig)
            await asyncio.gather(*(rig.loads[seat.name].recovered(seat.name) for seat in rig.seats))


async def run(cycles: int, placements: list[str]) -> dict[str, Any]:
    """Medians of the first and the last tenth, after a warm-up of another."""
    samples = []
    pauses = Pauses()
    with tempfile.TemporaryDirectory() as folder:
        async with open_rig(Path(folder), placements, longest_delay=LONGEST_DELAY) as rig:
            watching = asyncio.create_task(pauses.watch())
            began = time.monotonic()
            for number in range(cycles):
                await cycle(rig, number)
                gc.collect()
                samples.append(measure())
            took = time.monotonic() - began
            watching.cancel()
            tallies = [tally for load in rig.loads.values() for tally in load.tallies.values()]
    tenth = max(1, cycles // 10)
    first, last = samples[tenth : 2 * tenth], samples[-tenth:]
    return {
        "cycles": cycles,
        "seconds": took,
        "calls": sum(tally.calls for tally in tallies),
        "hung": sum(tally.hung for tally in tallies),
        "wrong": sum(len(tally.wrong) for tally in tallies),
        "longest_pause": pauses.longest,
        **{name: [statistics.median(s[name] for s in part) for part in (first, last)] for name in first[0]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--placement", type=lambda text: text.split(","), default=["inline"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    logging.getLogger("smcp_runtime").setLevel(logging.ERROR)
    result = asyncio.run(run(arguments.cycles, arguments.placement))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result))
    print("| what | |\n|---|---|")
    for name in ("cycles", "calls", "hung", "wrong"):
        print(f"| {name} | {result[name]:,} |")
    for name in ("descriptors", "tasks", "processes"):
        print(f"| {name} | {result[name][0]:.0f} → {result[name][1]:.0f} |")
    print(f"| RSS | {result['rss'][0] / 1e6:.1f} → {result['rss'][1] / 1e6:.1f} MB |")
    print(f"\n{result['seconds']:.0f} s, longest pause of the event loop {result['longest_pause']:.2f} s")
    leaked = result["descriptors"][1] - result["descriptors"][0] > SLACK
    sys.exit(1 if leaked or result["hung"] or result["wrong"] else 0)


if __name__ == "__main__":
    main()
