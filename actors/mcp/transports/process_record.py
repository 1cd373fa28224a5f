"""The record of our own processes on disk, and the sweep of what an earlier life left behind (DEC-8).

One small file per launched server, written when it starts and removed when it is gone, holds who
owned it and who it was. A later start ends only what is certainly ours: the owner is no longer
there, and pid, start time and command still match; beside these, what is left in their session.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from .leftovers import LINUX, members

SWEEP_WAIT = 2.0
"""Seconds between SIGTERM and SIGKILL in a sweep."""


class ProcessIdentity(msgspec.Struct, frozen=True):
    """What tells a process from a later one with the same number.

    `started` is its start time as the system states it, `command` its command line, cut.
    """

    pid: int
    started: str
    command: str


class ProcessRecord(msgspec.Struct, frozen=True):
    """One launched server: the Computer that owned it, its launcher and itself."""

    bundle_id: str
    owner: ProcessIdentity
    guard: ProcessIdentity
    server: ProcessIdentity


def identify(pid: int) -> ProcessIdentity | None:
    """Who the process is now; `None` when there is none, or nothing can be learnt about it."""
    if LINUX:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            boot = _boot()
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            return None
        if stat[0] == b"Z":
            return None
        return ProcessIdentity(pid, f"{boot} {stat[19].decode()}", _digest(command))
    return _identify_by_ps(pid)


class ProcessRecords:
    """The records of one Computer home.

    Args:
        folder: Made when needed, readable by its owner only; also an attribute.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, bundle_id: str, guard: int, server: int) -> Path | None:
        """Records a server that has just started; the path to give to `remove`.

        A disk that refuses costs the record, not the start: the launcher ends the tree all the same.
        """
        identities = [identify(pid) for pid in (os.getpid(), guard, server)]
        owner, guarding, serving = identities
        if owner is None or guarding is None or serving is None:
            return None
        path = self.folder / f"{guard}-{server}.json"
        record = ProcessRecord(bundle_id, owner, guarding, serving)
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = path.with_suffix(".new")
            beside.write_bytes(msgspec.json.encode(record))
            beside.replace(path)
        except OSError:
            return None
        return path

    def remove(self, path: Path | None) -> None:
        """Forgets a server that is gone."""
        if path is not None:
            with suppress(OSError):
                path.unlink()

    def sweep(self) -> tuple[str, ...]:
        """Ends what dead Computers left behind; the bundle_ids concerned. Blocks for at most a few seconds.

        Records of a living Computer are left alone, so two of them may share a home.
        """
        ended: list[str] = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                record = msgspec.json.decode(path.read_bytes(), type=ProcessRecord)
            except (OSError, msgspec.DecodeError):
                record = None
            if record is not None and identify(record.owner.pid) == record.owner:
                continue
            if record is not None and _end(record):
                ended.append(record.bundle_id)
            self.remove(path)
        return tuple(ended)


def _end(record: ProcessRecord) -> bool:
    """Ends what is left of the launcher, the server and their session; whether anything was."""
    leaders = (record.server.pid, record.guard.pid)
    left = _left(record)
    if not left:
        return False
    for number, wait in ((signal.SIGTERM, SWEEP_WAIT), (signal.SIGKILL, 0.5)):
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                (os.killpg if pid in leaders else os.kill)(pid, number)
        deadline = time.monotonic() + wait
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = _left(record)
        if not left:
            break
    return True


def _left(record: ProcessRecord) -> list[int]:
    """The processes that are certainly the record's."""
    left = [member.pid for member in (record.server, record.guard) if identify(member.pid) == member]
    if LINUX and record.guard.started.startswith(_boot()):
        # A launcher and a server that are gone are known by number only: a stranger would have to have got both, as a
        # group other than the first of its session.
        whole = record.guard.pid in left
        found = [pid for pid in members(record.guard.pid) if whole or _group_of(pid) == record.server.pid]
        left += [pid for pid in found if pid not in left]
    return left


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _identify_by_ps(pid: int) -> ProcessIdentity | None:
    asked = subprocess.run(
        ["ps", "-o", "lstart=", "-o", "args=", "-p", str(pid)],
        capture_output=True,
        check=False,
        text=True,
        timeout=5,
        env={"LC_ALL": "C", "PATH": os.defpath},
    )
    line = asked.stdout.strip()
    if asked.returncode or not line:
        return None
    return ProcessIdentity(pid, line[:24], _digest(line[24:].strip()))


def _digest(command: str) -> str:
    """A command line as it may be kept on disk: arguments can hold secrets, so only its hash is (R-INPUT-23)."""

    return hashlib.sha256(command.encode()).hexdigest()[:32]
