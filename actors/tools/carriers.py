"""Where a content item carries bytes or text, and how it looks once they are kept elsewhere. Pure (C-BLOB-21…28)."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from ...wire.base64_text import from_base64
from ...wire.messages.blobs import BlobTicket

OCTETS: Final = "application/octet-stream"


class Carrier(msgspec.Struct, frozen=True):
    """The place of one payload: the item itself or its embedded resource, and the member of that."""

    kind: str
    inside: Literal["item", "resource"]
    member: str
    mime_type: str

    def holder(self, item: dict[str, Any]) -> dict[str, Any]:
        """The object that has the member."""
        holder: dict[str, Any] = item["resource"] if self.inside == "resource" else item
        return holder

    def payload(self, item: dict[str, Any]) -> str:
        """The payload as it is carried."""
        text: str = self.holder(item)[self.member]
        return text


def binary_carrier(item: Any) -> Carrier | None:
    """Where an item carries base64, if it does. Spec: C-BLOB-21."""
    match item:
        case {"type": "image" | "audio" as kind, "data": str()}:
            return Carrier(kind, "item", "data", _mime(item))
        case {"type": "resource", "resource": {"blob": str()} as resource}:
            return Carrier("resource", "resource", "blob", _mime(resource))
    return None


def text_carrier(item: Any) -> Carrier | None:
    """Where an item carries text, if it does. Spec: C-BLOB-27."""
    match item:
        case {"type": "text", "text": str()}:
            return Carrier("text", "item", "text", "text/plain")
        case {"type": "resource", "resource": {"text": str()}}:
            return Carrier("resource", "resource", "text", "text/plain")
    return None


def decoded(payload: str) -> bytes | None:
    """The bytes of strict base64; `None` when it is not."""
    try:
        return from_base64(payload)
    except ValueError:
        return None


def may_exceed(payload: str, size: int) -> bool:
    """Whether base64 of this length can stand for more than `size` bytes."""
    return len(payload) // 4 * 3 > size


def moved(item: dict[str, Any], carrier: Carrier, ticket: BlobTicket) -> dict[str, Any]:
    """The item without its payload, with the keys an Agent fetches it by. Spec: C-BLOB-23."""
    return _with_meta(_replaced(item, carrier, ""), keys(ticket))


def shortened(item: dict[str, Any], carrier: Carrier, keep: int, ticket: BlobTicket) -> dict[str, Any]:
    """The item with the first `keep` bytes of its text, cut between code points. Spec: C-BLOB-27.

    It names the hash of the whole, since several texts may begin alike.
    """
    head = carrier.payload(item).encode()[:keep].decode(errors="ignore")
    return _with_meta(_replaced(item, carrier, head), {"a2c_truncated": True, "a2c_sha256": ticket.sha256})


def appended(scheme: str, mime_type: str, ticket: BlobTicket, **marks: bool) -> dict[str, Any]:
    """The embedded resource that carries a whole text or structure which did not fit."""
    resource = {"uri": f"{scheme}:///{ticket.sha256}", "mimeType": mime_type, "blob": ""}
    return {"type": "resource", "resource": resource, "_meta": {**keys(ticket), **marks}}


def keys(ticket: BlobTicket) -> dict[str, Any]:
    """The three keys of a handle."""
    return {"a2c_blob_handle": ticket.handle, "a2c_total_size": ticket.total_size, "a2c_sha256": ticket.sha256}


def refusal(kind: str, size: int, limit: int) -> dict[str, Any]:
    """The text that stands for bytes nobody can have. Spec: C-BLOB-25."""
    return {"type": "text", "text": f"This {kind} of {size} bytes was left out: the limit is {limit} bytes"}


def _replaced(item: dict[str, Any], carrier: Carrier, payload: str) -> dict[str, Any]:
    if carrier.inside == "resource":
        return {**item, "resource": {**item["resource"], carrier.member: payload}}
    return {**item, carrier.member: payload}


def _with_meta(item: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    meta = item.get("_meta")
    return {**item, "_meta": {**(meta if isinstance(meta, dict) else {}), **more}}


def _mime(holder: dict[str, Any]) -> str:
    mime = holder.get("mimeType")
    return mime if isinstance(mime, str) and mime and mime.isascii() else OCTETS
