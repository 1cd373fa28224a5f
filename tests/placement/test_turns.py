"""Who gives way to whom for a processor, where the system lets a process say so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from smcp_runtime import fixtures
from support.peers import Peer, Peers
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

OF_ITS_OWN = """
import os
from smcp_runtime.actors.placement.spawned import let_others_end_their_turn
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
let_others_end_their_turn()
os.write(1, str(os.sched_getscheduler(0)).encode())
os._exit(0)
"""


def named(run: Peer, part: str) -> list[psutil.Process]:
    """The descendants of a process whose command line has this in it."""
    return [one for one in run.descendants() if any(part in word for word in one.cmdline())]


@pytest.mark.spec("DEC-35")
async def test_a_placed_server_and_its_worker_interrupt_nobody(peers: Peers, tmp_path: Path) -> None:
    declared = tmp_path / "servers.json"
    command, *arguments = fixtures.light_stdio()
    declared.write_text(json.dumps({"servers": {"one": {"command": command, "args": arguments}}}), "utf-8")
    words = ("computer", "run", "--name", "desk", "--mcp-config", declared, "--placement", "process")
    run = peers.start([sys.executable, "-m", "smcp_runtime.cli.main", *words])
    await run.line(r"^ready", timeout=20)
    await until(lambda: bool(named(run, "light_stdio")), 20)
    for part in ("placement.spawned", "light_stdio"):
        assert {os.sched_getscheduler(one.pid) for one in named(run, part)} == {os.SCHED_BATCH}, part
    assert os.sched_getscheduler(run.pid) == os.SCHED_OTHER


def test_a_rank_the_operator_gave_is_kept() -> None:
    shown = subprocess.run([sys.executable, "-c", OF_ITS_OWN], capture_output=True, check=True)
    assert shown.stdout.decode() == str(os.SCHED_IDLE)
