"""Keeps the lists of one session fresh: rounds in the background, merged, and published only when they differ (DEC-4).

A list is published as a whole and only if nothing changed while it was read (F-41), unless a server never
stops changing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..failures import RequestFailed
from .listing import Kind, Listing
from .refresh import Refresh
from .session import Session

DISCARDS = 3
"""Readings in a row that are thrown away because the list changed meanwhile, before one is taken all the same."""

UNDECLARED_LIMIT = 1.0
"""Seconds in which tools that were not declared have to show."""

Publish = Callable[[Kind, bytes, tuple[str, ...]], None]


class Lists:
    """The tool and resource lists of one session.

    Args:
        publish: Takes a list as a JSON array, and its diagnostics.
        interval: Seconds after which a list whose changes are not announced is read again.
    """

    def __init__(self, session: Session, publish: Publish, interval: float) -> None:
        self._session = session
        self._publish = publish
        self._interval = interval
        self._loop = asyncio.get_running_loop()
        capabilities = session.capabilities
        declared: list[tuple[Kind, bool, bool]] = [
            ("tools", capabilities.tools, capabilities.tools_changed),
            ("resources", capabilities.resources, capabilities.resources_changed),
        ]
        self._announced: dict[Kind, bool] = {}
        self._refresh: dict[Kind, Refresh] = {}
        self._wake: dict[Kind, asyncio.Event] = {}
        self._ended: dict[Kind, asyncio.Event] = {}
        self._discards: dict[Kind, int] = {}
        self._published: dict[Kind, bytes] = {}
        self._failures: dict[Kind, str] = {}
        self._notes: dict[Kind, tuple[str, ...]] = {}
        for kind, there, announced in declared:
            if there:
                self._add(kind, announced=announced)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The lists that the server has."""
        return tuple(self._announced)

    def size(self, kind: Kind) -> int | None:
        """Bytes of the list as last read; `None` if it never was."""
        found = self._published.get(kind)
        return None if found is None else len(found)

    def notes(self) -> tuple[str, ...]:
        """Diagnostics of the last readings."""
        failures = [f"{kind}/list: {text}" for kind, text in self._failures.items()]
        return (*failures, *(note for notes in self._notes.values() for note in notes))

    def mark(self, kind: Kind) -> None:
        """The list has changed."""
        if kind in self._refresh:
            self._refresh[kind].mark()
            self._wake[kind].set()

    def suspect(self) -> None:
        """What the server does not announce may have changed."""
        now = self._loop.time()
        for kind, announced in self._announced.items():
            if not announced and self._refresh[kind].suspect(now):
                self._wake[kind].set()

    async def fresh(self, kind: Kind) -> bytes | None:
        """The list as it was read last, once no round of it is due or under way; `None` if it never was."""
        if kind in self._refresh:
            if not self._announced[kind] and self._refresh[kind].need(self._loop.time()):
                self._wake[kind].set()
            while self._refresh[kind].stale:
                await self._ended[kind].wait()
        return self._published.get(kind)

    def forget(self) -> None:
        """A new session: everything is read and published again."""
        self._published.clear()
        for kind in self._announced:
            self.mark(kind)

    async def find_undeclared_tools(self) -> None:
        """Looks for tools of a server that forgot to declare them, which is not asked for long."""
        try:
            page = await self._session.page("tools", timeout=UNDECLARED_LIMIT)
        except RequestFailed:
            return
        listing = Listing("tools")
        listing.add(page)
        if listing.items():
            self._add("tools", announced=False)

    async def read(self, kind: Kind) -> None:
        """One round: reads the list and publishes it if it differs."""
        try:
            await self._round(kind)
        finally:
            ended, self._ended[kind] = self._ended[kind], asyncio.Event()
            ended.set()

    async def _round(self, kind: Kind) -> None:
        refresh = self._refresh[kind]
        refresh.begin(self._loop.time())
        try:
            listing = await self._session.list_all(kind)
        except RequestFailed as failure:
            self._failures[kind] = str(failure)
            refresh.end()
            return
        except asyncio.CancelledError:
            refresh.end()
            raise
        self._failures.pop(kind, None)
        if refresh.end() and self._discards[kind] < DISCARDS:
            self._discards[kind] += 1
            return
        self._discards[kind] = 0
        self._notes[kind] = listing.notes()
        items = listing.json()
        if items != self._published.get(kind):
            self._published[kind] = items
            self._publish(kind, items, listing.notes())

    def _add(self, kind: Kind, *, announced: bool) -> None:
        self._announced[kind] = announced
        self._refresh[kind] = Refresh(self._loop.time())
        self._wake[kind] = asyncio.Event()
        self._ended[kind] = asyncio.Event()
        self._discards[kind] = 0

    async def keep(self, kind: Kind) -> None:
        """Reads a list whenever it is due, as long as the session lasts."""
        refresh, wake = self._refresh[kind], self._wake[kind]
        regular = self._loop.time() + self._interval
        while True:
            wake.clear()
            now = self._loop.time()
            if now >= regular:
                regular = now + self._interval
                if not self._announced[kind] or kind in self._failures:
                    refresh.mark()
            due = refresh.due(now)
            if due is not None and due <= now:
                await self.read(kind)
                continue
            until = regular if due is None else min(due, regular)
            try:
                async with asyncio.timeout_at(until):
                    await wake.wait()
            except TimeoutError:
                pass  # the next round is due
