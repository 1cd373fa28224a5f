"""Puts a finished package in its place by rename, so that nobody ever sees half of one. Blocking.

Where the system can exchange two directories in one step, it does; elsewhere there is an
instant without the package, and a reader that meets it waits for `swapping` and looks again (C-SKILL-17, C-SKILL-23).
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from .package_writer import CHUNK

LOCAL_FILE: Final = ".skillenv"
"""What a user put into a staged package and keeps when the package is replaced."""

swapping: Final = threading.Lock()
"""Held while packages change places: one of them may be away for an instant."""

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def make_directory(path: str) -> None:
    """A directory with those above it; what we make is 0700, what exists is left alone (C-SKILL-12)."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_directory(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def publish(package: str, live: str) -> None:
    """Moves `package` to `live`; what was there is deleted.

    Raises:
        OSError: It could not be moved. What was there is still there.
    """
    make_directory(os.path.dirname(live))
    _carry_over(live, package)
    aside = package + ".old"
    with swapping:
        if not os.path.lexists(live):
            os.rename(package, live)
        elif not exchange(package, live):
            os.rename(live, aside)
            try:
                os.rename(package, live)
            except BaseException:
                os.rename(aside, live)
                raise
    discard(aside)
    discard(package)


def exchange(first: str, second: str) -> bool:
    """Exchanges two directories in one step; `False` where the system or file system cannot."""
    if _renameat2 is None:
        return False
    done: int = _renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)
    return done == 0


def discard(path: str) -> None:
    """Deletes a directory tree, or the link or file that is there instead; failures leave the rest for later."""
    if os.path.islink(path) or os.path.isfile(path):
        with contextlib.suppress(OSError):
            os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def tree_signature(directory: str, most_entries: int, skips: Callable[[str], bool] = lambda _: False) -> bytes | None:
    """What the files of a package look like from outside: names, sizes and times, no content.

    Args:
        skips: Says of a name that it does not count.
    Returns:
        `None` for a package that is gone, unreadable, or has too many entries.
    """
    seen = hashlib.sha256()
    pending, count = [directory], 0
    try:
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in sorted(entries, key=lambda found: found.name):
                    count += 1
                    if count > most_entries:
                        return None
                    if skips(entry.name):
                        continue
                    info = entry.stat(follow_symlinks=False)
                    facts: tuple[object, ...] = (entry.name, info.st_mode)
                    if stat.S_ISDIR(info.st_mode):
                        # Its time changes with what is skipped, too.
                        pending.append(entry.path)
                    else:
                        facts = (*facts, info.st_ino, info.st_mtime_ns, info.st_size)
                    seen.update(repr(facts).encode("utf-8", "surrogatepass"))
    except OSError:
        return None
    return seen.digest()


def _carry_over(live: str, package: str) -> None:
    source, target = os.path.join(live, LOCAL_FILE), os.path.join(package, LOCAL_FILE)
    if os.path.lexists(target):
        return
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        fd = os.open(source, flags)
    except OSError:
        return
    with os.fdopen(fd, "rb") as old:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return
        new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(new, "wb") as copy:
            shutil.copyfileobj(old, copy, CHUNK)


def _find_renameat2() -> Any:
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


_renameat2: Final = _find_renameat2()
