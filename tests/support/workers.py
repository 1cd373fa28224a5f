"""The worker processes that a Computer has spawned, seen from outside."""

from __future__ import annotations

from contextlib import suppress

import psutil

SPAWNED = "smcp_runtime.actors.placement.spawned"


def spawned_by(pid: int) -> list[int]:
    """Pids of the living workers of the Computer in this process."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children():
            with suppress(psutil.NoSuchProcess):
                if SPAWNED in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
    return found
