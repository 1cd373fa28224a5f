"""The advisory lock beside a file: read, change and write are one step for all processes (R-FILE-6).

Blocking, for at most `WAIT_LIMIT` seconds; call it off the event loop. The sidecar is never
removed: whoever removed it would let two holders in.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ....wire.errors import ConflictError, StartupError

RETRIES = 10
FIRST_DELAY = 0.05
LONGEST_DELAY = 1.0
DELAYS = tuple(min(FIRST_DELAY * 2**number, LONGEST_DELAY) for number in range(RETRIES))
WAIT_LIMIT = sum(DELAYS)


@contextmanager
def locked(path: Path, *, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Holds the lock of a file.

    Raises:
        ConflictError: Another one held it all the time (`lock_timeout`); the body did not run.
        StartupError: The sidecar cannot be opened (`unwritable`).
    """
    sidecar = Path(f"{os.path.realpath(path)}.lock")
    try:
        sidecar.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(sidecar, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StartupError(f"{path} cannot be locked: {reason}", code="unwritable", source=str(path)) from None
    try:
        _take(descriptor, path, sleep)
        try:
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, sleep: Callable[[float], None]) -> None:
    for delay in (*DELAYS, None):
        if _try(descriptor):
            return
        if delay is not None:
            sleep(delay)
    raise ConflictError(
        f"{path} is being written by another process", code="lock_timeout", source=str(path), retryable=True
    )


if sys.platform == "win32":
    import msvcrt

    def _try(descriptor: int) -> bool:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
