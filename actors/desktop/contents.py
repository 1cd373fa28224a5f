"""Kept contents of windows, and which servers are not waited for. Pure (C-DESK-10, DEC-23).

An entry is dropped when its server announces an update or a new list, and when the
session ends. Each drop moves the window's stamp, so that a read begun before cannot put
stale contents back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Place = tuple[str, str]
"""bundle_id and raw URI."""


class Contents:
    """Contents by place."""

    def __init__(self) -> None:
        self.known: dict[Place, Any] = {}
        self._stamps: dict[Place, int] = {}
        self._live: set[Place] = set()
        self._sessions: dict[str, tuple[int, bytes]] = {}
        self._suspects: set[str] = set()

    def keep(self, place: Place, stamp: int, contents: Any) -> None:
        """Puts read contents in, unless they are stale or nothing would tell when they become so."""
        if place in self._live and stamp == self.stamp(place):
            self.known[place] = contents

    def stamp(self, place: Place) -> int:
        """To be taken before a read and given to `keep`."""
        return self._stamps.get(place, 0)

    def updated(self, place: Place) -> None:
        """The server announced new contents."""
        self.known.pop(place, None)
        self._stamps[place] = self.stamp(place) + 1

    def watched(self, bundle_id: str, uris: Iterable[str]) -> None:
        """The URIs of a server whose subscription is live; only those may be kept."""
        self._live = {place for place in self._live if place[0] != bundle_id} | {(bundle_id, uri) for uri in uris}

    def listed(self, bundle_id: str, session: int, listing: bytes) -> bool:
        """A server's listing as of a commit; `True` when it is a new one, which drops what was kept of it."""
        if self._sessions.get(bundle_id) == (session, listing):
            return False
        if self._sessions.get(bundle_id, (session,))[0] != session:
            self._suspects.discard(bundle_id)
        self._sessions[bundle_id] = (session, listing)
        self._drop(bundle_id)
        return True

    def gone(self, bundle_id: str) -> None:
        """A server takes no part any more."""
        if self._sessions.pop(bundle_id, None) is not None:
            self._suspects.discard(bundle_id)
            self._drop(bundle_id)

    def servers(self) -> tuple[str, ...]:
        """Servers that take part."""
        return tuple(self._sessions)

    def session(self, bundle_id: str) -> int | None:
        """The session a server takes part with, `None` when it does not."""
        known = self._sessions.get(bundle_id)
        return known[0] if known else None

    def suspect(self, bundle_id: str) -> bool:
        """A read timed out: later answers do not wait for this server. `True` when that is new."""
        if bundle_id in self._suspects:
            return False
        self._suspects.add(bundle_id)
        return True

    def trust(self, bundle_id: str) -> None:
        """A background try succeeded: everything that was read of it answered."""
        self._suspects.discard(bundle_id)

    def is_suspect(self, bundle_id: str) -> bool:
        """Whether answers leave this server's unread windows out."""
        return bundle_id in self._suspects

    def _drop(self, bundle_id: str) -> None:
        for place in [place for place in self._live | self.known.keys() if place[0] == bundle_id]:
            self.updated(place)
            self._live.discard(place)
