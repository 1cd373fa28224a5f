"""What a tool said of itself when it was pinned, compared with what it says now (F-117). Pure.

What an Agent reads of a tool is what it obeys, so that a server which changes it after it was approved is another
server. Order does not count, nor does `_meta`, which is for machines and may change with every listing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

PARTS = ("title", "description", "inputSchema", "outputSchema", "annotations")
SHOWN = 200
"""Characters of a text that a difference shows."""
KEPT = 2_000
"""Characters of a description that are kept to show a difference one day."""


class Pin(msgspec.Struct, frozen=True):
    """One tool: a digest of each part, and its description to be shown."""

    parts: dict[str, str]
    description: str = ""


Pins = Mapping[str, Pin]
"""The tools of one server, by name."""


def pin_of(tool: Mapping[str, Any]) -> Pin:
    """The pin of a tool as it is listed."""
    parts = {part: _digest(tool[part]) for part in PARTS if tool.get(part) is not None}
    return Pin(parts, str(tool.get("description") or "")[:KEPT])


def pins_of(tools: Iterable[Mapping[str, Any]]) -> dict[str, Pin]:
    """The pins of a listing."""
    return {str(tool["name"]): pin_of(tool) for tool in tools}


def difference(pinned: Pin | None, tool: Mapping[str, Any]) -> str | None:
    """How a tool differs from its pin, for people; `None` when it does not."""
    if pinned is None:
        return "it was not there"
    now = pin_of(tool)
    changed = [part for part in PARTS if pinned.parts.get(part) != now.parts.get(part)]
    return "; ".join(_words(part, pinned, now) for part in changed) or None


def _words(part: str, before: Pin, now: Pin) -> str:
    if part == "description":
        return f"description: {_quoted(before.description)} -> {_quoted(now.description)}"
    if part not in now.parts:
        return f"{part}: removed"
    return f"{part}: changed" if part in before.parts else f"{part}: added"


def _quoted(text: str) -> str:
    shown = text if len(text) <= SHOWN else text[:SHOWN] + "…"
    return json.dumps(shown, ensure_ascii=False)


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
