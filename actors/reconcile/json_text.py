"""JSON text to a tree that remembers repeated keys, which plain parsers drop without a word (R-MCP-7).

Comments are allowed: people write them into their files, and they mean nothing to us.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from ...wire.errors import ConfigValidationError, Finding
from .files.jsonc import without_comments
from .findings import item, member

_HALF = re.compile("[\ud800-\udfff]")
_MAY_BE_HALF = re.compile(r"\\u[dD]|[\ud800-\udfff]")
"""Written as an escape; bytes that are UTF-8 hold none."""


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
        tree = _parse(decoded)
        halved = next(half_characters(tree), None) if _MAY_BE_HALF.search(decoded) else None
        if halved is None:
            return tree
        _fail(label, f"{halved or '$'} holds half a character")
    except json.JSONDecodeError as fault:
        _fail(label, f"line {fault.lineno} column {fault.colno}: {fault.msg[:1].lower()}{fault.msg[1:]}")
    except UnicodeDecodeError as fault:
        _fail(label, f"byte {fault.start}: not UTF-8")
    except RecursionError:
        _fail(label, "nested too deep")
    except ValueError:
        _fail(label, "NaN, Infinity and what no computer can count are no JSON")


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


def half_characters(tree: Any, path: str = "") -> Iterator[str]:
    """Paths of texts, and of objects with keys, that hold half of a surrogate pair: nobody could be told them."""
    if isinstance(tree, str):
        if _HALF.search(tree):
            yield path
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            if _HALF.search(str(key)):
                yield path
            else:
                yield from half_characters(value, member(path, key))
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from half_characters(value, item(path, index))


def _parse(text: str) -> Any:
    try:
        return _loads(text)
    except json.JSONDecodeError:
        plain = without_comments(text)
        if plain == text:
            raise
        return _loads(plain)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else RepeatedKeys(pairs)


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse, parse_float=_finite)


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _fail(label: str, reason: str) -> NoReturn:
    finding = Finding("$", f"is not JSON, {reason}", code="bad_json", source=label)
    raise ConfigValidationError(
        f"{label}: {reason}; expected a JSON object", code="bad_json", field="$", source=label, findings=(finding,)
    )
