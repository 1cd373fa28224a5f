"""Which of some processes still run; one that ends while it is looked at does not."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psutil


def alive(family: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that run; a zombie has ended."""
    return [process for process in family if runs(process)]


def runs(process: psutil.Process) -> bool:
    """Whether a process runs."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
