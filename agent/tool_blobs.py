"""Binaries that left a tool result for the spool of the Computer: finding their handles, putting the bytes back. Pure.

Spec: C-BLOB-23, C-BLOB-27, C-BLOB-28, C-BLOB-39, W-CALL-26.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..wire.base import parse_json
from ..wire.base64_text import to_base64
from ..wire.errors import InvalidPayload
from ..wire.protocol import RESERVED_META_PREFIX
from .tool_result import CallToolResult

_TEXT_URI = "a2c-text:"


class Handle(msgspec.Struct, frozen=True):
    """A handle found in a result: the index of its content item, and what its producer promised."""

    index: int
    blob_handle: str
    size: int | None
    sha256: str | None


def handles(result: CallToolResult) -> tuple[Handle, ...]:
    """The handles in a result, in the order of its items."""
    found = []
    for index, item in enumerate(result.content):
        meta = item.get("_meta")
        handle = meta.get("a2c_blob_handle") if isinstance(meta, Mapping) else None
        if isinstance(meta, Mapping) and isinstance(handle, str):
            size, sha256 = meta.get("a2c_total_size"), meta.get("a2c_sha256")
            found.append(
                Handle(
                    index,
                    handle,
                    size if isinstance(size, int) and not isinstance(size, bool) else None,
                    sha256 if isinstance(sha256, str) else None,
                )
            )
    return tuple(found)


def put_back(
    result: CallToolResult, fetched: Mapping[int, bytes], failed: Mapping[int, str] | None = None
) -> CallToolResult:
    """The result with fetched bytes where they belong.

    Args:
        fetched: Bytes by index of the item they were taken out of.
        failed: Why the others could not be fetched; their items keep the handle.
    """
    content: list[dict[str, Any] | None] = [dict(item) for item in result.content]
    structured = result.structured_content
    unresolved = [*result.unresolved, *(failed or {}).values()]
    for index, data in fetched.items():
        item = result.content[index]
        if _marked(item, "a2c_structured"):
            try:
                structured = parse_json(data)
            except InvalidPayload:
                unresolved.append("structured content that was fetched is not JSON")
            else:
                content[index] = None
        elif _uri(item).startswith(_TEXT_URI) and _complete_text(content, data, _noted_hash(item)):
            content[index] = None
        else:
            content[index] = _filled(item, data)
    return msgspec.structs.replace(
        result,
        content=tuple(item for item in content if item is not None),
        structured_content=structured,
        unresolved=tuple(unresolved),
    )


def _complete_text(content: list[dict[str, Any] | None], data: bytes, sha256: str | None) -> bool:
    """Puts a complete text in place of the beginning that was left of it.

    Texts may begin alike, so an item that names the hash of its whole takes no other. A Computer need not name it.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    for index, item in enumerate(content):
        holder = item.get("resource") if item and isinstance(item.get("resource"), dict) else item
        if item is None or not holder or not _marked(item, "a2c_truncated"):
            continue
        kept = holder.get("text")
        if isinstance(kept, str) and text.startswith(kept) and _noted_hash(item) in (None, sha256):
            whole = {**holder, "text": text}
            content[index] = _unmarked(whole if holder is item else {**item, "resource": whole})
            return True
    return False


def _filled(item: Mapping[str, Any], data: bytes) -> dict[str, Any]:
    """The item with its bytes in the carrier they were cleared from."""
    encoded = to_base64(data)
    resource = item.get("resource")
    if isinstance(resource, Mapping):
        return _unmarked({**item, "resource": {**resource, "blob": encoded}})
    return _unmarked({**item, "data": encoded})


def _unmarked(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item without what the Computer noted about the blob."""
    meta = item.get("_meta")
    kept = _others(meta) if isinstance(meta, Mapping) else {}
    bare = {name: value for name, value in item.items() if name != "_meta"}
    return bare | {"_meta": kept} if kept else bare


def _others(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in meta.items() if not name.startswith(RESERVED_META_PREFIX)}


def _marked(item: Mapping[str, Any], mark: str) -> bool:
    resource = item.get("resource")
    places: Iterable[Any] = (item.get("_meta"), resource.get("_meta") if isinstance(resource, Mapping) else None)
    return any(isinstance(meta, Mapping) and meta.get(mark) is True for meta in places)


def _noted_hash(item: Mapping[str, Any]) -> str | None:
    meta = item.get("_meta")
    sha256 = meta.get("a2c_sha256") if isinstance(meta, Mapping) else None
    return sha256 if isinstance(sha256, str) else None


def _uri(item: Mapping[str, Any]) -> str:
    resource = item.get("resource")
    uri = resource.get("uri") if isinstance(resource, Mapping) else None
    return uri if isinstance(uri, str) else ""
