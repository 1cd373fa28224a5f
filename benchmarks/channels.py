"""Desktop, skills and blobs through the whole stack, ours and the official SDK's side by side in one run.

Each stack is three processes (Server, Computer, Agent) with two bare MCP servers of ten windows each, 500 skills of
the user, a file of 20 MB to read and a landing root to write to. Rounds of the two alternate, so that a slow moment
of the machine hits both; the table shows medians over rounds and their ratios.

    python benchmarks/channels.py --official /path/to/venv/bin/python [--rounds 3] [--megabytes 20]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from end_to_end import OFFICIAL, entry, process

HERE = Path(__file__).parent
WINDOWS, SKILLS = 10, 500
CHANGED = "window://bench.0/5"


def prepare(folder: Path, home: Path, settings: Path, megabytes: int) -> list[dict[str, Any]]:
    """Everything a Computer serves, below `folder`; the entries of its MCP servers."""
    for number in range(SKILLS - 1):
        skill(home / "user" / f"skill-{number}", f"Skill {number} of many, described in one line")
    data = home / "user" / "data"
    skill(data, "A large file")
    (data / "blob.bin").write_bytes(os.urandom(megabytes * 1_000_000))
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"landingRoot": str(folder / "landing")}))
    return [shelf(folder, number) for number in range(2)]


def skill(folder: Path, description: str) -> None:
    """A skill of the user."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: {description}\n---\n# {folder.name}\n")


def shelf(folder: Path, number: int) -> dict[str, Any]:
    """A bare server with ten windows of about half a kilobyte."""
    windows = [
        {
            "uri": f"window://bench.{number}/{window}",
            "name": f"window {window}",
            "annotations": {"priority": window / WINDOWS},
            "contents": [{"text": f"window {window} " + "x" * 500}],
        }
        for window in range(WINDOWS)
    ]
    file = folder / f"shelf_{number}.json"
    file.write_text(json.dumps(windows))
    arguments = ["-m", "smcp_runtime.fixtures.servers.light_shelf", "--shelf", str(file)]
    name = f"shelf {number} (display)"
    return entry(name, f"shelf_{number}", {"command": sys.executable, "args": arguments, "env": {}})


def ours(folder: Path, megabytes: int, stack: ExitStack, _: str) -> str:
    """Starts our Server and Computer; the Server's URL."""
    home, settings = folder / "home", folder / "settings.json"
    servers = prepare(folder, home, settings, megabytes)
    smcp = [sys.executable, "-m", "smcp_runtime.cli.main"]
    line = stack.enter_context(process(*smcp, "server", "--host", "127.0.0.1", "--port", "0", wait_for="^ready "))
    found = re.search(r"url=(\S+)", line)
    assert found is not None
    config = folder / "mcp.json"
    config.write_text(json.dumps({"servers": {server["name"]: server for server in servers}, "inputs": []}))
    words = ["--name", "bench", "--mcp-config", str(config), "--home", str(home), "--settings", str(settings)]
    words += ["--url", found[1], "--office", "bench-office"]
    env = {**os.environ, "HOME": str(folder)}
    stack.enter_context(process(*smcp, "computer", "run", *words, wait_for="^ready ", env=env))
    return found[1]


def official(folder: Path, megabytes: int, stack: ExitStack, python: str) -> str:
    """Starts the official Server and Computer; the Server's URL."""
    servers = prepare(folder, folder / "skills", folder / "a2c" / "settings.json", megabytes)
    line = stack.enter_context(process(python, str(OFFICIAL / "server.py"), wait_for='"ready"'))
    url = str(json.loads(line)["url"])
    words = [url, "bench-office", "bench", json.dumps(servers), str(folder)]
    stack.enter_context(process(python, str(OFFICIAL / "computer.py"), *words, wait_for='"ready"'))
    return url


STACKS = {"ours": ours, "official": official}


def one_round(which: str, plan: dict[str, Any], words: argparse.Namespace) -> dict[str, float]:
    """Figures of one fresh stack."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        url = STACKS[which](Path(name), words.megabytes, stack, words.official)
        interpreter = sys.executable if which == "ours" else words.official
        script = HERE / "stack" / f"{'our' if which == 'ours' else 'official'}_channels.py"
        done = subprocess.run(
            [interpreter, str(script), url, "bench-office", "bench", json.dumps(plan)],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{which}: {done.stderr[-2000:]}")
        result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return result


def row(key: str, theirs: float, own: float) -> str:
    """One line of the table, in the unit people think in."""
    if key.endswith("/ quiet"):
        return f"| {key} | {theirs:.1f}x | {own:.1f}x | |"
    if "blob" in key and "tool_call" not in key:
        return f"| {key} | {theirs:.1f} MB/s | {own:.1f} MB/s | {own / theirs:.2f}x the rate |"
    return f"| {key} | {theirs * 1e3:.2f} ms | {own * 1e3:.2f} ms | {theirs / own:.2f}x as fast |"


def main() -> None:
    parser = argparse.ArgumentParser(description="The channels, ours beside the official SDK's.")
    parser.add_argument(
        "--official", required=True, metavar="PYTHON", help="interpreter that has a2c-smcp[server]==0.4.2"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=20, help="size of the blob")
    parser.add_argument("--only", choices=["ours", "official"], help="measure one stack alone")
    words = parser.parse_args()
    plan = {
        "windows": 2 * WINDOWS, "changed": CHANGED, "skills": SKILLS, "desktops": 30, "skill_lists": 30, "blobs": 3,
        "calls": 60,
    }  # fmt: skip
    seen: dict[str, list[dict[str, float]]] = {which: [] for which in STACKS if words.only in (None, which)}
    for _ in range(words.rounds):
        for which, rounds in seen.items():
            rounds.append(one_round(which, plan, words))
    print("\n| figure | official | ours | ratio |\n|---|---|---|---|")
    for key in next(iter(seen.values()))[0]:
        theirs, own = (
            median(figure[key] for figure in seen.get(which, next(iter(seen.values()))))
            for which in ("official", "ours")
        )
        print(row(key, theirs, own), flush=True)


if __name__ == "__main__":
    main()
