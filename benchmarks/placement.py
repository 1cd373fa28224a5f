"""What it costs to place a server outside the Computer's process: tool calls as an Agent sees them.

One Server, one Agent (this process), and a Computer for each placement, all in processes of
their own, each with an MCP server behind: a bare one, or one made with the mcp package. Slices of calls,
one after another, take turns between the Computers in a fresh random order, so that a slow moment of the
machine hits all.

    python benchmarks/placement.py [--behind light|sdk] [--rounds 40] [--calls 50] [--limit 1.3] [--realtime]

On a machine with other work the wait for a processor is most of what is seen. With `--realtime` all
processes of the run go before others while calls are made one after another (it needs the right to).

Ends with status 1 when the median of the ratios of p50, process to inline, exceeds `--limit`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median

import psutil

from smcp_runtime import fixtures
from smcp_runtime.agent import AsyncAgent

OFFICE = "bench-office"
SMCP = [sys.executable, "-m", "smcp_runtime.cli.main"]
PLACEMENTS = ("inline", "process", "external")
ARGUMENTS = {"text": "x" * 180}
BEHIND = {"light": fixtures.light_stdio("--tools", "echo"), "sdk": fixtures.sample()}


@contextmanager
def process(words: list[str], wait_for: str, env: dict[str, str]) -> Iterator[tuple[re.Match[str], int]]:
    """A process that is ready once a line of its stdout matches; yields that, then ends the process."""
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
    try:
        assert child.stdout is not None
        for line in child.stdout:
            if found := re.search(wait_for, line):
                yield found, child.pid
                break
        else:
            raise SystemExit(f"{' '.join(words)} ended before it was ready")
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def computer(
    placement: str, url: str, folder: Path, env: dict[str, str], stack: ExitStack, *, behind: list[str]
) -> None:
    """Starts a Computer of this name and placement, with its worker where it needs one."""
    command, *arguments = behind
    config = folder / f"{placement}.json"
    entry = {"command": command, "args": arguments, "default_tool_meta": {"auto_apply": True}}
    config.write_text(json.dumps({"servers": {"one": entry}}), "utf-8")
    words = [*SMCP, "computer", "run", "--name", placement, "--mcp-config", str(config), "--url", url]
    words += ["--office", OFFICE, "--home", str(folder / placement), "--placement", placement]
    if placement == "external":
        hub = f"ipc://{folder}/bus/hub"
        stack.enter_context(process([*words, "--bus", hub], "^ready", env))
        stack.enter_context(process([*SMCP, "worker", "--hub", hub, "--server", "one"], "^ready", env))
    else:
        stack.enter_context(process(words, "^ready", env))


async def slice_of(agent: AsyncAgent, name: str, calls: int) -> list[float]:
    """Seconds of calls one after another."""
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        result = await agent.tool_call(name, "one__echo", ARGUMENTS, timeout=30)
        took.append(time.perf_counter() - began)
        assert not result.is_error, result
    return took


async def in_flight(agent: AsyncAgent, name: str, calls: int, width: int) -> float:
    """Calls a second with so many in flight."""
    began = time.perf_counter()
    await asyncio.gather(*(slice_of(agent, name, calls // width) for _ in range(width)))
    return calls / (time.perf_counter() - began)


@contextmanager
def before_others(*, wanted: bool) -> Iterator[None]:
    """Gives every thread of this process and its descendants real-time priority until the end of the block."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)] if wanted else []
    threads = [thread.id for one in family for thread in one.threads()]
    for thread in threads:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        for thread in threads:
            with suppress(ProcessLookupError):
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))


async def measure(url: str, words: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    """Figures of each placement, one per round."""
    figures: dict[str, dict[str, list[float]]] = {name: {"p50": [], "p95": [], "rate": []} for name in PLACEMENTS}
    async with AsyncAgent(url, name="bench-agent", office=OFFICE, watch_tools=False) as agent:
        for name in PLACEMENTS:
            while not (await agent.get_tools(name)).tools:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await slice_of(agent, name, words.calls * 2)
        with before_others(wanted=words.realtime):
            for _ in range(words.rounds):
                for name in random.sample(PLACEMENTS, len(PLACEMENTS)):
                    took = sorted(await slice_of(agent, name, words.calls))
                    figures[name]["p50"].append(took[len(took) // 2])
                    figures[name]["p95"].append(took[int(len(took) * 0.95)])
        for _ in range(max(1, words.rounds // 10)):
            for name in random.sample(PLACEMENTS, len(PLACEMENTS)):
                figures[name]["rate"].append(await in_flight(agent, name, words.calls * 20, 32))
    return figures


def ratios(figures: dict[str, dict[str, list[float]]], name: str, figure: str) -> float:
    """Median over rounds of a placement's figure to that of inline."""
    return median(own / base for own, base in zip(figures[name][figure], figures["inline"][figure], strict=True))


def show(figures: dict[str, dict[str, list[float]]]) -> None:
    """Prints the table."""
    print("| 200 B, whole stack | p50 | p95 | calls/s, 32 in flight |\n|---|---|---|---|")
    for name in PLACEMENTS:
        cells = [
            f"{median(figures[name][figure]) * 1e3:.3f} ms ({ratios(figures, name, figure):.2f}x)"
            for figure in ("p50", "p95")
        ]
        cells.append(f"{median(figures[name]['rate']):,.0f} ({ratios(figures, name, 'rate'):.2f}x)")
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="Tool calls with servers placed inline, in a process, at a worker.")
    parser.add_argument(
        "--behind",
        choices=["light", "sdk"],
        default="light",
        help="a bare MCP server, or one made with the mcp package",
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=50, help="calls of one slice")
    parser.add_argument("--limit", type=float, default=1.3)
    parser.add_argument("--realtime", action="store_true", help="go before other processes while measuring")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "bus").mkdir(mode=0o700)
        env = {**os.environ, "HOME": str(folder), "A2C_LOG_LEVEL": "WARNING"}
        server = [*SMCP, "server", "--host", "127.0.0.1", "--port", "0"]
        found, _ = stack.enter_context(process(server, r"^ready url=(\S+)", env))
        for placement in PLACEMENTS:
            computer(placement, found[1], folder, env, stack, behind=BEHIND[words.behind])
        import uvloop  # noqa: PLC0415 - the loop the rest of the stack runs on

        figures = uvloop.run(measure(found[1], words))
    show(figures)
    ratio = ratios(figures, "process", "p50")
    print(f"\nprocess to inline at p50: {ratio:.2f}x (at most {words.limit:g}x)")
    sys.exit(ratio > words.limit)


if __name__ == "__main__":
    main()
