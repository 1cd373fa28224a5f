"""Organising a desktop: which windows an Agent sees, and in which order. Pure (C-DESK-15…21)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...wire.server_order import server_order
from ...wire.window_uri import window_identity
from .windows import Window


class Shown(msgspec.Struct, frozen=True):
    """A window that made it, with the texts of its text blocks in order."""

    window: Window
    texts: tuple[str, ...]


def matching(windows: Sequence[Window], wanted: str | None) -> tuple[Window, ...]:
    """Windows equal to `wanted` by raw URI or identity; all of them for `None`. Spec: C-DESK-13."""
    if wanted is None:
        return tuple(windows)
    return tuple(window for window in windows if wanted in (window.uri, window_identity(window.uri)))


def texts_of(contents: object) -> tuple[str, ...] | None:
    """The texts of a window's contents; `None` when there is no text block at all. Spec: C-DESK-17."""
    blocks = contents if isinstance(contents, list) else []
    texts = tuple(block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str))
    return texts or None


def oddity(contents: object) -> str | None:
    """What of a window's contents cannot be shown, `None` if all can. Spec: C-DESK-17, C-DESK-24."""
    blocks = contents if isinstance(contents, list) else []
    left_out = sum(not (isinstance(block, dict) and isinstance(block.get("text"), str)) for block in blocks)
    if not left_out:
        return None
    if left_out == len(blocks):
        return "it holds no text and is not shown"
    return f"{left_out} of its {len(blocks)} blocks are no text and are left out"


def organise(
    windows: Sequence[Window], contents: Mapping[tuple[str, str], Any], history: Sequence[str], size: int | None
) -> tuple[Shown, ...]:
    """Windows in the order they are shown.

    Args:
        contents: `contents` arrays of `resources/read` by (bundle_id, raw URI); what is missing is left out.
        size: Most entries, `None` for all.
    """
    groups: dict[str, list[Shown]] = {}
    for window in windows:
        texts = texts_of(contents.get((window.bundle_id, window.uri)))
        if texts is not None:
            groups.setdefault(window.bundle_id, []).append(Shown(window, texts))
    ordered = [shown for bundle_id in server_order(groups, history) for shown in _within(groups[bundle_id])]
    return tuple(ordered[:size])


def _within(group: list[Shown]) -> list[Shown]:
    """One server's windows: its first fullscreen one alone, else by priority. Spec: C-DESK-20."""
    fullscreen = [shown for shown in group if shown.window.fullscreen]
    if fullscreen:
        return [min(fullscreen, key=lambda shown: shown.window.index)]
    return sorted(group, key=lambda shown: (-shown.window.priority, shown.window.index))
