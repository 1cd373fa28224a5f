"""A very large skill file read, and a very large upload, through the whole stack: how fast, and in how much memory.

Server, Computer and Agent are processes of their own. Memory is the growth of the resident set while bytes go by,
at its peak, over what each process had after a small transfer of the same kind.

    python benchmarks/large_blobs.py [--megabytes 1024]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from end_to_end import process

from smcp_runtime.agent import AsyncAgent

MB = 1024 * 1024
PIECE = os.urandom(MB)


class Watch:
    """The peak of the resident set of some processes, looked at every few milliseconds."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}
        self.peaks = self.now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def now(self) -> dict[str, int]:
        return {name: process.memory_info().rss for name, process in self._processes.items()}

    def _look(self) -> None:
        while not self._done.wait(0.005):
            for name, size in self.now().items():
                self.peaks[name] = max(self.peaks[name], size)

    def close(self) -> None:
        self._done.set()
        self._thread.join()


@contextmanager
def stack(folder: Path, megabytes: int) -> Iterator[tuple[str, dict[str, int]]]:
    """URL of the Server, and the process ids of Server and Computer."""
    smcp = [sys.executable, "-m", "smcp_runtime.cli.main"]
    skill = folder / "home" / "user" / "data"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: data\ndescription: large files\n---\n")
    for name, size in (("small.bin", 8), ("large.bin", megabytes)):
        with (skill / name).open("wb") as file:
            for _ in range(size):
                file.write(PIECE)
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"landingRoot": str(folder / "landing")}))
    cap = str((megabytes + 1) * MB)
    env = {**os.environ, "HOME": str(folder), "A2C_SKILL_MAX_SIZE": cap, "A2C_UPLOAD_MAX_BYTES": cap}
    with ExitStack() as open_:
        line = open_.enter_context(process(*smcp, "server", "--port", "0", wait_for="^ready "))
        url, server = re.findall(r"url=(\S+) pid=(\d+)", line)[0]
        words = ["--name", "bench", "--home", str(folder / "home"), "--settings", str(settings)]
        words += ["--url", url, "--office", "bench-office"]
        line = open_.enter_context(process(*smcp, "computer", "run", *words, wait_for="^ready ", env=env))
        computer = re.findall(r"pid=(\d+)", line)[0]
        yield url, {"server": int(server), "computer": int(computer), "agent": os.getpid()}


async def read(agent: AsyncAgent, name: str, limit: int) -> int:
    file = await agent.skill("bench", "data", name)
    size = 0
    async for chunk in agent.stream_blob("bench", str(file.blob_handle), limit=limit):
        size += len(chunk)
    return size


async def measure(megabytes: int, folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = {}
    skill, limit = folder / "home" / "user" / "data", (megabytes + 1) * MB
    with stack(folder, megabytes) as (url, pids):
        async with AsyncAgent(url, name="bench-agent", office="bench-office", watch_tools=False) as agent:
            for what in ("read", "upload"):
                for name in ("small.bin", "large.bin"):
                    watch = Watch(pids)
                    before, began = watch.now(), time.perf_counter()
                    if what == "read":
                        size = await read(agent, name, limit)
                    else:
                        size = (await agent.upload("bench", skill / name)).total_size
                    took = time.perf_counter() - began
                    watch.close()
                if size != megabytes * MB:
                    raise SystemExit(f"{what}: {size} bytes instead of {megabytes * MB}")
                grown = {who: (watch.peaks[who] - before[who]) / MB for who in pids}
                result[what] = {"seconds": took, "rate": size / 1e6 / took, "grown": grown}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Very large transfers in bounded memory.")
    parser.add_argument("--megabytes", type=int, default=1024)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(measure(words.megabytes, Path(name)))
    print(f"\n{words.megabytes} MiB\n")
    print("| what | seconds | MB/s | Server grew | Computer grew | Agent grew |\n|---|---|---|---|---|---|")
    for what, facts in found.items():
        grown = " | ".join(f"{facts['grown'][who]:.1f} MiB" for who in ("server", "computer", "agent"))
        print(f"| {what} | {facts['seconds']:.1f} | {facts['rate']:.1f} | {grown} |")


if __name__ == "__main__":
    main()
