"""Where packages are made before they are published: a directory of this life below `<home>/.staging`. Blocking.

A lock says that the life goes on. What lives before left behind, killed in the middle, is
recognised by a lock that nobody holds and deleted by the next one (C-SEC-18).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import sys
import time
from typing import Final

from .publish import discard, make_directory

FOLDER: Final = ".staging"
_STALE: Final = 86_400.0
"""Seconds after which a directory counts as left behind where the system has no locks."""


class Workspace:
    """Made by `open`; on the same file system as the packages it is for.

    Attributes:
        folds_case: Whether names that differ in case alone are one name on this file system (C-SKILL-13).
        name_bytes: Longest name a directory can have.
    """

    def __init__(self, home: str) -> None:
        self.home = home
        folder = os.path.join(home, FOLDER)
        make_directory(folder)
        sweep(folder)
        self._path, self._lock = _claim(folder)
        self._numbers = itertools.count(1)
        self.folds_case = self._probe_case()
        self.name_bytes = _name_bytes(folder)

    def fresh(self, suffix: str = "") -> str:
        """A path that nothing has yet."""
        return os.path.join(self._path, f"{next(self._numbers)}{suffix}")

    def bundle_directory(self, name: str) -> str:
        """Where the packages of a server are."""
        return os.path.join(self.home, "mcp", name)

    def clear(self) -> None:
        """Deletes everything unpublished; to be followed by `release`."""
        discard(self._path)
        with contextlib.suppress(OSError):
            os.unlink(self._path + ".lock")

    def release(self) -> None:
        """Gives the lock up, which is all that is needed for the rest to be swept by whoever comes next."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _probe_case(self) -> bool:
        probe = os.path.join(self._path, "Case")
        os.mkdir(probe, 0o700)
        try:
            return os.path.exists(os.path.join(self._path, "cASE"))
        finally:
            os.rmdir(probe)


def sweep(folder: str) -> None:
    """Deletes the workspaces of lives that are over, and nothing else."""
    for entry in os.listdir(folder):
        if not entry.endswith(".lock"):
            continue
        lock = os.path.join(folder, entry)
        try:
            fd = os.open(lock, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            continue
        try:
            if _lock(fd, lock):
                discard(lock.removesuffix(".lock"))
                discard(lock)
        finally:
            os.close(fd)


def _claim(folder: str) -> tuple[str, int]:
    while True:
        path = os.path.join(folder, secrets.token_hex(8))
        fd = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        # A sweep can come between making and locking the file; then it is gone and of no use.
        if _lock(fd, None) and os.path.exists(path + ".lock"):
            os.mkdir(path, 0o700)
            return path, fd
        os.close(fd)


def _name_bytes(folder: str) -> int:
    if not hasattr(os, "pathconf"):
        return 255
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (OSError, ValueError):
        return 255


if sys.platform != "win32":
    import fcntl

    def _lock(fd: int, _: str | None) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

else:

    def _lock(fd: int, existing: str | None) -> bool:
        return existing is None or time.time() - os.fstat(fd).st_mtime > _STALE
