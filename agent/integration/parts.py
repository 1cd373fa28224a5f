"""A tool result as a sequence of texts, images and files, whatever kinds of items it has. Pure.

The provider modules turn these parts into their message shapes, so what a model is told
about a failure, a link or a missing binary is decided once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ...wire.base import to_json
from ..tool_result import CallToolResult

NO_CONTENT = "(no output)"


class Text(msgspec.Struct, frozen=True):
    """Something to read."""

    text: str


class Image(msgspec.Struct, frozen=True):
    """An image; `data` is base64."""

    mime_type: str
    data: str


class File(msgspec.Struct, frozen=True):
    """Anything else in bytes; `data` is base64."""

    mime_type: str
    data: str
    uri: str = ""


Part = Text | Image | File


def parts(result: CallToolResult) -> tuple[Part, ...]:
    """The parts of a result; at least one.

    Structured content is told as JSON where there is nothing else. A failed call begins with how it failed, when
    its own words do not say so.
    """
    found = [part for item in result.content for part in _of_item(item)]
    if not found and result.structured_content is not None:
        found = [Text(to_json(result.structured_content).decode())]
    if remark := _remark(result):
        found = [Text(remark), *found]
    return tuple(found) or (Text(NO_CONTENT),)


def text_of(found: Iterable[Part]) -> str:
    """All texts, with a note for each part that is none."""
    return "\n".join(part.text if isinstance(part, Text) else note(part) for part in found)


def note(part: Image | File) -> str:
    """What to say where a part itself cannot be shown."""
    kind = "image" if isinstance(part, Image) else "file"
    where = f", {part.uri}" if isinstance(part, File) and part.uri else ""
    return f"[{kind}: {part.mime_type}, {len(part.data) * 3 // 4} bytes{where}]"


def _of_item(item: Mapping[str, Any]) -> list[Part]:
    kind = item.get("type")
    if kind == "text":
        return [Text(str(item.get("text", "")))]
    if kind in ("image", "audio"):
        return [_binary(item.get("data"), item.get("mimeType"))]
    resource = item.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        if isinstance(resource.get("text"), str):
            return [Text(resource["text"])]
        return [_binary(resource.get("blob"), resource.get("mimeType"), resource.get("uri"))]
    if kind == "resource_link":
        words = [str(item[name]) for name in ("name", "description", "mimeType") if item.get(name)]
        return [Text(f"[resource: {item.get('uri', '')}{', ' if words else ''}{', '.join(words)}]")]
    return [Text(f"[content of an unknown kind: {kind}]")]


def _binary(data: Any, mime_type: Any, uri: Any = None) -> Part:
    kind = mime_type if isinstance(mime_type, str) and mime_type else "application/octet-stream"
    if not isinstance(data, str) or not data:
        # The bytes stayed behind a handle that could not be fetched; an empty payload would be a lie (W-CALL-26).
        return Text(f"[{kind}: the content could not be fetched]")
    if kind.startswith("image/"):
        return Image(kind, data)
    return File(kind, data, uri if isinstance(uri, str) else "")


def _remark(result: CallToolResult) -> str:
    """What the metadata knows about a failure and the content may not say (W-AGT-5, W-UP-9)."""
    if result.failure == "cancelled":
        return "The call was cancelled."
    if result.failure == "timed_out":
        return "The call timed out; whether it had an effect is not known."
    if result.error_code in (4006, 4007):
        hint = result.meta.get("auth_hint")
        message = hint.get("message") if isinstance(hint, Mapping) else None
        advice = message if isinstance(message, str) else "The user has to authorize this tool first."
        return f"{advice} Do not call it again unless the user asks."
    return ""
