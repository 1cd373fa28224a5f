"""Short versions of the long runs: the soak, and the cycles of faults that must leave nothing behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.peers import Peers
from support.tree import ROOT

pytestmark = pytest.mark.timeout(120)

FAULTS = 10
"""Kinds of faults of the 13 in a deck that fit into the time also where the machine is busy."""


def run(peers: Peers, script: str, *words: str, into: Path) -> dict[str, Any]:
    """The result of one of the programs, which ended as it says with 0 where nothing was wrong."""
    program = peers.start([sys.executable, ROOT / "benchmarks" / script, *words, "--json", into])
    status = program.wait_exit(timeout=110)
    said = "\n".join([*program.lines, *program.errors])
    assert status == 0, said
    result: dict[str, Any] = json.loads(into.read_text())
    return {**result, "said": said}


def test_a_soak_of_twenty_seconds_has_no_hung_and_no_wrong_call(peers: Peers, tmp_path: Path) -> None:
    words = ("--minutes", "0.33", "--seed", "3", "--every", "0.7")
    result = run(peers, "soak.py", *words, into=tmp_path / "soak.json")
    assert (result["hung"], result["wrong"], result["lies"]) == (0, [], []), result["said"]
    assert (result["unready"], result["complaints"]) == ([], [])
    assert result["received"] >= result["ok"] > 300, result["said"]
    assert len(result["faults"]) >= FAULTS, result["said"]
    assert f"| calls | {result['calls']:,} |" in result["said"]


def test_cycles_of_faults_leave_no_descriptor_no_task_and_no_process(peers: Peers, tmp_path: Path) -> None:
    result = run(peers, "fault_cycles.py", "--cycles", "20", into=tmp_path / "cycles.json")
    assert (result["cycles"], result["hung"], result["wrong"]) == (20, 0, 0)
    for what in ("descriptors", "tasks", "processes"):
        first, last = result[what]
        assert last - first < 8, result["said"]
