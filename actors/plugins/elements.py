"""Elements of a settings file: what it says of plugins and marketplaces, and the changes that add or take one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...wire.errors import ConfigValidationError


def opinion_in(tree: Mapping[str, Any], plugin_id: str) -> bool | None:
    """Whether a file enables a plugin; `None` when it says nothing that counts."""
    value = mapping(tree.get("enabledPlugins")).get(plugin_id)
    return value if isinstance(value, bool) else None


def with_element(now: Mapping[str, Any], field: str, element: str) -> dict[str, Any]:
    """The change that adds an element to an array."""
    known = elements(now, field)
    return {} if element in known else {field: [*known, element]}


def without_element(now: Mapping[str, Any], field: str, element: str) -> dict[str, Any]:
    """The change that takes an element out of an array."""
    known = elements(now, field)
    return {field: [one for one in known if one != element]} if element in known else {}


def elements(now: Mapping[str, Any], field: str) -> list[Any]:
    """The elements of an array.

    Raises:
        ConfigValidationError: It is none (`corrupt_file`).
    """
    found = now.get(field, [])
    if not isinstance(found, list):
        raise ConfigValidationError(f"{field} is no array; mend it first", code="corrupt_file", field=field)
    return found


def mapping(raw: object) -> Mapping[str, Any]:
    """An object of a file; an empty one when it is none."""
    return raw if isinstance(raw, Mapping) else {}
