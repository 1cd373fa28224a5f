"""Real job objects with real processes, on Windows, which alone has them.

On other systems `conftest.py` does not collect this module at all: there is nothing in it that could be run there,
and a skip that never ends would read like a gap. The decisions are tested everywhere, in `test_job_tree.py`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable

import anyio
import psutil
import pytest

from smcp_runtime.actors.mcp.transports.process_tree import ProcessTree
from smcp_runtime.actors.mcp.transports.system import start_tree

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F-35")]

LAUNCHER = """
import subprocess, sys, time
real = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(real.pid, flush=True)
{then}
"""
"""Starts the real server as a process of its own, as the command files of package managers do."""

HELPER = """
import subprocess, sys, time
flags = subprocess.CREATE_BREAKAWAY_FROM_JOB | subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], creationflags=flags, **nothing)
print(helper.pid, flush=True)
time.sleep(600)
"""

POLITE = """
import signal, sys, time
def leave(*_):
    sys.exit(9)
signal.signal(signal.SIGBREAK, leave)
print(1, flush=True)
while True:
    time.sleep(0.05)
"""

COMPUTER = """
import asyncio, os, sys
from smcp_runtime.actors.mcp.transports.system import start_tree

async def main():
    tree = await start_tree(sys.executable, ("-c", sys.argv[1]), dict(os.environ))
    print(tree.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def started(script: str, grace: float = 0.3) -> tuple[ProcessTree, int]:
    """A tree, and the number that its server says."""
    tree = await start_tree(sys.executable, ("-c", script), dict(os.environ), grace=grace)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), tree.stdout)
    with anyio.fail_after(20):
        return tree, int(await lines.readline())


def wait(condition: Callable[[], object], timeout: float = 5.0) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < timeout, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize("then", ["real.wait()", "sys.exit(0)"])
async def test_the_real_server_ends_with_its_launcher(then: str) -> None:
    tree, real = await started(LAUNCHER.format(then=then))
    await tree.stop()
    assert tree.returncode is not None
    wait(lambda: not psutil.pid_exists(real))
    tree.close_pipes()


async def test_a_helper_that_breaks_away_from_the_job_lives_on() -> None:
    tree, helper = await started(HELPER)
    await tree.kill()
    try:
        assert not psutil.pid_exists(tree.pid)
        assert psutil.pid_exists(helper)
    finally:
        psutil.Process(helper).kill()
        tree.close_pipes()


async def test_a_server_is_asked_before_it_is_killed() -> None:
    tree, _ = await started(POLITE)
    await tree.stop()
    assert tree.returncode == 9
    tree.close_pipes()


def test_servers_end_with_a_computer_that_is_killed() -> None:
    computer = subprocess.Popen(
        [sys.executable, "-c", COMPUTER, LAUNCHER.format(then="real.wait()")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert computer.stdout is not None
        server = psutil.Process(int(computer.stdout.readline()))
        wait(server.children)
        family = [server, *server.children(recursive=True)]
    finally:
        computer.kill()
        computer.communicate(timeout=5)
    wait(lambda: not any(process.is_running() for process in family))
