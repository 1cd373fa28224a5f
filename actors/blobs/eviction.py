"""Which spool entries go: unused ones by age, the least recently used by room. Pure (C-BLOB-32)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Entry(msgspec.Struct, frozen=True):
    """One spooled content: bytes and the second it was last used."""

    name: str
    size: int
    used_at: float


class Quota(msgspec.Struct, frozen=True):
    """Bounds of the spool: bytes, and seconds (D-27…29)."""

    most_bytes: int = 1024**3
    unused_for: float = 24 * 3600.0
    youngest: float = 600.0


class Eviction(msgspec.Struct, frozen=True):
    """What to delete, and whether `needed` bytes then fit."""

    names: tuple[str, ...]
    fits: bool


def evict(entries: Sequence[Entry], quota: Quota, now: float, needed: int = 0) -> Eviction:
    """Chooses entries to delete so that `needed` more bytes fit."""
    gone = [entry for entry in entries if now - entry.used_at >= quota.unused_for]
    expired = {entry.name for entry in gone}
    left = sorted((entry for entry in entries if entry.name not in expired), key=lambda entry: entry.used_at)
    total = sum(entry.size for entry in left) + needed
    for entry in left:
        if total <= quota.most_bytes or now - entry.used_at < quota.youngest:
            break
        gone.append(entry)
        total -= entry.size
    return Eviction(tuple(entry.name for entry in gone), total <= quota.most_bytes)
