"""Three tools of the Computer itself, listed in place of the tools of lazy servers: search, describe and call (F-68).

Names of tools of servers have the separator in them (W-EXP-1), these have not, so that none can be taken for the other.
They look the same whatever the servers are and do. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ...wire.codec import Attachment
from ...wire.messages.tools import RunTool
from ...wire.results import text_item
from .meta_merge import wire_meta
from .shrink import ListedEntry

OWNER: Final = "smcp-lazy-tools"
"""What stands for the bundle_id of a server in their entries."""
SEARCH: Final = "smcp_search_tools"
DESCRIBE: Final = "smcp_describe_tool"
CALL: Final = "smcp_call_tool"
NAMES: Final = frozenset({SEARCH, DESCRIBE, CALL})

USUAL, MOST = 10, 50
"""Tools that a search finds if it does not say how many, and at most."""
LINE: Final = 160
"""Characters of a description in what a search finds."""

_WORD = re.compile(r"[^\W_]+")


class Misused(ValueError):
    """The arguments are not what the tool takes; its text names what is wrong."""


class _Search(msgspec.Struct):
    query: str = ""
    limit: int = USUAL


class _Describe(msgspec.Struct):
    name: str


class _Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


def entries() -> tuple[ListedEntry, ...]:
    """The three as they are listed, always the same."""
    return _ENTRIES


def unwrapped(message: RunTool) -> RunTool:
    """The call of the tool itself that one of `CALL` stands for.

    Raises:
        Misused: It does not say which tool to call, or with what.
    """
    asked = _read(message.params.data, _Call)
    arguments = bytes(asked.arguments)
    if not arguments.startswith(b"{"):
        raise Misused("`arguments` must be an object")
    return msgspec.structs.replace(message, tool_name=asked.name, params=Attachment(arguments), indirect=True)


def described_name(params: bytes) -> str:
    """The tool that `DESCRIBE` is asked about.

    Raises:
        Misused: It does not say.
    """
    name: str = _read(params, _Describe).name
    return name


def search(params: bytes, known: Iterable[ListedEntry]) -> dict[str, Any]:
    """The result of `SEARCH`: names and first lines of descriptions, best first.

    Args:
        known: The tools to be found.
    Raises:
        Misused: The arguments are none.
    """
    asked = _read(params, _Search)
    limit = min(max(asked.limit, 1), MOST)
    words = _words(asked.query)
    ranked = sorted((-_rank(words, entry), entry.exposed, entry) for entry in known)
    found = [entry for rank, _, entry in ranked if rank or not words]
    shown = [{"name": entry.exposed, "description": _line(entry.description)} for entry in found[:limit]]
    return _result({"tools": shown, "total": len(found)})


def describe(entry: ListedEntry) -> dict[str, Any]:
    """The result of `DESCRIBE`: the tool as it would be listed."""
    definition: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(entry))
    return _result(definition)


def _result(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "content": [text_item(msgspec.json.encode(value).decode())],
        "structuredContent": dict(value),
        "isError": False,
    }


def _rank(words: Sequence[str], entry: ListedEntry) -> int:
    """How well a tool fits; 0 for not at all. A word counts by its best place, and every one that is found."""
    name, description = _words(entry.exposed), _words(entry.description)
    loose = entry.exposed.casefold()
    rank = 0
    for word in words:
        if word in name:
            rank += 8
        elif word in loose:
            rank += 4
        elif word in description:
            rank += 2
        elif any(one.startswith(word) for one in description):
            rank += 1
    return rank


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_WORD.findall(text.casefold())))


def _line(description: str) -> str:
    first = " ".join(next((line for line in description.splitlines() if line.strip()), "").split())
    return first if len(first) <= LINE else first[: LINE - 1] + "…"


def _read(params: bytes, shape: type[Any]) -> Any:
    try:
        return msgspec.json.decode(params, type=shape)
    except msgspec.MsgspecError as error:
        raise Misused(str(error)) from None


def _entry(name: str, description: str, properties: Mapping[str, Any], required: Sequence[str]) -> ListedEntry:
    schema = {"type": "object", "properties": properties, "required": required}
    # Whether a tool that is called through one of these runs unasked is decided by its own configuration.
    hints = {"readOnlyHint": True, "idempotentHint": True} if name != CALL else None
    meta = wire_meta({}, hints, {"auto_apply": True})
    return ListedEntry(name, OWNER, description, msgspec.Raw(msgspec.json.encode(schema)), None, meta)


_NAME = {"type": "string", "description": f"Full name of the tool, as {SEARCH} gives it."}

_ENTRIES = (
    _entry(
        CALL,
        f"Calls a tool that is not listed itself. {DESCRIBE} tells what it takes. The result is the tool's own.",
        {"name": _NAME, "arguments": {"type": "object", "description": "Arguments of that tool."}},
        ("name", "arguments"),
    ),
    _entry(
        DESCRIBE,
        "Gives the full definition of a tool that is not listed itself: description, schemas, metadata.",
        {"name": _NAME},
        ("name",),
    ),
    _entry(
        SEARCH,
        "Searches tools that are not listed themselves, by words of their names and descriptions. Gives names with one"
        " line of description each, best first; without words all of them, by name.",
        {
            "query": {"type": "string", "description": "Words to look for."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
        },
        ("query",),
    ),
)
