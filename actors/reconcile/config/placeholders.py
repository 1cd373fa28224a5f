"""Placeholders: the grammar, the references a tree of values makes, and their replacement.

One grammar for every field and transport (F-107). Rendering is split in two so that it
stays pure: the ids a tree refers to are collected first, somebody resolves each of them
once, and the values are then put in place (R-INPUT-7). Results are never scanned again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

DEPTH_LIMIT = 10

_TOKEN = re.compile(
    r"\$\{(?:input:(?P<input>(?:(?!:[-?=+])[^{}$])+)|env:(?P<env>[A-Za-z_][A-Za-z0-9_().]*)|(?P<fixed>userHome|pathSeparator))\}"
)


class Token(msgspec.Struct, frozen=True):
    """A recognised placeholder; `text` is what was written."""

    kind: Literal["input", "env", "userHome", "pathSeparator"]
    name: str
    text: str


class Surroundings(msgspec.Struct, frozen=True):
    """What a rendering may look at besides inputs."""

    env: Mapping[str, str]
    user_home: str
    path_separator: str = "/"


class Rendered(msgspec.Struct, frozen=True):
    """A tree with its placeholders replaced, and the `${env:…}` names that were undefined (a warning each)."""

    value: Any
    undefined: tuple[str, ...] = ()


class TooDeep(Exception):
    """The tree nests deeper than `DEPTH_LIMIT`."""


def scan(text: str, *, backslash_escapes: bool = True) -> list[str | Token]:
    """The text cut into literals and tokens; joined again they give the text.

    What looks like a placeholder but is none (a default, one inside another, an escaped one, an unknown word) is
    literal up to its closing brace. `$${…}` is literal, and so is a backslash before `${` unless the backslash is the
    path separator.
    """
    parts: list[str | Token] = []
    literal_from = position = 0
    while (start := text.find("${", position)) >= 0:
        match = _TOKEN.match(text, start)
        escaped = start > literal_from and (text[start - 1] == "$" or (backslash_escapes and text[start - 1] == "\\"))
        if match is None or escaped:
            position = _closing_brace(text, start)
            continue
        if start > literal_from:
            parts.append(text[literal_from:start])
        parts.append(_token(match))
        literal_from = position = match.end()
    if literal_from < len(text):
        parts.append(text[literal_from:])
    return parts


def references(tree: Any, *, backslash_escapes: bool = True) -> tuple[str, ...]:
    """Distinct input ids the string values of a tree refer to, in order of first appearance (R-INPUT-7)."""
    found: dict[str, None] = {}
    for text in _strings(tree, 0):
        for part in scan(text, backslash_escapes=backslash_escapes):
            if isinstance(part, Token) and part.kind == "input":
                found.setdefault(part.name)
    return tuple(found)


def environment_references(tree: Any) -> tuple[str, ...]:
    """Distinct `${env:…}` names of a tree, in order of first appearance."""
    found: dict[str, None] = {}
    for text in _strings(tree, 0):
        for part in scan(text):
            if isinstance(part, Token) and part.kind == "env":
                found.setdefault(part.name)
    return tuple(found)


def is_pure_input(value: Any) -> bool:
    """Whether a value is exactly one `${input:…}`, which may stand for a number or a boolean (R-INPUT-6)."""
    parts = scan(value) if isinstance(value, str) else []
    return len(parts) == 1 and isinstance(parts[0], Token) and parts[0].kind == "input"


def render(tree: Any, values: Mapping[str, Any], around: Surroundings) -> Rendered:
    """Puts values in place of placeholders in every string of a tree; map keys stay as they are (R-INPUT-5).

    Args:
        tree: JSON-like value.
        values: Resolved value of every id of `references(tree)`.
    Raises:
        KeyError: An id has no value.
        TooDeep: The tree nests too deep.
    """
    undefined: dict[str, None] = {}

    def replace(text: str) -> Any:
        parts = scan(text, backslash_escapes=around.path_separator != "\\")
        if len(parts) == 1 and isinstance(parts[0], Token):
            return value_of(parts[0])
        return "".join(part if isinstance(part, str) else _as_text(value_of(part)) for part in parts)

    def value_of(token: Token) -> Any:
        match token.kind:
            case "input":
                return values[token.name]
            case "env":
                if token.name not in around.env:
                    undefined.setdefault(token.name)
                return around.env.get(token.name, "")
            case "userHome":
                return around.user_home
            case "pathSeparator":
                return around.path_separator

    return Rendered(_map_strings(tree, replace, 0), tuple(undefined))


def _token(match: re.Match[str]) -> Token:
    if match["input"] is not None:
        return Token("input", match["input"], match[0])
    if match["env"] is not None:
        return Token("env", match["env"], match[0])
    return Token(match["fixed"], match["fixed"], match[0])  # type: ignore[arg-type]


def _closing_brace(text: str, start: int) -> int:
    """Position after the brace that closes the `${` at `start`, or after the `${` when nothing closes it."""
    depth = 0
    for position in range(start + 1, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return position + 1
    return start + 2


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _strings(tree: Any, depth: int) -> Iterator[str]:
    if depth > DEPTH_LIMIT:
        raise TooDeep
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from _strings(value, depth + 1)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _strings(value, depth + 1)


def _map_strings(tree: Any, replace: Callable[[str], Any], depth: int) -> Any:
    if depth > DEPTH_LIMIT:
        raise TooDeep
    if isinstance(tree, str):
        return replace(tree)
    if isinstance(tree, Mapping):
        return {key: _map_strings(value, replace, depth + 1) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_map_strings(value, replace, depth + 1) for value in tree]
    return tree
