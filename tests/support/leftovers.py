"""Proof that a test leaves nothing behind: no child process, no task of the event loop, no open socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil

from .waiting import until

SETTLE = 5.0
"""Seconds for what is on its way out to be gone."""


PARDONED = ("TestRunner.", "AsyncSocket._send_ping")
"""Those of the test runner, and heartbeats that python-engineio lets sleep on after their socket has closed."""


def processes() -> set[int]:
    """Living descendants of this process, without the tracker that `multiprocessing` keeps for all its life."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        try:
            ours = "multiprocessing.resource_tracker" not in " ".join(child.cmdline())
            if ours and child.status() != psutil.STATUS_ZOMBIE:
                found.add(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def zombies() -> set[int]:
    """Children nobody has waited for."""
    found = set()
    for child in psutil.Process().children():
        try:
            if child.status() == psutil.STATUS_ZOMBIE:
                found.add(child.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def sockets() -> set[str]:
    """Open sockets and pipes of this process, by what the descriptor points at."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith(("socket:", "pipe:")):
            found.add(target)
    return found


def tasks() -> set[asyncio.Task[object]]:
    """Unfinished tasks of this loop, the current one and those that are nobody's fault excepted."""
    others = (task for task in asyncio.all_tasks() if task is not asyncio.current_task())
    return {task for task in others if not getattr(task.get_coro(), "__qualname__", "").startswith(PARDONED)}


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Fails when something that was not there before is still there `SETTLE` seconds after the body."""
    before = (processes(), zombies(), sockets(), tasks())
    yield
    left: list[set[object]] = []

    def settled() -> bool:
        left[:] = [
            set(now) - set(then)
            for now, then in zip(  # type: ignore[arg-type]
                (processes(), zombies(), sockets(), tasks()), before, strict=True
            )
        ]
        return not any(left)

    try:
        await until(settled, SETTLE)
    except TimeoutError:
        named = zip(("processes", "zombies", "sockets", "tasks"), left, strict=True)
        shown = {name: [_show(item) for item in items] for name, items in named if items}
        raise AssertionError(f"left behind: {shown}") from None


def _show(item: object) -> str:
    if isinstance(item, int):
        try:
            return f"{item} {' '.join(psutil.Process(item).cmdline())}"
        except psutil.NoSuchProcess:
            return str(item)
    return repr(item)
