"""Watches the drop-in roots, those that come and go included, and tells of changes once they are over (C-SKILL-76).

All work with the file system happens in a thread of its own. News is told when it has been
quiet for a moment, so that a storm of thousands of changes is one piece of it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from watchfiles import watch

logger = logging.getLogger(__name__)

Standing = dict[str, tuple[int, int]]
"""Real path of each root that exists, with its device and inode."""
_STEP = 25
"""Milliseconds for which the library gathers changes of its own accord."""
OnChange = Callable[[frozenset[str] | None], None]
"""Takes the changed paths of a batch; `None` when anything may have changed unseen."""


class WatchRules(msgspec.Struct, frozen=True):
    """How to watch. Times in seconds.

    Attributes:
        quiet: How long nothing must happen before a batch is told.
        longest: How long a batch is gathered at most.
        poll: Interval of polling, and of looking whether a root has come or gone (D-23).
        polling: Whether to poll even where the system tells of changes.
    """

    quiet: float = 0.2
    longest: float = 2.0
    poll: float = 1.0
    polling: bool = False


class DropInWatch:
    """Watches for as long as `run` runs.

    Attributes:
        watching: Whether changes are seen from now on.
        roots: Real paths of the roots watched now.
    """

    def __init__(self, rules: WatchRules, on_change: OnChange) -> None:
        self._rules = rules
        self._on_change = on_change
        self._wanted: tuple[str, ...] = ()
        self._renew = anyio.Event()
        self._stop = threading.Event()
        self._polling = rules.polling
        # A thread that waits for changes must not take a place from those that work.
        self._thread = anyio.CapacityLimiter(2)
        self._gathered: set[str] = set()
        self._arrived = anyio.Event()
        self.watching = False
        self.roots: tuple[str, ...] = ()

    def want(self, roots: Sequence[str]) -> None:
        """The roots to watch from now on; they need not exist."""
        if tuple(roots) != self._wanted:
            self._wanted = tuple(roots)
            self._renew.set()
            self._stop.set()

    async def run(self) -> None:
        """Watches until it is cancelled."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell)
                await self._watch()
        finally:
            self.watching = False
            self._stop.set()

    async def _watch(self) -> None:
        while True:
            self._renew = anyio.Event()
            standing = await self._look()
            if self._renew.is_set():
                continue
            if standing:
                await self._follow(standing)
            else:
                with anyio.move_on_after(self._rules.poll):
                    await self._renew.wait()

    async def _tell(self) -> None:
        """Tells what was gathered once nothing new arrives, or when it has been gathered for long enough."""
        rules = self._rules
        while True:
            await self._arrived.wait()
            until = anyio.current_time() + rules.longest
            while self._arrived.is_set():
                self._arrived = anyio.Event()
                with anyio.move_on_after(min(rules.quiet, until - anyio.current_time())):
                    await self._arrived.wait()
            gathered, self._gathered = self._gathered, set()
            self._on_change(frozenset(gathered))

    def _gather(self, paths: Iterable[str]) -> None:
        self._gathered.update(paths)
        self._arrived.set()

    async def _follow(self, standing: Standing) -> None:
        self._stop = threading.Event()
        self.roots = tuple(standing)
        try:
            batches = self._batches(standing)
            while (batch := await self._next(batches)) is not None:
                if not self.watching:
                    self.watching = True
                    # What happened between the last scan and now went unseen.
                    self._on_change(None)
                if batch:
                    self._gather(path for _, path in batch)
                if self._renew.is_set():
                    break
                if await self._look() != standing:
                    self._gather(standing)
                    break
        # Its own class of errors is not public; it derives from RuntimeError.
        except (OSError, RuntimeError) as error:
            await self._manage_without(error)
        finally:
            self._stop.set()
            self.watching = False

    def _batches(self, standing: Standing) -> Iterator[set[Any]]:
        rules = self._rules
        return watch(
            *standing,
            watch_filter=None,
            debounce=_ms(rules.quiet),
            step=_STEP,
            stop_event=self._stop,
            rust_timeout=_ms(rules.poll),
            yield_on_timeout=True,
            raise_interrupt=False,
            force_polling=True if self._polling else None,
            poll_delay_ms=_ms(rules.poll),
            ignore_permission_denied=True,
        )

    async def _next(self, batches: Iterator[set[Any]]) -> set[Any] | None:
        """The next batch, empty when there was none for a while; `None` after a stop."""
        return await anyio.to_thread.run_sync(next, batches, None, abandon_on_cancel=True, limiter=self._thread)

    async def _look(self) -> Standing:
        return await anyio.to_thread.run_sync(look, self._wanted, abandon_on_cancel=True, limiter=self._thread)

    async def _manage_without(self, error: Exception) -> None:
        """Polls when the system does not tell of changes; when not even that works, tries again later."""
        logger.warning("watching drop-in skills failed (%s); polling from now on", type(error).__name__)
        if self._polling:
            await anyio.sleep(self._rules.poll)
        self._polling = True


def look(roots: Sequence[str]) -> Standing:
    """The roots that are directories now. Blocking."""
    standing: Standing = {}
    for root in roots:
        real = os.path.realpath(root)
        try:
            info = os.stat(real)
        except OSError:
            continue
        if os.path.isdir(real):
            standing[real] = (info.st_dev, info.st_ino)
    return standing


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
