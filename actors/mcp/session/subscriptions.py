"""Keeps one session subscribed to what is wanted, each URI once, in the way of its era (C-DESK-8, C-DESK-29).

A handshake-era server is told each URI; a 2026-07-28 server is listened to on one stream, which is opened
anew when the wish changes or the stream ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial

import msgspec

from ..failures import RequestFailed
from .session import Session

FIRST_RETRY = 1.0
MAX_RETRY = 30.0
"""Bounds of the growing delay, in seconds, before an ended stream is opened again."""
STABLE = 30.0
"""Seconds after which an ended stream is opened again without the grown delay."""


class Subscriptions:
    """The subscriptions of one session.

    Args:
        on_gap: Called when announcements may have been missed until now: what is listed is to be listed again, and
            these URIs may have new contents.
    """

    def __init__(self, session: Session, on_gap: Callable[[Collection[str]], None]) -> None:
        self._session = session
        self._on_gap = on_gap
        self._wanted: frozenset[str] = frozenset()
        self._tried: set[str] = set()
        self._live: set[str] = set()
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._notes: list[str] = []

    def want(self, uris: Collection[str]) -> None:
        """The URIs to be subscribed to from now on, as a whole."""
        if self._session.capabilities.subscribe and frozenset(uris) != self._wanted:
            self._wanted = frozenset(uris)
            self._settled.clear()
            self._changed.set()

    def renewed(self) -> None:
        """The session was replaced by a new one, which has no subscriptions."""
        self._tried.clear()
        self._live.clear()
        if self._wanted:
            self._settled.clear()
        self._changed.set()

    async def live(self, uris: Collection[str], timeout: float) -> tuple[str, ...]:
        """Which of these the server has agreed to, once all that is wanted has been tried, or `timeout` s later."""
        try:
            async with asyncio.timeout(timeout):
                await self._settled.wait()
        except TimeoutError:
            pass  # what is live by now is the answer
        return tuple(uri for uri in uris if uri in self._live)

    def notes(self) -> tuple[str, ...]:
        """Diagnostics of what could not be subscribed to."""
        return tuple(self._notes)

    async def keep(self) -> None:
        """Runs as long as the session does."""
        capabilities = self._session.capabilities
        if self._session.modern:
            if capabilities.tools_changed or capabilities.resources_changed or capabilities.subscribe:
                await self._listen()
        elif capabilities.subscribe:
            await self._subscribe()

    # -- handshake era ------------------------------------------------------------------

    async def _subscribe(self) -> None:
        while True:
            self._changed.clear()
            wanted = self._wanted
            for uri in sorted(self._tried - wanted):
                self._tried.discard(uri)
                if uri in self._live:
                    self._live.discard(uri)
                    await self._tell(uri, on=False)
            for uri in sorted(wanted - self._tried):
                self._tried.add(uri)
                if await self._tell(uri, on=True):
                    self._live.add(uri)
            if not self._changed.is_set():
                self._settled.set()
            await self._changed.wait()

    async def _tell(self, uri: str, *, on: bool) -> bool:
        try:
            await self._session.subscribe(uri, on=on)
        except RequestFailed as failure:
            if on:
                self._note(f"a subscription failed: {failure}")
            return False
        return True

    # -- 2026-07-28 ---------------------------------------------------------------------

    async def _listen(self) -> None:
        """Keeps a stream open. One for other URIs opens before the former one ends, so that nothing is missed."""
        loop = asyncio.get_running_loop()
        delay = FIRST_RETRY
        streams: list[asyncio.Task[None]] = []
        gap: tuple[str, ...] | None = ()
        try:
            while True:
                self._changed.clear()
                began, opened = loop.time(), asyncio.Event()
                listening = self._session.listen(sorted(self._wanted), partial(self._opened, opened, gap))
                streams.append(loop.create_task(listening))
                await _first(streams[-1], opened)
                while len(streams) > 1:
                    await _end(streams.pop(0))
                await _first(streams[-1], self._changed)
                gap = None
                if not streams[-1].done():
                    continue
                failure = streams.pop().exception()
                gap, self._live = tuple(self._live), set()
                self._settled.set()
                if failure is not None:
                    self._note(f"announcements ended: {failure}")
                await asyncio.sleep(delay)
                delay = FIRST_RETRY if loop.time() - began > STABLE else min(2 * delay, MAX_RETRY)
        finally:
            for stream in streams:
                await _end(stream)
            self._live.clear()

    def _opened(self, opened: asyncio.Event, gap: tuple[str, ...] | None, honored: Collection[str]) -> None:
        self._live = set(honored)
        opened.set()
        if not self._changed.is_set():
            self._settled.set()
        if gap is not None:
            self._on_gap(gap)

    def _note(self, text: str) -> None:
        if text not in self._notes and len(self._notes) < 16:
            self._notes.append(text)


class Wishes:
    """The URIs each channel wants to be told about; they outlive sessions (C-DESK-8)."""

    def __init__(self) -> None:
        self._by_channel: dict[str, tuple[str, ...]] = {}

    def set(self, channel: str, uris: tuple[str, ...]) -> None:
        """Replaces what a channel wants."""
        self._by_channel[channel] = uris

    def all(self) -> tuple[str, ...]:
        """What anybody wants, each once, in the order it was first wanted."""
        return tuple(dict.fromkeys(uri for uris in self._by_channel.values() for uri in uris))


CHANNELS = ("window://", "skill://", "dpe://")
"""Resources that some channel is made of; nobody here asks a server about the others."""


def updated_uri(params: msgspec.Raw) -> str | None:
    """The URI of a `notifications/resources/updated`; `None` where it has none, or one of no channel."""
    try:
        uri = msgspec.json.decode(params, type=dict[str, msgspec.Raw])["uri"]
        named = msgspec.json.decode(uri, type=str)
    except (msgspec.MsgspecError, KeyError):
        return None
    return named if named[:9].lower().startswith(CHANNELS) else None


async def _first(stream: asyncio.Task[None], event: asyncio.Event) -> None:
    """Waits until the stream has ended or the event has come."""
    waiting = asyncio.get_running_loop().create_task(event.wait())
    try:
        await asyncio.wait([stream, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _end(stream: asyncio.Task[None]) -> None:
    stream.cancel()
    await asyncio.wait([stream])
    if not stream.cancelled():
        # It may have broken in that very moment; looked at here, or the event loop complains that nobody did.
        stream.exception()
