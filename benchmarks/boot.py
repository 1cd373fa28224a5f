"""How long a Computer takes to start with 50 enabled plugins: 100 servers that are not started, 300 skills.

    python benchmarks/boot.py [--runs 5] [--official PYTHON]

A marketplace is made as a git repository in a temporary directory and installed once; then starts on that home are
measured, each in a process of its own from `import` to `started`. With `--official` an interpreter that holds the
official SDK boots the same home and settings beside it, in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PLUGINS, SERVERS, SKILLS = 50, 2, 6

OURS = """
import json, sys, time
begun = time.perf_counter()
import anyio
from smcp_runtime.runtime import Computer
from smcp_runtime.actors.reconcile.config.options import RuntimeOptions
anyio.run(anyio.sleep, 0)  # anyio imports its event loop at the first use
imported, spent = time.perf_counter(), time.process_time()
async def main():
    options = RuntimeOptions(start_wait_s=0.0, auto_start=False, drain_timeout_s=0.1)
    async with Computer.from_config({"name": "desk"}, options) as computer:
        skills = 0
        while skills < 300:  # they count as there once an Agent would get them
            skills = len((await computer.skills()).skills)
            await anyio.sleep(0.002)
        started, cpu = time.perf_counter(), time.process_time() - spent
        servers = len(await computer.manage.servers())
        times = {"import": imported - begun, "start": started - imported, "cpu": cpu}
        print(json.dumps({**times, "skills": skills, "servers": servers}))
anyio.run(main)
"""

OFFICIAL = """
import asyncio, json, logging, sys, time
logging.disable(logging.CRITICAL)
begun = time.perf_counter()
from a2c_smcp.computer.computer import Computer
imported, spent = time.perf_counter(), time.process_time()
async def main():
    computer = Computer(name="desk", auto_connect=False)
    await computer.boot_up()
    started, cpu = time.perf_counter(), time.process_time() - spent
    skills = len(computer.skill_registry.active_refs()) if hasattr(computer, "skill_registry") else -1
    times = {"import": imported - begun, "start": started - imported, "cpu": cpu}
    print(json.dumps({**times, "skills": skills, "servers": -1}))
    sys.stdout.flush()
    import os; os._exit(0)
asyncio.run(main())
"""


def make_fleet(root: Path) -> Path:
    """A repository with all plugins."""
    names = [f"ship-{number:02d}" for number in range(PLUGINS)]
    entries = [{"name": name, "source": name, "version": "1.0.0"} for name in names]
    write(root / ".tfrobot-plugin/marketplace.json", {"name": "fleet", "owner": {"name": "bench"}, "plugins": entries})
    for name in names:
        folder = root / "plugins" / name
        write(folder / ".tfrobot-plugin/plugin.json", {"name": name, "version": "1.0.0"})
        for number in range(SERVERS):
            server = f"{name}-{number}"
            parameters = {"command": "true", "args": [], "env": None, "cwd": None}
            parameters |= {"encoding": "utf-8", "encoding_error_handler": "strict"}
            entry = {"name": server, "type": "stdio", "disabled": True, "forbidden_tools": [], "tool_meta": {}}
            write(folder / f"mcp-servers/{server}.json", {**entry, "server_parameters": parameters})
        for number in range(SKILLS):
            head = f"---\nname: work-{number}\ndescription: Does work {number} on {name}. Use it for work.\n---\n\n"
            path = folder / f"skills/work-{number}/SKILL.md"
            path.parent.mkdir(parents=True)
            path.write_text(head + "Do it.\n" * 50)
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-q", "-m", "fleet"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def write(path: Path, value: Any) -> None:
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def measure(python: str, program: str, environ: dict[str, str], folder: Path, runs: int) -> list[dict[str, float]]:
    """What each run printed."""
    found = []
    for _ in range(runs):
        done = subprocess.run(
            [python, "-c", program], env=environ, cwd=folder, check=False, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        found.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return found


def report(title: str, found: list[dict[str, float]]) -> None:
    """One line for people."""
    starts, cpu, imports = ([one[name] * 1000 for one in found] for name in ("start", "cpu", "import"))
    totals = [begun + loaded for begun, loaded in zip(starts, imports, strict=True)]
    seen = f"{found[-1]['skills']} skills, {found[-1]['servers']} servers"
    print(
        f"{title}: {statistics.median(totals):.0f} ms (min {min(totals):.0f}, max {max(totals):.0f}), of which "
        f"import {statistics.median(imports):.0f}, start {statistics.median(starts):.0f} (min {min(starts):.0f}, "
        f"max {max(starts):.0f}); processor of the start {statistics.median(cpu):.0f} ms; {seen}"
    )


def main() -> None:
    """Runs the comparison."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("--runs", type=int, default=5)
    words.add_argument("--official", help="Interpreter with the official SDK.")
    given = words.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="boot-"))
    try:
        fleet = make_fleet(folder / "fleet")
        environ = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": "", "XDG_STATE_HOME": ""}
        ids = [f"ship-{number:02d}@fleet" for number in range(PLUGINS)]
        write(
            folder / ".config/a2c/settings.json",
            {
                "extraKnownMarketplaces": {"fleet": {"source": {"type": "git", "url": f"file://{fleet}"}}},
                "trustedMarketplaces": ["fleet"],
                "installedPlugins": ids,
                "enabledPlugins": dict.fromkeys(ids, True),
            },
        )
        (folder / "project").mkdir()
        place = folder / "project"
        report("ours, first boot (clones)", measure(sys.executable, OURS, environ, place, 1))
        ours: list[dict[str, float]] = []
        theirs: list[dict[str, float]] = []
        for _ in range(given.runs):  # in turns, so that what else the machine does hits both
            ours += measure(sys.executable, OURS, environ, place, 1)
            if given.official:
                theirs += measure(given.official, OFFICIAL, environ, place, 1)
        report("ours", ours)
        if theirs:
            report("official SDK", theirs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
