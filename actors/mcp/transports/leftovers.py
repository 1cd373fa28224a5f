"""What is left of a server's session when its launcher did not end it (R-MCP-26, DEC-8).

A launcher that was killed takes only its direct child with it. Whoever learns of that finds the rest by the session,
which the launcher led and whose number the system gives to nobody while one process is left in it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

LINUX: bool = sys.platform.startswith("linux")
"""Declared wider than the checker would infer, which reads `sys.platform` as that of its own run."""


def members(session: int) -> list[int]:
    """The processes of a session that still run."""
    return [pid for pid in _pids() if _session_of(pid) == session and not _is_over(pid)]


def kill_members(session: int) -> bool:
    """Kills what still runs in a session; whether there was anything."""
    left = members(session)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(left)


def _pids() -> list[int]:
    if LINUX:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    asked = subprocess.run(
        ["ps", "-A", "-o", "pid="], capture_output=True, check=False, text=True, timeout=5, env={"PATH": os.defpath}
    )
    return [int(line) for line in asked.stdout.split()]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _is_over(pid: int) -> bool:
    """Whether it has ended and only waits to be collected, which in some containers nobody does."""
    if not LINUX:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True
