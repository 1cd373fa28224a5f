"""An array in an intent file: one element is added or taken out, and all else in it stays (R-FILE-9). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....wire.errors import ConfigValidationError


def elements(tree: Mapping[str, Any], field: str) -> list[Any]:
    """What an array holds; nothing where there is none.

    Raises:
        ConfigValidationError: Something else stands there, which a change must not take away (`corrupt_file`).
    """
    held = tree.get(field)
    if held is None:
        return []
    if not isinstance(held, list):
        raise ConfigValidationError(f"{field} is no array; mend it first", code="corrupt_file", field=field)
    return list(held)


def with_element(tree: Mapping[str, Any], field: str, element: str) -> dict[str, Any]:
    """The change that adds an element to an array."""
    known = elements(tree, field)
    return {} if element in known else {field: [*known, element]}


def without_element(tree: Mapping[str, Any], field: str, element: str) -> dict[str, Any]:
    """The change that takes an element out of an array."""
    known = elements(tree, field)
    return {field: [one for one in known if one != element]} if element in known else {}
