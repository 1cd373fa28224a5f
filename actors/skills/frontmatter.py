"""The YAML block at the head of a SKILL.md: where it lies, and its values. Pure (C-SKILL-43, C-SKILL-44, C-SKILL-47).

The block comes from strangers. Only the safe subset of YAML is read, without anything that
could refer back or call for a type of its own, so that neither code nor memory can be had by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import yaml

BLOCK_BYTES: Final = 65_536
"""Largest block (D-21)."""
MAX_DEPTH: Final = 64

BOM: Final = b"\xef\xbb\xbf"
_FENCE: Final = b"---"
_PLAIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,62}): ([A-Za-z][ -\"$-9;-~]*)\n")
"""A line of a key and text that YAML takes for just that: printable, without colon or comment, no number or date."""
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML takes for something else than text."""


class BadFrontmatter(Exception):
    """The head of a SKILL.md is missing or cannot be read; the text says where and why and quotes nothing."""


class Block(msgspec.Struct, frozen=True):
    """A recognised block.

    Attributes:
        text: Its bytes, without the fences.
        end: Offset of the first byte after the line break of the closing fence.
        line: Number of its first line in the file, from 1.
    """

    text: bytes
    end: int
    line: int = 2


def head_bytes(block_bytes: int = BLOCK_BYTES) -> int:
    """How much of a file must be at hand to recognise its block: the longest one, both fences and some room."""
    return block_bytes + 512


def find_block(head: bytes, block_bytes: int = BLOCK_BYTES) -> Block | str:
    """The block in the first bytes of a file, or why there is none.

    Args:
        head: At least `head_bytes()` bytes, or the whole file.
    Spec: C-SKILL-43; a block above `block_bytes` counts as none.
    """
    start = len(BOM) if head.startswith(BOM) else 0
    first, position = _line(head, start)
    if first.rstrip(b" \t") != _FENCE:
        return "line 1: the file does not begin with a line ---"
    begin = position
    while position < len(head):
        line, after = _line(head, position)
        if line.rstrip(b" \t") == _FENCE:
            return _block(head, begin, position, after, block_bytes)
        position = after
    if position - begin > block_bytes:
        return _too_long(block_bytes)
    return "no second line --- closes the header"


def body_start(head: bytes, block_bytes: int = BLOCK_BYTES) -> int:
    """Offset at which the resource bytes of a root SKILL.md begin (C-SKILL-47)."""
    block = find_block(head, block_bytes)
    return 0 if isinstance(block, str) else block.end


def parse_block(block: Block) -> dict[Any, Any]:
    """The mapping in a block.

    Raises:
        BadFrontmatter: Not YAML, beyond the safe subset, or no mapping.
    Spec: C-SKILL-44.
    """
    text = block.text.decode("utf-8")
    try:
        if (plain := plain_mapping(text)) is not None:
            return plain
        # Composing recurses in compiled code, so depth is checked on the flat events before.
        _check(yaml.parse(text, Loader=_Loader), block)
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"{error.problem or 'not YAML'}; text with a colon or a bracket in it needs quotes"
        raise BadFrontmatter(_place(block, mark.line if mark else 0, problem)) from None
    except (yaml.YAMLError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError):
        # Characters outside YAML, and scalars that promise a type and do not keep it: whatever the parts ran into.
        raise BadFrontmatter(f"from line {block.line} on: a character or value does not fit its place") from None
    if not isinstance(value, dict):
        raise BadFrontmatter(_place(block, 0, "the header is no mapping of keys to values"))
    return value


def plain_mapping(text: str) -> dict[Any, Any] | None:
    """What YAML makes of a header that is nothing but lines of `key: text`, as most are; `None` for any other."""
    fields, position = {}, 0
    while (line := _PLAIN.match(text, position)) is not None:
        key, value = line[1], line[2].rstrip(" ")
        if key.lower() in _WORDS or value.lower() in _WORDS:
            return None
        fields[key] = value
        position = line.end()
    return fields if fields and position == len(text) else None


def _line(data: bytes, start: int) -> tuple[bytes, int]:
    """The line that begins at `start`, without its break, and where the next one begins."""
    end = data.find(b"\n", start)
    if end < 0:
        return data[start:], len(data)
    return data[start:end].removesuffix(b"\r"), end + 1


def _block(head: bytes, begin: int, end: int, after: int, block_bytes: int) -> Block | str:
    text = head[begin:end]
    if len(text) > block_bytes:
        return _too_long(block_bytes)
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 2 + text.count(b"\n", 0, error.start)
        return f"line {line}: the header is not UTF-8"
    return Block(text, after)


def _too_long(block_bytes: int) -> str:
    return f"the header is longer than {block_bytes} bytes"


def _place(block: Block, line: int, problem: str) -> str:
    return f"line {block.line + line}: {problem}"


# The compiled loader is several times faster and comes with most installations of PyYAML.
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _check(events: Iterable[yaml.Event], block: Block) -> None:
    """Refuses what the safe subset leaves out: anchors, aliases, tags but YAML's own, and depth without end."""
    depth = 0
    for event in events:
        refused = None
        tag = getattr(event, "tag", None)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            refused = "anchors and aliases are not allowed"
        elif tag not in (None, "!") and tag not in _Loader.yaml_constructors:
            refused = "a tag that is not one of YAML's own types"
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            refused = "nested too deeply" if depth > MAX_DEPTH else None
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if refused is not None:
            mark = event.start_mark
            raise BadFrontmatter(_place(block, mark.line if mark else 0, refused))
