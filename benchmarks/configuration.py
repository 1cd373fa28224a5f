"""What it costs to load and plan a configuration, process starts not included.

Half of the servers come from a configuration object and half from a user's file, each with an input, an
environment reference and tool metadata. The target is 100 ms for 200 servers. Beside the time on the wall stands that
of the processor, which does not depend on who else uses the machine.

    python benchmarks/configuration.py [--servers 200] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from smcp_runtime.actors.reconcile.composition import Composition
from smcp_runtime.actors.reconcile.config.computer_config import parse_computer_config
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions, settle
from smcp_runtime.actors.reconcile.held import Held
from smcp_runtime.actors.reconcile.loading import load_all
from smcp_runtime.actors.reconcile.running.plan import plan

INPUT = {"type": "promptString", "id": "token", "description": "d", "password": True}


def servers(count: int, prefix: str) -> dict[str, Any]:
    """So many servers by name."""
    parameters = {"command": "npx", "args": ["-y", "package", "${input:token}"], "env": {"K": "${env:HOME}"}}
    entry = {"type": "stdio", "server_parameters": parameters, "tool_meta": {"read": {"tags": ["safe"]}}}
    return {f"{prefix} {number}": entry for number in range(count)}


def measure(root: Path, text: str) -> dict[str, tuple[float, float]]:
    """Milliseconds of each step of one start, on the wall and of the processor."""
    marks = [("", time.perf_counter(), time.process_time())]

    def mark(step: str) -> None:
        marks.append((step, time.perf_counter(), time.process_time()))

    config = parse_computer_config(text).config
    mark("read the configuration")
    options = settle(RuntimeOptions(env={"HOME": str(root)}, project_root=str(root)), config)[0]
    held = Held(config)
    composition = Composition(held, options)
    loaded = load_all(options)
    mark("read the files")
    picture = composition.compose(config, {}, loaded)
    mark("merge, judge, settle policies")
    plan(held.servers, picture.servers)
    composition.adopt(picture)
    composition.project()
    mark("plan and project")
    steps = {
        step: (1e3 * (end - begin), 1e3 * (spent - before))
        for (_, begin, before), (step, end, spent) in pairwise(marks)
    }
    return {**steps, "all": (sum(wall for wall, _ in steps.values()), sum(cpu for _, cpu in steps.values()))}


def main() -> None:
    """Prints medians over rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    half = arguments.servers // 2
    text = json.dumps({"name": "desk", "mcp_servers": servers(arguments.servers - half, "own")})
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / ".config" / "a2c").mkdir(parents=True)
        file = {"servers": servers(half, "user"), "inputs": [INPUT]}
        (root / ".config" / "a2c" / "mcp.json").write_text(json.dumps(file))
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for _ in range(arguments.rounds):
            for step, spent in measure(root, text).items():
                found[step].append(spent)
    print(f"{arguments.servers} servers, median of {arguments.rounds} rounds: wall, processor")
    for step, spents in found.items():
        wall, cpu = (median(times) for times in zip(*spents, strict=True))
        print(f"{step:32} {wall:7.1f} ms {cpu:7.1f} ms")


if __name__ == "__main__":
    main()
