"""JSON text with comments: what people write into their files, and where everything in it stands.

Comments are white space to a reader. A writer needs to know where each member begins and
ends, so that it can change one and leave every other character as it was (R-FILE-9).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"?|//[^\n]*+|/\*(?:.*?\*/|.*+)', re.DOTALL)
"""Texts and comments. One that has no end reaches to the end of the file: looked for again from each
of its beginnings, a file of nothing but beginnings would take hours."""
_SPACE = re.compile(r"[ \t\r\n]*")
_decode = json.JSONDecoder(strict=False).raw_decode


class Member(msgspec.Struct, frozen=True):
    """One member of an object: its name, where the name begins, and its value."""

    name: str
    start: int
    value: Node


class Node(msgspec.Struct, frozen=True):
    """A value and its place; `members` only for objects, in their order, repeated names included."""

    start: int
    end: int
    members: tuple[Member, ...] | None = None

    def find(self, name: str) -> Member | None:
        """The member that counts under a name: the last."""
        return next((member for member in reversed(self.members or ()) if member.name == name), None)


def has_comments(text: str) -> bool:
    """Whether there is a comment in a text."""
    return any(_is_comment(part[0]) for part in _PART.finditer(text))


def without_comments(text: str) -> str:
    """The text with its comments replaced by blanks; every place stays where it was."""
    return _blanked(text, r"[^\r\n]")


def ends_of_lines(text: str) -> str:
    """The text with its comments replaced by blanks, also the ends of lines within one; every place stays."""
    return _blanked(text, ".")


def _blanked(text: str, letters: str) -> str:
    blank = re.compile(letters, re.DOTALL)
    return _PART.sub(lambda part: blank.sub(" ", part[0]) if _is_comment(part[0]) else part[0], text)


def _is_comment(part: str) -> bool:
    """Whether a part is a comment, which one without an end is not."""
    return part.startswith("//") or (part.startswith("/*") and part.endswith("*/") and len(part) > 3)


def outline(text: str) -> Node:
    """The places of a text that is known to be JSON, apart from its comments."""
    plain = without_comments(text)
    return _node(plain, _skip(plain, 0))


def _node(text: str, start: int) -> Node:
    if text[start] == "{":
        return _object(text, start)
    if text[start] == "[":
        # Arrays are replaced as a whole, so only their end matters.
        return Node(start, _array_end(text, start))
    return Node(start, _decode(text, start)[1])


def _object(text: str, start: int) -> Node:
    members = []
    at = _skip(text, start + 1)
    while text[at] != "}":
        name, end = _decode(text, at)
        value = _node(text, _skip(text, _skip(text, end) + 1))
        members.append(Member(name, at, value))
        at = _skip(text, value.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return Node(start, at + 1, tuple(members))


def _array_end(text: str, start: int) -> int:
    at = _skip(text, start + 1)
    while text[at] != "]":
        at = _skip(text, _node(text, at).end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def repeats(node: Node) -> Iterator[str]:
    """Names that stand more than once in one object, at any depth of objects."""
    seen: set[str] = set()
    for member in node.members or ():
        if member.name in seen:
            yield member.name
        seen.add(member.name)
        yield from repeats(member.value)


def dump(value: Any, indent: str = "") -> str:
    """JSON as we write it: two spaces, letters kept (R-FILE-5). `indent` is that of the line it begins on."""
    return json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n" + indent)
