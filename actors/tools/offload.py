"""Moving what is large out of a tool result, until its acknowledgement fits (C-BLOB-19…29, W-CALL-21…25).

The steps go from harmless to drastic: binaries over the inline budget, then smaller ones,
then long texts, the transformed copy, the structured content; what still does not fit
becomes an error that names both sizes. Nothing is ever cut without the whole of it being
behind a handle.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ...wire.base import to_json
from ...wire.errors import SmcpError
from ...wire.messages.blobs import BlobTicket
from ...wire.protocol import ABSOLUTE_CAP, INLINE_BUDGET
from ...wire.results import too_large
from .carriers import (
    Carrier,
    appended,
    binary_carrier,
    decoded,
    may_exceed,
    moved,
    refusal,
    shortened,
    text_carrier,
)

logger = logging.getLogger(__name__)

Store = Callable[[bytes, str], Awaitable[BlobTicket]]
"""Keeps bytes of a MIME type and mints their handle; raises `SmcpError` when it cannot."""

KEYS_ROOM = 512
"""Bytes that the three keys of a handle may take."""

VRL_KEY = "a2c_vrl_transformed"

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class OffloadLimits(msgspec.Struct, frozen=True):
    """Sizes in bytes (D-10, D-11, D-26)."""

    inline: int = INLINE_BUDGET
    cap: int = ABSOLUTE_CAP
    kept_text: int = 64 * 1024


async def offload(result: bytes, budget: int, limits: OffloadLimits, store: Store) -> bytes:
    """A sealed result within `budget` bytes of JSON."""
    if len(result) <= min(limits.inline, budget):
        # So short that no step could apply; the way of almost every call.
        return result
    draft = _Draft(result, budget, limits, store)
    try:
        await draft.move_large_binaries()
        if draft.changed or draft.size > budget:
            await draft.shrink()
    except _NoStore:
        logger.error("a tool result of %d bytes could not be moved to the spool", len(result))
    if not draft.changed and len(result) <= budget:
        return result
    if draft.size > budget:
        logger.error("a tool result of %d bytes exceeds the acknowledgement budget", len(result))
        return to_json(too_large(len(result), budget))
    return draft.encoded()


class _NoStore(Exception):
    """The spool did not take something that had to leave the result."""


class _Draft:
    """A result being worked on, with the encoded size of each part known: some have a hundred thousand items."""

    def __init__(self, result: bytes, budget: int, limits: OffloadLimits, store: Store) -> None:
        self.changed = False
        self._budget = budget
        self._limits = limits
        self._store = store
        self._members = _decode_members(result)
        self._items: list[Any] = msgspec.json.decode(self._members.pop("content"))
        self._sizes = [len(to_json(item)) for item in self._items]
        self._meta: dict[str, Any] = msgspec.json.decode(self._members.pop("meta", b"{}"))
        self._items_size = sum(self._sizes)
        self._frame_size = self._measured_frame()

    @property
    def size(self) -> int:
        """Bytes of the whole as JSON."""
        commas = max(0, len(self._items) - 1)
        return self._frame_size + self._items_size + commas

    def encoded(self) -> bytes:
        """The result as JSON."""
        meta = {"meta": msgspec.Raw(to_json(self._meta))} if self._meta else {}
        return to_json({"content": msgspec.Raw(to_json(self._items)), **self._members, **meta})

    async def move_large_binaries(self) -> None:
        """Each binary over the inline budget leaves, whatever the size of the rest. Spec: C-BLOB-22…25."""
        for position, item in enumerate(self._items):
            carrier = binary_carrier(item)
            if carrier is None or not may_exceed(carrier.payload(item), self._limits.inline):
                continue
            data = decoded(carrier.payload(item))
            if data is None:
                if len(carrier.payload(item)) > self._limits.inline:
                    self._refuse(position, carrier, len(carrier.payload(item)))
            elif len(data) > self._limits.cap:
                self._refuse(position, carrier, len(data))
            elif len(data) > self._limits.inline:
                await self._move_or_keep(position, carrier, data)

    async def shrink(self) -> None:
        """While it is too large: more binaries, texts, the transformed copy, the structure. Spec: C-BLOB-26…28."""
        await self._each_largest(binary_carrier, self._move)
        await self._each_largest(text_carrier, self._shorten, over=self._limits.kept_text)
        if self.size > self._budget and self._meta.pop(VRL_KEY, None) is not None:
            self.changed = True
            self._frame_size = self._measured_frame()
            logger.warning("the transformed copy of an oversized tool result is left out")
        if self.size > self._budget and "structuredContent" in self._members:
            data = bytes(self._members["structuredContent"])
            ticket = await self._kept(data, "application/json")
            del self._members["structuredContent"]
            self._frame_size = self._measured_frame()
            self._append(appended("a2c-structured", "application/json", ticket, a2c_structured=True))

    # -- steps ------------------------------------------------------------------------

    async def _each_largest(
        self,
        find: Callable[[Any], Carrier | None],
        step: Callable[[int, Carrier], Awaitable[None]],
        over: int = 0,
    ) -> None:
        found = [(position, carrier) for position, item in enumerate(self._items) if (carrier := find(item))]
        found.sort(key=lambda one: -self._sizes[one[0]])
        for position, carrier in found:
            if self.size <= self._budget:
                return
            if len(carrier.payload(self._items[position]).encode()) > over:
                await step(position, carrier)

    async def _move(self, position: int, carrier: Carrier) -> None:
        payload = carrier.payload(self._items[position])
        # Below that the keys of a handle would take more room than they free.
        data = decoded(payload) if len(payload) > KEYS_ROOM else None
        if data is not None:
            ticket = await self._kept(data, carrier.mime_type)
            self._replace(position, moved(self._items[position], carrier, ticket))

    async def _move_or_keep(self, position: int, carrier: Carrier, data: bytes) -> None:
        """Without a spool an item stays inline if the whole still fits, and is refused otherwise."""
        try:
            ticket = await self._kept(data, carrier.mime_type)
        except _NoStore:
            if self.size > self._budget:
                self._refuse(position, carrier, len(data))
            return
        self._replace(position, moved(self._items[position], carrier, ticket))

    async def _shorten(self, position: int, carrier: Carrier) -> None:
        item = self._items[position]
        ticket = await self._kept(carrier.payload(item).encode(), "text/plain; charset=utf-8")
        self._replace(position, shortened(item, carrier, self._limits.kept_text, ticket))
        self._append(appended("a2c-text", "text/plain; charset=utf-8", ticket))

    async def _kept(self, data: bytes, mime_type: str) -> BlobTicket:
        try:
            return await self._store(data, mime_type)
        except SmcpError as error:
            logger.warning("the spool did not take %d bytes: %s", len(data), error.code)
            raise _NoStore from None

    def _refuse(self, position: int, carrier: Carrier, size: int) -> None:
        self._replace(position, refusal(carrier.kind, size, self._limits.cap))
        self._members["isError"] = msgspec.Raw(b"true")
        self._meta["error_code"] = 4003
        self._frame_size = self._measured_frame()

    def _replace(self, position: int, item: dict[str, Any]) -> None:
        self.changed = True
        size = len(to_json(item))
        self._items_size += size - self._sizes[position]
        self._items[position], self._sizes[position] = item, size

    def _append(self, item: dict[str, Any]) -> None:
        self.changed = True
        self._items.append(item)
        self._sizes.append(len(to_json(item)))
        self._items_size += self._sizes[-1]

    def _measured_frame(self) -> int:
        """Bytes of everything around the items."""
        meta = {"meta": msgspec.Raw(to_json(self._meta))} if self._meta else {}
        return len(to_json({"content": msgspec.Raw(b"[]"), **self._members, **meta}))
