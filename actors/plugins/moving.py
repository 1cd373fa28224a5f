"""The moment at which trees below a home change places, one process at a time (R-CORE-1, R-FILE-6). Blocking.

Fetching and judging need no lock: they work in a place of their own. Who copies out of a catalog, moves a tree in, or
deletes one holds this lock, so that nobody copies half of what another is replacing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...wire.errors import ConflictError
from ..reconcile.files.lock import locked
from .store import catalogs_root

PATIENCE = 60.0
"""Seconds; what is done under the lock is done on this disk, but may be large."""


@contextmanager
def moving(home: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Holds the trees of a home.

    Raises:
        ConflictError: Another process held them all the time (`lock_timeout`).
        StartupError: The lock cannot be opened (`unwritable`).
    """
    ends = time.monotonic() + patience
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(catalogs_root(home)))
                break
            except ConflictError:
                if time.monotonic() >= ends:
                    raise
        yield
