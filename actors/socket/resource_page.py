"""One page of an MCP server's resources as the protocol spells it, kept within the ack budget.

Pure. An item that cannot be read costs that item, never the page (C-GEN-9). A page that
is too large loses metadata first, then long descriptions, then its last entries (DEC-33).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET

from ...wire.base import to_json
from ...wire.protocol import ACK_BUDGET
from ...wire.resources import A2CResource, resource_from_mcp
from .answers import embed

DESCRIPTION_MAX = 1_024
"""Characters a description keeps on a page that is too large."""


class Page(msgspec.Struct, frozen=True):
    """The acknowledgement, and what had to be left out of it, for diagnostics."""

    answer: bytes
    notes: tuple[str, ...] = ()


def page(listed: bytes, next_cursor: str | None, req_id: str, budget: int = ACK_BUDGET) -> Page:
    """GetResourcesRet for the JSON array an MCP server sent.

    Raises:
        ValueError: `listed` is not a JSON array.
    """
    raw = msgspec.json.decode(listed, type=list[msgspec.Raw])
    resources = [found for item in raw if (found := _read(item)) is not None]
    notes = [f"{len(raw) - len(resources)} resources without a URI set aside"] if len(resources) < len(raw) else []
    room = budget - len(_page(b"[]", next_cursor, req_id)) + 2
    for shrink, what in _STEPS:
        text = to_json(resources)
        if len(text) <= room:
            return Page(_page(text, next_cursor, req_id), tuple(notes))
        resources = [shrink(resource) for resource in resources]
        notes.append(f"page too large: {what}")
    kept = _fitting([to_json(resource) for resource in resources], room)
    if len(kept) < len(resources):
        notes.append(f"page too large: the last {len(resources) - len(kept)} resources left out")
    return Page(_page(b"[%s]" % b",".join(kept), next_cursor, req_id), tuple(notes))


def _read(item: msgspec.Raw) -> A2CResource | None:
    try:
        return resource_from_mcp(msgspec.json.decode(item))
    except (ValueError, RecursionError):
        return None


def _page(resources: bytes, next_cursor: str | None, req_id: str) -> bytes:
    if next_cursor is None:
        return embed(req_id, resources=resources)
    return embed(req_id, resources=resources, next_cursor=to_json(next_cursor))


def _without_meta(resource: A2CResource) -> A2CResource:
    return msgspec.structs.replace(resource, meta=UNSET)


def _with_short_description(resource: A2CResource) -> A2CResource:
    text = resource.description
    if text is UNSET or len(text) <= DESCRIPTION_MAX:
        return resource
    return msgspec.structs.replace(resource, description=text[:DESCRIPTION_MAX])


_STEPS: tuple[tuple[Callable[[A2CResource], A2CResource], str], ...] = (
    (_without_meta, "metadata left out"),
    (_with_short_description, f"descriptions cut to {DESCRIPTION_MAX} characters"),
)


def _fitting(texts: list[bytes], room: int) -> list[bytes]:
    """The longest beginning whose array fits into `room` bytes."""
    size = 2
    for number, text in enumerate(texts):
        size += len(text) + (1 if number else 0)
        if size > room:
            return texts[:number]
    return texts
