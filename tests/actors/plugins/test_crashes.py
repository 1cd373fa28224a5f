"""Killed between any two writes of any operation, the next boot yields what is declared (R-CORE-4, R-PLUGIN-26)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import crash_loop

spec = pytest.mark.spec


@spec("R-CORE-4", "R-CORE-7", "R-PLUGIN-26", "R-FILE-4")
@pytest.mark.parametrize(
    ("operation", "installed", "active"),
    [
        ("boot", ["audit@acme"], ["audit@acme"]),
        ("install", ["tides@acme", "audit@acme"], ["tides@acme"]),
        ("enable", ["tides@acme", "audit@acme"], ["tides@acme", "audit@acme"]),
        ("disable", ["tides@acme", "audit@acme"], ["tides@acme"]),
        ("uninstall", ["tides@acme"], ["tides@acme"]),
        ("refresh", ["tides@acme", "audit@acme"], ["tides@acme", "audit@acme"]),
    ],
)
def test_whatever_write_an_operation_dies_at_the_next_boot_is_whole(
    tmp_path: Path, operation: str, installed: list[str], active: list[str]
) -> None:
    command = [sys.executable, crash_loop.__file__, str(tmp_path), operation]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert report["problems"] == {}
    assert report["points"] >= 3
    assert (report["after"]["installed"], report["after"]["active"]) == (installed, active)
