"""Making a tool list fit the acknowledgement budget (C-GEN-7, DEC-18, DEC-33).

The server whose items take the most bytes pays first: its largest return schemas become
null, then its largest tools are left out. Everybody else stays whole as long as that is
enough.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


class ListedEntry(msgspec.Struct, frozen=True):
    """One SMCPTool with its schemas as raw JSON. Field order is the order on the wire."""

    exposed: str = msgspec.field(name="name")
    bundle_id: str
    description: str
    params_schema: msgspec.Raw
    return_schema: msgspec.Raw | None
    meta: dict[str, Any]


def fit_tools(
    entries: Sequence[ListedEntry], budget: int, *, spared: str | None = None
) -> tuple[bytes, tuple[str, ...]]:
    """The JSON array of the entries in their order within `budget` bytes, and a note per server that paid for it.

    Args:
        spared: A bundle_id that never pays.
    """
    bodies = [_encode(entry) for entry in entries]
    total = 2 + sum(map(len, bodies)) + max(0, len(bodies) - 1)
    if total <= budget:
        return b"[" + b",".join(bodies) + b"]", ()
    kept: list[bytes | None] = list(bodies)
    payers: dict[str, _Payer] = {}
    for position, (entry, body) in enumerate(zip(entries, bodies, strict=True)):
        payers.setdefault(entry.bundle_id, _Payer()).add(position, entry, len(body))
    payers.pop(spared or "", None)
    ranking = [(-payer.size, bundle_id) for bundle_id, payer in payers.items()]
    heapq.heapify(ranking)
    while total > budget and ranking:
        _, bundle_id = heapq.heappop(ranking)
        payer = payers[bundle_id]
        position, slim = payer.give()
        rest = _encode(msgspec.structs.replace(entries[position], return_schema=None)) if slim else None
        before = kept[position] or b""
        saved = len(before) - len(rest) if rest is not None else len(before) + 1
        kept[position] = rest
        payer.size -= saved
        total -= saved
        if payer.has_more:
            heapq.heappush(ranking, (-payer.size, bundle_id))
    notes = tuple(note for bundle_id, payer in sorted(payers.items()) if (note := payer.note(bundle_id)))
    return b"[" + b",".join(filter(None, kept)) + b"]", notes


class _Payer:
    """One server's entries, largest first, in the order in which they give way."""

    def __init__(self) -> None:
        self.size = 0
        self._schemas: list[tuple[int, int]] = []
        self._tools: list[tuple[int, int]] = []
        self._gave_schemas = 0
        self._gave_tools = 0

    def add(self, position: int, entry: ListedEntry, size: int) -> None:
        self.size += size
        if entry.return_schema is None:
            heapq.heappush(self._tools, (-size, position))
        else:
            schema = len(bytes(entry.return_schema))
            heapq.heappush(self._schemas, (-schema, position))
            heapq.heappush(self._tools, (schema - len(b"null") - size, position))

    def give(self) -> tuple[int, bool]:
        """Position of the entry that gives way, and whether it only loses its return schema."""
        if self._schemas:
            self._gave_schemas += 1
            return heapq.heappop(self._schemas)[1], True
        self._gave_tools += 1
        return heapq.heappop(self._tools)[1], False

    @property
    def has_more(self) -> bool:
        return bool(self._tools)

    def note(self, bundle_id: str) -> str | None:
        if not (self._gave_schemas or self._gave_tools):
            return None
        losses = f"{self._gave_schemas} return schema(s) and {self._gave_tools} tool(s)"
        return f"{bundle_id}: {losses} left out, the tool list exceeds the acknowledgement budget"
