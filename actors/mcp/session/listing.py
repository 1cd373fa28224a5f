"""Collecting the pages of a list: to the end, leniently, and never without one (DEC-6, C-GEN-8, C-GEN-9).

One malformed item costs that item. A repeated cursor, too many pages or too many bytes end the list
with a diagnostic, and what was read before counts.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

PAGE_LIMIT = 10.0
"""Seconds for one page of a list (D-5)."""
MAX_PAGES = 1000
MAX_BYTES = 64 * 1024 * 1024
MAX_NOTES = 10

Kind = Literal["tools", "resources", "prompts"]


class ToolShape(msgspec.Struct):
    """What a tool must look like to be listed; what it may carry beyond that is not judged here."""

    name: str
    inputSchema: dict[str, Any]
    description: str | None = None
    title: str | None = None
    outputSchema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


class ResourceShape(msgspec.Struct):
    """What a resource must look like to be listed. Its annotations and metadata are read where they matter."""

    uri: str


_SHAPES: dict[Kind, msgspec.json.Decoder[Any]] = {
    "tools": msgspec.json.Decoder(ToolShape),
    "resources": msgspec.json.Decoder(ResourceShape),
    "prompts": msgspec.json.Decoder(dict[str, Any]),
}


class Page(msgspec.Struct, frozen=True):
    """One page: `items` is its JSON array as sent."""

    items: bytes
    next_cursor: str | None = None


def read_page(result: bytes, kind: Kind) -> Page:
    """The page in a list result.

    Raises:
        msgspec.MsgspecError: It is no object.
    """
    members = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    cursor = None
    if "nextCursor" in members:
        try:
            cursor = msgspec.json.decode(members["nextCursor"], type=str | None)
        except msgspec.MsgspecError:
            cursor = bytes(members["nextCursor"]).decode("utf-8", "replace")
    return Page(bytes(members.get(kind, b"[]")), cursor or None)


class Listing:
    """A list in the making."""

    def __init__(self, kind: Kind, *, max_pages: int = MAX_PAGES, max_bytes: int = MAX_BYTES) -> None:
        self._kind = kind
        self._max_pages, self._max_bytes = max_pages, max_bytes
        self._kept: list[msgspec.Raw] = []
        self._cursors: set[str] = set()
        self._pages = 0
        self._bytes = 0
        self._set_aside: list[str] = []
        self._set_aside_count = 0
        self._ended_early: str | None = None

    def add(self, page: Page) -> str | None:
        """Takes a page in; the cursor of the next one to fetch, or `None` when the list is complete or ended."""
        self._pages += 1
        self._bytes += len(page.items)
        self._take(page.items)
        cursor = page.next_cursor
        if cursor is None:
            return None
        if cursor in self._cursors:
            self._ended_early = f"the cursor of page {self._pages} was named before"
        elif self._pages >= self._max_pages:
            self._ended_early = f"there are more than {self._max_pages} pages"
        elif self._bytes > self._max_bytes:
            self._ended_early = f"there are more than {self._max_bytes} bytes"
        if self._ended_early is not None:
            return None
        self._cursors.add(cursor)
        return cursor

    def json(self) -> bytes:
        """The items kept, in the order of the server, as a JSON array."""
        return msgspec.json.encode(self._kept)

    def items(self) -> list[msgspec.Raw]:
        """The items kept."""
        return self._kept

    def set_aside(self, item: msgspec.Raw, reason: str) -> None:
        """Takes an item out again that was kept."""
        self._kept.remove(item)
        self._report(reason)

    def notes(self) -> tuple[str, ...]:
        """Diagnostics: why the list ended early, and what was set aside."""
        notes = [f"listing of {self._kind} ended early: {self._ended_early}"] if self._ended_early else []
        notes += self._set_aside
        if self._set_aside_count > len(self._set_aside):
            notes.append(f"{self._set_aside_count - len(self._set_aside)} more {self._kind} set aside")
        return tuple(notes)

    def _take(self, items: bytes) -> None:
        try:
            raw = msgspec.json.decode(items, type=list[msgspec.Raw])
        except msgspec.MsgspecError:
            self._report(f"page {self._pages} of {self._kind} is not a list")
            return
        decode = _SHAPES[self._kind].decode
        for index, item in enumerate(raw):
            try:
                decode(item)
            except msgspec.MsgspecError as error:
                self._report(f"{self._kind} item {index} of page {self._pages} set aside: {error}")
            else:
                self._kept.append(item)

    def _report(self, reason: str) -> None:
        self._set_aside_count += 1
        if len(self._set_aside) < MAX_NOTES:
            self._set_aside.append(reason)
