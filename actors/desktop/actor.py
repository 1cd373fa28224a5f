"""DesktopActor: answers `client:get_desktop` from windows that subscriptions keep fresh.

The set of windows comes from commits and never waits. Contents that are not kept are
read with bounded parallelism; a server that let a read time out delays one answer, and
its windows are then read in the background until all of them answer (DEC-23).
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence

import anyio
import msgspec

from ...wire.codec import Attachment
from ...wire.envelope import Address
from ...wire.errors import BusError, DeadlineExceeded, SmcpError
from ...wire.messages.channels import RELIST_EVERY, ResourceSlice, ResourcesRead, SliceChanged
from ...wire.messages.desktop import ApplyDesktop, Desktop, GetDesktop
from ...wire.messages.mcp import ReadResource, ResourceUpdated, WatchResources
from ...wire.messages.tools import Applied, CallFinished
from ...wire.protocol import ACK_BUDGET
from ...wire.window_uri import parse_window_uri
from ..kernel import Actor, handler, observer
from ..kernel.news import say_new
from .contents import Contents, Place
from .organise import matching, oddity, organise
from .render import render
from .windows import Window, digest, in_turn, list_windows, shared_hosts, signature

logger = logging.getLogger(__name__)

CHANNEL = "desktop"
SAID_KEPT = 1000
"""Notes remembered as said in one session of a server, before they may be said again."""
ENVELOPE_ROOM = 2048
"""Bytes of an acknowledgement that are not entries."""


class DesktopSettings(msgspec.Struct, frozen=True):
    """Limits of the desktop, times in seconds (02 §F: D-6, D-8, D-9, D-46, D-47).

    `retry_interval` is the time between background tries of a server that let a read time out.
    """

    read_timeout: float = 10.0
    parallel_reads: int = 8
    history: int = 10
    answer_timeout: float = 15.0
    retry_interval: float = 30.0
    rebuild_wait: float = 5.0
    budget: int = ACK_BUDGET - ENVELOPE_ROOM


class Reading(msgspec.Struct, frozen=True):
    """How a read ended: whether the server answered in time, be it with an error, and the contents if it sent some."""

    answered: bool
    contents: object | None = None


class DesktopActor(Actor):
    """Owner of the desktop projection."""

    def __init__(self, settings: DesktopSettings | None = None) -> None:
        self._settings = settings or DesktopSettings()
        self._windows: tuple[Window, ...] = ()
        self._contents = Contents()
        self._history: deque[str] = deque(maxlen=self._settings.history)
        self._rendered: dict[tuple[int | None, str | None], bytes] = {}
        self._reads = anyio.CapacityLimiter(self._settings.parallel_reads)
        self._ready = anyio.Event()
        self._said: dict[str, tuple[int, set[str]]] = {}
        self._shared: tuple[str, ...] = ()
        self._cue_at = -math.inf

    @handler
    def apply(self, message: ApplyDesktop) -> Applied:
        """Takes the windows of a commit over and renews subscriptions where a listing changed."""
        notes: list[str] = []
        windows: list[Window] = []
        said: dict[str, tuple[int, set[str]]] = {}
        present = {server.bundle_id for server in message.servers if server.connected and server.subscribe}
        for bundle_id in set(self._contents.servers()) - present:
            self._contents.gone(bundle_id)
        for server in message.servers:
            if server.bundle_id in present:
                listing = list_windows(server)
                windows.extend(listing.windows)
                notes.extend(listing.notes)
                said[server.bundle_id] = self._say(server, listing.notes)
                if self._contents.listed(server.bundle_id, server.session, server.resources.data):
                    self.tasks.start_soon(self._watch, server, [window.uri for window in listing.windows])
        before, self._windows = self._windows, tuple(windows)
        self._rendered.clear()
        shared = shared_hosts(self._windows)
        say_new(logger, shared, self._shared)
        self._said, self._shared = said, shared
        notes.extend(shared)
        self._ready.set()
        return Applied(signature(before) != signature(self._windows), tuple(notes), digest(self._windows))

    @handler(concurrent=32)
    async def get(self, message: GetDesktop) -> Desktop:
        """The organised desktop; reads what is not kept."""
        if message.size is not None and message.size <= 0:
            return Desktop(Attachment(b"[]"))
        with anyio.move_on_after(self._settings.rebuild_wait):
            await self._ready.wait()
        if self.now() >= self._cue_at:
            self._cue_at = self.now() + RELIST_EVERY
            self.publish(ResourcesRead())
        question = (message.size, message.window)
        if question not in self._rendered:
            wanted = matching(self._windows, message.window)
            fresh = await self._read_missing(wanted)
            answer = self._render(wanted, fresh, message.size)
            if not all((window.bundle_id, window.uri) in self._contents.known for window in wanted):
                return Desktop(Attachment(answer))
            self._remember(question, answer)
        return Desktop(Attachment(self._rendered[question]))

    @observer
    def on_update(self, fact: ResourceUpdated) -> None:
        """A window has new contents: what was kept is stale, and the Agent is told (C-DESK-27)."""
        if fact.bundle_id in self._contents.servers() and parse_window_uri(fact.uri) is not None:
            self._contents.updated((fact.bundle_id, fact.uri))
            self._rendered.clear()
            self.publish(SliceChanged("desktop"))

    @observer
    def on_call(self, fact: CallFinished) -> None:
        """Servers called lately come first (C-DESK-19, C-DESK-23)."""
        self._history.append(fact.record.bundle_id)
        self._rendered.clear()

    # -- inside ---------------------------------------------------------------------

    def _say(self, server: ResourceSlice, notes: Sequence[str]) -> tuple[int, set[str]]:
        """Logs what was not said of this session before (C-DESK-1); the session, and all that has been said of it."""
        session, said = self._said.get(server.bundle_id, (server.session, set()))
        known = said if session == server.session and len(said) < SAID_KEPT else set()
        say_new(logger, notes, known)
        return server.session, known | set(notes)

    def _render(self, windows: Sequence[Window], fresh: Mapping[Place, object], size: int | None) -> bytes:
        contents = {**fresh, **self._contents.known}
        rendered = render(organise(windows, contents, self._history, size), self._settings.budget)
        if rendered.cut or rendered.left_out:
            logger.warning("desktop too large: %d window cut, %d left out", rendered.cut, rendered.left_out)
        return msgspec.json.encode(rendered.entries)

    def _remember(self, question: tuple[int | None, str | None], answer: bytes) -> None:
        if len(self._rendered) >= 16:
            self._rendered.clear()
        self._rendered[question] = answer

    async def _watch(self, server: ResourceSlice, uris: list[str]) -> None:
        """Asks for updates of a server's windows; without them nothing of it is kept."""
        try:
            watched = await self.ask(_mcp(server.bundle_id), WatchResources(CHANNEL, tuple(uris)))
        except SmcpError as error:
            logger.warning("%s: windows are not subscribed to: %s", server.bundle_id, error.code)
            return
        for uri in set(uris) - set(watched.uris):
            logger.warning("%s: no subscription for one window (%d characters)", server.bundle_id, len(uri))
        self._contents.watched(server.bundle_id, watched.uris)

    async def _read_missing(self, wanted: Sequence[Window]) -> dict[Place, object]:
        """Reads what is not kept, side by side, except from servers that are not waited for (C-DESK-9).

        Servers take turns, so that one with many windows that hang does not keep another's from being read (C-SEC-4).
        """
        fresh: dict[Place, object] = {}
        missing = self._missing(wanted)
        waiting = iter(in_turn(missing))

        async def read() -> None:
            for window in waiting:
                async with self._reads:
                    if self._contents.is_suspect(window.bundle_id):
                        continue  # found out while this one waited for its turn
                    reading = await self._read(window)
                if reading.contents is not None:
                    fresh[window.bundle_id, window.uri] = reading.contents

        with anyio.move_on_after(self._settings.answer_timeout) as limit:
            async with anyio.create_task_group() as tasks:
                # Not a task for each window: thousands at once would keep everything else of the Computer waiting.
                for _ in range(min(len(missing), self._settings.parallel_reads)):
                    tasks.start_soon(read)
        if limit.cancelled_caught:
            logger.warning("the desktop was assembled without windows that took too long")
        return fresh

    def _missing(self, windows: Sequence[Window]) -> list[Window]:
        return [window for window in windows if (window.bundle_id, window.uri) not in self._contents.known]

    async def _read(self, window: Window) -> Reading:
        place = (window.bundle_id, window.uri)
        stamp = self._contents.stamp(place)
        ask = ReadResource(window.uri, self._settings.read_timeout)
        try:
            # The server's own limit is in the message; the ask only outlives it by the way there and back.
            reply = await self.ask(_mcp(window.bundle_id), ask, timeout=self._settings.read_timeout + 1.0)
        except SmcpError as error:
            logger.warning("%s: a window could not be read: %s", window.bundle_id, error.code)
            timed_out = isinstance(error, DeadlineExceeded) or error.code == "timeout"
            if timed_out and self._contents.suspect(window.bundle_id):
                self.tasks.start_soon(self._try_again, window.bundle_id, self._contents.session(window.bundle_id))
            return Reading(answered=not timed_out and not isinstance(error, BusError))
        contents: object = msgspec.json.decode(reply.contents.data)
        if odd := oddity(contents):
            logger.warning("%s: window %.64s: %s", window.bundle_id, window.host, odd)
        self._contents.keep(place, stamp, contents)
        return Reading(answered=True, contents=contents)

    async def _try_again(self, bundle_id: str, session: int | None) -> None:
        """Tries a server that answers do not wait for any more, until it answers or its session ends (DEC-23)."""
        while True:
            await anyio.sleep(self._settings.retry_interval)
            if not self._contents.is_suspect(bundle_id) or self._contents.session(bundle_id) != session:
                return
            if await self._try(bundle_id):
                self._rendered.clear()
                self.publish(SliceChanged("desktop"))

    async def _try(self, bundle_id: str) -> bool:
        """Reads what is missing of a server as it is listed now; whether an answer can show more than before.

        All of it, since one window that hangs for good must not hide the others: what answers is kept. Answers wait for
        the server again when nothing of it hangs; an error in time is as good a sign of that as contents.
        """
        listed = [window for window in self._windows if window.bundle_id == bundle_id]
        missing = self._missing(listed)
        # One at a time, and outside the limit of the answers: they must not wait for a server that hangs (C-SEC-4).
        tried = [(window, await self._read(window)) for window in missing or listed[:1]]
        if tried and all(reading.answered for _window, reading in tried):
            self._contents.trust(bundle_id)
            return bool(missing) and any(reading.contents is not None for _window, reading in tried)
        return len(self._missing(missing)) < len(missing)


def _mcp(bundle_id: str) -> Address:
    return Address(f"mcp/{bundle_id}")
