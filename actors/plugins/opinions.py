"""Opinions: what one settings file says of a plugin. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def opinion_in(tree: Mapping[str, Any], plugin_id: str) -> bool | None:
    """Whether a file enables a plugin; `None` when it says nothing that counts."""
    value = mapping(tree.get("enabledPlugins")).get(plugin_id)
    return value if isinstance(value, bool) else None


def mapping(raw: object) -> Mapping[str, Any]:
    """An object of a file; an empty one when it is none."""
    return raw if isinstance(raw, Mapping) else {}
