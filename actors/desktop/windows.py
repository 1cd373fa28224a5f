"""Windows of one server: which of its resources are windows, and their layout data. Pure (C-DESK-5…7)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from ...wire.messages.channels import ResourceSlice
from ...wire.window_uri import parse_window_uri


class Window(msgspec.Struct, frozen=True):
    """One window as its server lists it: `uri` raw, `priority` in [0, 1], `index` in listing order."""

    bundle_id: str
    uri: str
    host: str
    priority: float
    fullscreen: bool
    index: int


class Listing(msgspec.Struct, frozen=True):
    """The windows of one server, and what was wrong with its resources."""

    windows: tuple[Window, ...]
    notes: tuple[str, ...]


NONE = Listing((), ())


def list_windows(server: ResourceSlice) -> Listing:
    """The windows a server contributes; one malformed resource costs nothing but itself. Spec: C-DESK-7, C-GEN-9."""
    if not (server.connected and server.declared and server.subscribe):
        return NONE
    notes: list[str] = []
    windows: list[Window] = []
    for index, resource in enumerate(msgspec.json.decode(server.resources.data)):
        uri = resource.get("uri") if isinstance(resource, dict) else None
        parsed = parse_window_uri(uri) if isinstance(uri, str) else None
        if parsed is None or not isinstance(uri, str):
            continue
        if parsed.has_query:
            notes.append(f"{server.bundle_id}: the query of window {parsed.host} is dropped")
        place = f"{server.bundle_id}: window {parsed.host}"
        annotations = resource.get("annotations")
        windows.append(
            Window(
                server.bundle_id,
                uri,
                parsed.host,
                _priority(annotations, place, notes),
                _fullscreen(resource.get("_meta"), place, notes),
                index,
            )
        )
        _check_audience(annotations, place, notes)
    return Listing(tuple(windows), tuple(notes))


def shared_hosts(windows: tuple[Window, ...]) -> tuple[str, ...]:
    """A note for each host that several servers expose; nobody is hidden for it. Spec: C-DESK-4."""
    owners: dict[str, set[str]] = {}
    for window in windows:
        owners.setdefault(window.host.lower(), set()).add(window.bundle_id)
    return tuple(
        f"window host {host} is exposed by {', '.join(sorted(ids))}" for host, ids in owners.items() if len(ids) > 1
    )


def in_turn(windows: Iterable[Window]) -> list[Window]:
    """One window of each server, then a second one of each, and so on."""
    turns: Counter[str] = Counter()
    turned: list[tuple[int, Window]] = []
    for window in windows:
        turned.append((turns[window.bundle_id], window))
        turns[window.bundle_id] += 1
    return [window for _turn, window in sorted(turned, key=lambda one: one[0])]


def signature(windows: tuple[Window, ...]) -> frozenset[tuple[str, str, float, bool]]:
    """What a list change is judged by. Spec: C-DESK-27."""
    return frozenset((window.bundle_id, window.uri, window.priority, window.fullscreen) for window in windows)


def digest(windows: tuple[Window, ...]) -> str:
    """Tells signatures apart over restarts; `""` for no windows."""
    if not windows:
        return ""
    return hashlib.sha256(msgspec.json.encode(sorted(signature(windows)))).hexdigest()[:16]


def _priority(annotations: Any, place: str, notes: list[str]) -> float:
    value = annotations.get("priority") if isinstance(annotations, dict) else None
    if value is None:
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    notes.append(f"{place}: priority is not a number from 0 to 1 and counts as 0")
    return 0.0


def _fullscreen(meta: Any, place: str, notes: list[str]) -> bool:
    value = meta.get("fullscreen") if isinstance(meta, dict) else None
    if value is None or isinstance(value, bool):
        return bool(value)
    notes.append(f"{place}: fullscreen is not a boolean and counts as false")
    return False


def _check_audience(annotations: Any, place: str, notes: list[str]) -> None:
    audience = annotations.get("audience") if isinstance(annotations, dict) else None
    if audience is not None and not (isinstance(audience, list) and "assistant" in audience):
        notes.append(f"{place}: its audience leaves the assistant out; it is kept")
