"""The pins of all servers of a Computer, and what is done with tools that are not as pinned: nothing, a note, or held.

A server is pinned by its id and the fingerprint of how it is run, at its first listing; whoever approves it anew, or
takes its tools as they are now, pins it anew. A board that could not be read holds everything rather than nothing
(R-SEC-14).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import anyio
import msgspec

from .pins import Pin, Pins, difference, pins_of

Mode = Literal["off", "warn", "hold"]


class _Seen(msgspec.Struct, frozen=True):
    """The last look at a server: what was looked at, and what came of it."""

    key: str
    mode: Mode
    listing: bytes
    current: bool
    shown: bytes
    notes: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


class Pinboard:
    """One board; it lives as long as a run does.

    Args:
        known: Pins by key.
        readable: Whether that is all there was.
    """

    def __init__(self, known: Mapping[str, Pins] | None = None, *, readable: bool = True) -> None:
        self._pins: dict[str, dict[str, Pin]] = {key: dict(pins) for key, pins in (known or {}).items()}
        self._readable = readable
        self._seen: dict[str, _Seen] = {}
        self._fresh: dict[str, dict[str, Pin]] = {}
        self.changed = anyio.Event()

    @property
    def notes(self) -> tuple[str, ...]:
        """Which tools are not as pinned, and how they differ."""
        return tuple(note for bundle_id in sorted(self._seen) for note in self._seen[bundle_id].notes)

    def odd(self, bundle_id: str) -> tuple[str, ...]:
        """Tools of a server that are not as pinned."""
        return self._seen[bundle_id].odd if bundle_id in self._seen else ()

    def take_fresh(self) -> dict[str, dict[str, Pin]]:
        """What was pinned since the last time this was asked."""
        fresh, self._fresh = self._fresh, {}
        self.changed = anyio.Event()
        return fresh

    def shown(self, bundle_id: str, fingerprint: str, mode: Mode, listing: bytes, *, current: bool) -> bytes:
        """The listing as Agents may see it.

        Args:
            listing: JSON array of tools.
            current: Whether the server says so now; only that is pinned.
        """
        key = f"{bundle_id} {fingerprint}"
        seen = self._seen.get(bundle_id)
        if seen is None or (seen.key, seen.mode, seen.listing, seen.current) != (key, mode, listing, current):
            seen = self._seen[bundle_id] = self._look(key, bundle_id, mode, listing, current=current)
        return seen.shown

    def accept(self, bundle_id: str) -> bool:
        """Pins the tools of a server as they are listed now; whether that is news."""
        seen = self._seen.pop(bundle_id, None)
        if seen is None or not seen.odd:
            return False
        self._pin(seen.key, pins_of(msgspec.json.decode(seen.listing)))
        return True

    def keep_only(self, bundle_ids: Iterable[str]) -> None:
        """Forgets what was seen of all other servers; their pins stay."""
        wanted = frozenset(bundle_ids)
        self._seen = {bundle_id: seen for bundle_id, seen in self._seen.items() if bundle_id in wanted}

    def _look(self, key: str, bundle_id: str, mode: Mode, listing: bytes, *, current: bool) -> _Seen:
        tools: list[dict[str, Any]] = msgspec.json.decode(listing)
        pinned = self._pins.get(key) if self._readable or key in self._pins else {}
        if pinned is None:
            if tools and current:
                self._pin(key, pins_of(tools))
            return _Seen(key, mode, listing, current, listing)
        differing = {
            str(tool["name"]): text
            for tool in tools
            if (text := difference(pinned.get(str(tool["name"])), tool)) is not None
        }
        if not differing:
            return _Seen(key, mode, listing, current, listing)
        word = "is held" if mode == "hold" else "is not as it was pinned"
        notes = tuple(f"{bundle_id}: tool {name} {word}: {text}" for name, text in differing.items())
        kept = tools if mode == "warn" else [tool for tool in tools if str(tool["name"]) not in differing]
        shown = listing if kept is tools else msgspec.json.encode(kept)
        return _Seen(key, mode, listing, current, shown, notes, tuple(differing))

    def _pin(self, key: str, pins: dict[str, Pin]) -> None:
        self._pins[key] = self._fresh[key] = pins
        self.changed.set()
