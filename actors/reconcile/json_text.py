"""JSON text to a tree that remembers repeated keys, which plain parsers drop without a word (R-MCP-7).

Comments are allowed: people write them into their files, and they mean nothing to us.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from ...wire.errors import ConfigValidationError, Finding
from .files.jsonc import without_comments
from .findings import item, member


class RepeatedKeys(dict[str, Any]):
    """An object whose text had keys more than once; holds the last value of each, like any parser."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = tuple(key for key, count in counts.items() if count > 1)


def load(text: str | bytes, label: str) -> Any:
    """The tree of a JSON text.

    Args:
        label: What the text is called in errors, for example a file name.
    Raises:
        ConfigValidationError: Not UTF-8 or not JSON (code `bad_json`); the message names line and column.
    """
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
        return _parse(decoded)
    except json.JSONDecodeError as fault:
        _fail(label, f"line {fault.lineno} column {fault.colno}: {fault.msg[:1].lower()}{fault.msg[1:]}")
    except UnicodeDecodeError as fault:
        _fail(label, f"byte {fault.start}: not UTF-8")
    except RecursionError:
        _fail(label, "nested too deep")
    except ValueError:
        _fail(label, "NaN and Infinity are no JSON")


def repeated_keys(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path of every object that repeats a key, and the key."""
    if isinstance(tree, RepeatedKeys):
        for key in tree.repeated:
            yield path, key
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from repeated_keys(value, member(path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from repeated_keys(value, item(path, index))


def _parse(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
    except json.JSONDecodeError:
        plain = without_comments(text)
        if plain == text:
            raise
        return json.loads(plain, object_pairs_hook=_object, parse_constant=_refuse)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else RepeatedKeys(pairs)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _fail(label: str, reason: str) -> NoReturn:
    finding = Finding("$", f"is not JSON, {reason}", code="bad_json", source=label)
    raise ConfigValidationError(
        f"{label}: {reason}; expected a JSON object", code="bad_json", field="$", source=label, findings=(finding,)
    )
