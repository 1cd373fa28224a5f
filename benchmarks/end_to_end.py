"""Tool calls through the whole stack, ours and the official SDK's side by side in one run.

Each stack is three processes (Server, Computer, Agent) with an MCP server behind. Rounds
of the two alternate, so that a slow moment of the machine hits both; the table shows
medians over rounds and their ratios.

    python benchmarks/end_to_end.py --official /path/to/venv/bin/python [--rounds 3] [--behind light|sdk|start]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent
OFFICIAL = ROOT / "tests" / "interop" / "official"

PLAN = {"warm_up": 50, "latency_calls": 400, "rate_calls": 2000, "in_flight": 32, "tool_lists": 0}
AUTO = {"auto_apply": True}


def light(name: str, bundle_id: str, *flags: str) -> dict[str, Any]:
    """A bare MCP server: a loop over lines."""
    parameters = {
        "command": sys.executable,
        "args": ["-m", "smcp_runtime.fixtures.servers.light_stdio", *flags],
        "env": {},
    }
    return entry(name, bundle_id, parameters)


def with_sdk(name: str, bundle_id: str) -> dict[str, Any]:
    """An MCP server written with the mcp package."""
    return entry(
        name, bundle_id, {"command": sys.executable, "args": ["-m", "smcp_runtime.fixtures.servers.sample"], "env": {}}
    )


def entry(name: str, bundle_id: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """One server of a configuration, spelled out so that both Computers take it."""
    return {
        "name": name, "bundle_id": bundle_id, "type": "stdio", "server_parameters": parameters, "disabled": False,
        "forbidden_tools": [], "tool_meta": {}, "default_tool_meta": AUTO,
    }  # fmt: skip


@contextmanager
def process(*command: str, wait_for: str, env: dict[str, str] | None = None, limit: float = 60.0) -> Iterator[str]:
    """A process that is ready once a line of its stdout matches; yields that line, then ends the process."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("BENCH_VERBOSE") else subprocess.DEVNULL,
        text=True,
        env=env,
    )
    try:
        assert child.stdout is not None
        deadline = time.monotonic() + limit
        for line in child.stdout:
            if re.search(wait_for, line):
                break
            assert time.monotonic() < deadline, command
        else:
            raise SystemExit(f"{' '.join(command)} ended before it was ready")
        yield line
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def our_server(_python: str, stack: ExitStack) -> str:
    """Starts our Server; its URL."""
    smcp = [sys.executable, "-m", "smcp_runtime.cli.main"]
    line = stack.enter_context(process(*smcp, "server", "--host", "127.0.0.1", "--port", "0", wait_for="^ready "))
    found = re.search(r"url=(\S+)", line)
    assert found is not None
    return found[1]


def our_computer(url: str, servers: list[dict[str, Any]], folder: Path, _python: str, stack: ExitStack) -> None:
    """Starts our Computer."""
    config = folder / "mcp.json"
    config.write_text(json.dumps({"servers": {server["name"]: server for server in servers}, "inputs": []}))
    smcp = [sys.executable, "-m", "smcp_runtime.cli.main"]
    words = ["--name", "bench", "--mcp-config", str(config), "--home", str(folder / "home")]
    words += ["--url", url, "--office", "bench-office"]
    env = {**os.environ, "HOME": str(folder)}
    stack.enter_context(process(*smcp, "computer", "run", *words, wait_for="^ready ", env=env))


def official_server(python: str, stack: ExitStack) -> str:
    """Starts the official Server; its URL."""
    line = stack.enter_context(process(python, str(OFFICIAL / "server.py"), wait_for='"ready"'))
    return str(json.loads(line)["url"])


def official_computer(url: str, servers: list[dict[str, Any]], _folder: Path, python: str, stack: ExitStack) -> None:
    """Starts the official Computer."""
    words = [url, "bench-office", "bench", json.dumps(servers)]
    stack.enter_context(process(python, str(OFFICIAL / "computer.py"), *words, wait_for='"ready"'))


STACKS = {"ours": (our_server, our_computer), "official": (official_server, official_computer)}


def settle(limit: float = 20.0) -> None:
    """Waits until the machine is idle: what one stack leaves behind must not slow the other one's start."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        busy, all_ = _cpu_times()
        time.sleep(0.5)
        busy_now, all_now = _cpu_times()
        if busy_now - busy < 0.1 * (all_now - all_):
            return


def _cpu_times() -> tuple[int, int]:
    """Ticks in which the processors of this machine worked, and all of them."""
    with Path("/proc/stat").open() as stat:
        ticks = [int(number) for number in stat.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


class Case(NamedTuple):
    """What both stacks do: behind these servers, with this tool, by this plan; and the figures shown, `()` for all."""

    servers: list[dict[str, Any]]
    tool: str
    plan: dict[str, int]
    figures: tuple[str, ...] = ()


def one_round(which: str, case: Case, python: str) -> dict[str, Any]:
    """Figures of one fresh stack."""
    start_server, start_computer = STACKS[which]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        settle()
        url = start_server(python, stack)
        began = time.time()
        start_computer(url, case.servers, Path(name), python, stack)
        interpreter = sys.executable if which == "ours" else python
        script = HERE / "stack" / f"{'our' if which == 'ours' else 'official'}_agent.py"
        words = [url, "bench-office", "bench", case.tool]
        words.append(json.dumps({**case.plan, "servers": len(case.servers)}))
        done = subprocess.run(
            [interpreter, str(script), *words], capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            raise SystemExit(f"{which}: {done.stderr[-2000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        result["start"] = result.pop("first_answer") - began
        return result


def compare(title: str, case: Case, words: argparse.Namespace) -> None:
    """Runs both stacks in turn and prints one table."""
    seen: dict[str, list[dict[str, Any]]] = {"official": [], "ours": []}
    for _ in range(words.rounds):
        for which, rounds in seen.items():
            rounds.append(one_round(which, case, words.official))
    print(f"\n{title}\n\n| figure | official | ours | ratio |\n|---|---|---|---|")
    for key in case.figures or seen["ours"][0]:
        theirs, own = (median(figure[key] for figure in seen[which]) for which in ("official", "ours"))
        print(row(key, theirs, own), flush=True)


def row(key: str, theirs: float, own: float) -> str:
    """One line of the table, in the unit people think in."""
    ratio = own / theirs
    if key == "rate":
        return f"| calls/s in flight | {theirs:.0f} | {own:.0f} | {ratio:.2f}x the rate |"
    if key == "agent_cpu":
        return f"| CPU of the Agent a call | {theirs * 1e6:.0f} us | {own * 1e6:.0f} us | {ratio:.2f}x |"
    return f"| {key} | {theirs * 1e3:.2f} ms | {own * 1e3:.2f} ms | {ratio:.2f}x the time |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole-stack tool calls, ours beside the official SDK's.")
    parser.add_argument(
        "--official", required=True, metavar="PYTHON", help="interpreter that has a2c-smcp[server]==0.4.2"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--behind", choices=["light", "sdk", "tools", "start", "all"], default="all")
    words = parser.parse_args()

    def wanted(name: str) -> bool:
        return words.behind in (name, "all")

    few = {**PLAN, "warm_up": 1, "latency_calls": 1, "rate_calls": 1}
    if wanted("light"):
        compare("Behind a light MCP server", Case([light("light (display)", "light")], "light__echo", PLAN), words)
    if wanted("sdk"):
        case = Case([with_sdk("sample (display)", "sample")], "sample__echo", PLAN)
        compare("Behind a server made with the mcp package", case, words)
    if wanted("tools"):
        many = [light("many (display)", "many", "--count", "1000")]
        compare("1,000 tools", Case(many, "many__echo", {**few, "tool_lists": 15}, ("get_tools",)), words)
    if wanted("start"):
        ten = [with_sdk(f"sample {number} (display)", f"sample_{number}") for number in range(10)]
        compare(
            "From the start of the Computer to the first answer, 10 servers listed",
            Case(ten, "sample_9__echo", few, ("start",)),
            words,
        )


if __name__ == "__main__":
    main()
