"""A change to a tree: objects by key, anything else as a whole, and null deletes (R-FILE-9).

The same change can be made to a value and to a text. The text keeps whatever the change
does not name, comments and faulty entries included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .jsonc import Member, Node, dump, ends_of_lines, has_comments, outline, repeats, without_comments

Patch = Mapping[str, Any]


def patched(tree: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """The tree after a change; the original stays as it is."""
    changed = dict(tree)
    for name, value in patch.items():
        before = changed.get(name)
        if value is None:
            changed.pop(name, None)
        elif isinstance(value, Mapping):
            changed[name] = patched(before if isinstance(before, Mapping) else {}, value)
        else:
            changed[name] = value
    return changed


def replacing(before: object, after: Mapping[str, Any]) -> dict[str, Any]:
    """The change that turns `before` into `after` exactly."""
    patch: dict[str, Any] = {}
    known = before if isinstance(before, Mapping) else {}
    for name in known:
        if name not in after:
            patch[name] = None
    for name, value in after.items():
        below = known.get(name)
        patch[name] = replacing(below, value) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return patch


def patched_text(text: str, tree: Mapping[str, Any], patch: Patch) -> str:
    """The text after a change.

    A plain text is written anew in our form. One with comments or repeated keys, which a tree cannot hold, is
    changed in place.

    Args:
        text: JSON, possibly with comments; its root is an object.
        tree: What the text says.
    """
    if not has_comments(text) and not any(repeats(outline(text))):
        return dump(patched(tree, patch)) + "\n"
    for path, value in _steps(tree, patch, ()):
        text = _apply(text, path, value)
    return text


def _steps(tree: Mapping[str, Any], patch: Patch, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """Single changes: where, and what is there afterwards; `None` for nothing."""
    steps: list[tuple[tuple[str, ...], Any]] = []
    for name, value in patch.items():
        before, place = tree.get(name), (*path, name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            steps.extend(_steps(before, value, place))
            continue
        after = patched({}, value) if isinstance(value, Mapping) else value
        if after is None or after != before or type(after) is not type(before):
            steps.append((place, after))
    return steps


def _apply(text: str, path: tuple[str, ...], value: Any) -> str:
    node, indent = outline(text), ""
    for name in path[:-1]:
        member = node.find(name)
        assert member is not None
        node, indent = member.value, _indent_of(text, member.start)
    name = path[-1]
    if value is None:
        while (member := _located(text, path)) is not None:
            text = _without(text, _parent(text, path), member)
        return text
    member = node.find(name)
    if member is not None:
        place = member.value
        return text[: place.start] + dump(value, _indent_of(text, member.start)) + text[place.end :]
    return _with(text, node, name, value, indent)


def _parent(text: str, path: tuple[str, ...]) -> Node:
    node = outline(text)
    for name in path[:-1]:
        member = node.find(name)
        assert member is not None
        node = member.value
    return node


def _located(text: str, path: tuple[str, ...]) -> Member | None:
    return _parent(text, path).find(path[-1])


def _with(text: str, node: Node, name: str, value: Any, indent: str) -> str:
    """The text with one more member at the end of an object."""
    members = node.members or ()
    if members:
        last = members[-1]
        inner = _indent_of(text, last.start)
        end = last.value.end
        at = _line_end(text, end, node.end - 1)
        return f"{text[:end]},{text[end:at]}\n{inner}{dump(name)}: {dump(value, inner)}{text[at:]}"
    inner = indent + "  "
    inside = text[node.start + 1 : node.end - 1].rstrip()
    return (
        f"{text[: node.start + 1]}{inside}\n{inner}{dump(name)}: {dump(value, inner)}\n{indent}{text[node.end - 1 :]}"
    )


def _without(text: str, node: Node, member: Member) -> str:
    """The text without one member, the comment lines above it and what is said of it on its line."""
    members = node.members or ()
    position = members.index(member)
    previous_end = members[position - 1].value.end if position else node.start + 1
    last = position + 1 == len(members)
    begin = _line_end(text, _after_comma(text, previous_end) if position else previous_end, member.start)
    if last:
        end = _line_end(text, member.value.end, node.end - 1)
    else:
        end = _line_end(text, _after_comma(text, member.value.end), members[position + 1].start)
    kept, rest = text[:begin], text[end:]
    if last and position:
        comma = _after_comma(text, previous_end) - 1
        kept = kept[:comma] + kept[comma + 1 :]
    if text[begin] == "\n" and text[end] != "\n":
        # What follows on the line of the member begins that line now; it must not fall into a comment above.
        kept, rest = f"{kept}\n{_indent_of(text, member.start)}", rest.lstrip(" \t")
    return kept + rest


def _after_comma(text: str, at: int) -> int:
    """The place behind the comma that follows a value, past comments that stand before it."""
    return without_comments(text).index(",", at) + 1


def _line_end(text: str, at: int, before: int) -> int:
    """The end of the line `at` is on, when that comes before the next thing; else `at`.

    A line that ends within a comment goes on behind it.
    """
    end = ends_of_lines(text).find("\n", at, before)
    return at if end < 0 else end


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]
