"""Killed between any two writes of any operation, the next boot yields what is declared (R-CORE-4, R-PLUGIN-26)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import crash_loop

spec = pytest.mark.spec
IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that waits for no disk, where there is one: what is proven is the order of writes."""
    parent = IN_MEMORY if os.access(IN_MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="crashes-", dir=parent) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def reports(place: Path) -> dict[str, Any]:
    """What became of all points of all operations."""
    command = [sys.executable, crash_loop.__file__, str(place)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.timeout(240)  # the first of them goes through all operations
@spec("R-CORE-4", "R-CORE-7", "R-PLUGIN-26", "R-FILE-4")
@pytest.mark.parametrize(
    ("operation", "least", "installed", "active"),
    [
        ("boot", 30, ["audit@acme"], ["audit@acme"]),
        ("install", 20, ["tides@acme", "audit@acme"], ["tides@acme"]),
        ("enable", 3, ["tides@acme", "audit@acme"], ["tides@acme", "audit@acme"]),
        ("disable", 3, ["tides@acme", "audit@acme"], ["tides@acme"]),
        ("uninstall", 8, ["tides@acme"], ["tides@acme"]),
        ("refresh", 40, ["tides@acme", "audit@acme"], ["tides@acme", "audit@acme"]),
        ("add", 10, ["tides@acme"], ["tides@acme"]),
        ("remove", 15, ["tides@acme"], ["tides@acme"]),
        ("collect", 10, ["tides@acme"], ["tides@acme"]),
    ],
)
def test_whatever_write_an_operation_dies_at_the_next_boot_is_whole(
    reports: dict[str, Any], operation: str, least: int, installed: list[str], active: list[str]
) -> None:
    report = reports[operation]
    assert report["problems"] == {}
    assert report["points"] >= least
    assert (report["after"]["installed"], report["after"]["active"]) == (installed, active)
