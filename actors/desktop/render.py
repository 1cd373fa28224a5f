"""Rendering a desktop: one string a window, as many as the acknowledgement can carry. Pure (C-DESK-24…26)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...wire.window_uri import window_identity
from .organise import Shown

SMALLEST_CUT = 4096
"""Bytes that must remain for a window to be shown cut rather than left out."""


class Rendered(msgspec.Struct, frozen=True):
    """The entries, and how many windows were cut or left out for size."""

    entries: tuple[str, ...]
    cut: int = 0
    left_out: int = 0


def render(shown: Sequence[Shown], budget: int) -> Rendered:
    """Entries in order within `budget` bytes of JSON. Spec: C-DESK-24, C-DESK-25."""
    entries: list[str] = []
    left = budget
    for position, one in enumerate(shown):
        entry = entry_of(one)
        cost = _cost(entry)
        if cost <= left:
            entries.append(entry)
            left -= cost
            continue
        rest = len(shown) - position - 1
        if left < SMALLEST_CUT:
            return Rendered(tuple(entries), 0, rest + 1)
        entries.append(_cut(entry, left))
        return Rendered(tuple(entries), 1, rest)
    return Rendered(tuple(entries))


def entry_of(shown: Shown) -> str:
    """The identity, then the texts; nothing of the Computer's own."""
    body = "\n\n".join(text for text in shown.texts if text)
    identity = window_identity(shown.window.uri)
    return f"{identity}\n\n{body}" if body.strip() else identity


def _cost(entry: str) -> int:
    """Bytes of an entry in a JSON array, its comma included."""
    return len(msgspec.json.encode(entry)) + 1


def _cut(entry: str, room: int) -> str:
    """As much of an entry as fits, ending with a line that says so; never inside a code point."""
    whole = len(entry.encode())

    def with_mark(characters: int) -> str:
        kept = entry[:characters]
        return f"{kept}\n[truncated: {len(kept.encode())} of {whole} bytes shown]"

    low, high = 0, len(entry)
    while low < high:
        middle = (low + high + 1) // 2
        if _cost(with_mark(middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return with_mark(low)
