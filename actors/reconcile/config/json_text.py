"""JSON text to a tree that remembers repeated keys, which plain parsers drop without a word (R-MCP-7).

Comments are allowed: people write them into their files, and they mean nothing to us.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import msgspec

from ....wire.errors import ConfigValidationError, Finding
from ..files.jsonc import without_comments
from .findings import item, member

_HALF = re.compile("[\ud800-\udfff]")

DEEPEST = 64
"""Levels of objects and arrays; nobody declares anything so deep, and whoever reads it may not get to its end."""


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
        # a text has no more levels than it has opening brackets, and few have that many
        if decoded.count("{") + decoded.count("[") > DEEPEST and is_deep(tree):
            _fail(label, "nested too deep")
        halved = half_character(tree)
        if halved is None:
            return tree
        _fail(label, f"{halved} holds half a character")
    except json.JSONDecodeError as fault:
        _fail(label, f"line {fault.lineno} column {fault.colno}: {fault.msg[:1].lower()}{fault.msg[1:]}")
    except UnicodeDecodeError as fault:
        _fail(label, f"byte {fault.start}: not UTF-8")
    except RecursionError:
        _fail(label, "nested too deep")
    except ValueError:
        _fail(label, "NaN, Infinity and what no computer can count are no JSON")


def is_deep(tree: Any, most: int = DEEPEST) -> bool:
    """Whether a tree has more than so many levels, counted without descending into it by calls."""
    level = [tree]
    for _ in range(most):
        level = [inner for node in level for inner in _within(node)]
        if not level:
            return False
    return any(isinstance(node, Mapping | list | tuple) for node in level)


def _within(node: Any) -> Iterable[Any]:
    if isinstance(node, Mapping):
        return node.values()
    return node if isinstance(node, list | tuple) else ()


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


def half_character(tree: Any) -> str | None:
    """The path of a text or an object's key that holds half of a surrogate pair, which nobody could be told."""
    with suppress(TypeError, ValueError, OverflowError, RecursionError):
        try:
            msgspec.json.encode(tree)  # many times quicker than to look
            return None
        except UnicodeEncodeError:
            return next(_halves(tree, ""), None)
    return next(_halves(tree, ""), None)


def _halves(tree: Any, path: str) -> Iterator[str]:
    if isinstance(tree, str):
        if _HALF.search(tree):
            yield path or "$"
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            if _HALF.search(str(key)):
                yield path or "$"
            else:
                yield from _halves(value, member(path, key))
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from _halves(value, item(path, index))


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
