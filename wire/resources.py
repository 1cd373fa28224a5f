"""Desktop and resources on the wire, and the lenient reading of an MCP resource (01 §6.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .base import ComputerRequest, Int64, Structure

RESOURCES_CAPABILITY = "resources"


def list_digest(items: bytes) -> str:
    """Tells one JSON array of resources from another."""
    return hashlib.sha256(items).hexdigest()


class GetDeskTopReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_desktop`: at most `desktop_size` entries, or the windows equal to `window` (C-DESK-12, -13)."""

    desktop_size: Int64 | UnsetType = UNSET
    window: str | UnsetType = UNSET


class GetDeskTopRet(Structure, frozen=True, kw_only=True):
    """Rendered windows, first the most relevant (C-DESK-24)."""

    desktops: tuple[str, ...]
    req_id: str


class GetResourcesReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_resources`: one page of one server, by bundle_id; `cursor` is passed through."""

    mcp_server: str
    cursor: str | UnsetType = UNSET


class Annotations(Structure, frozen=True, kw_only=True):
    """Only the members that exist."""

    audience: tuple[Literal["user", "assistant"], ...] | UnsetType = UNSET
    priority: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET


class A2CResource(Structure, frozen=True, kw_only=True):
    """One MCP resource of any scheme; `meta` is its `_meta`, unchanged."""

    uri: str
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    size: Int64 | UnsetType = UNSET
    annotations: Annotations | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class GetResourcesRet(Structure, frozen=True, kw_only=True):
    """One page, unfiltered; no `next_cursor` on the last one (W-RES-1)."""

    resources: tuple[A2CResource, ...]
    req_id: str
    next_cursor: str | UnsetType = UNSET


def resource_from_mcp(value: object) -> A2CResource | None:
    """An MCP resource in our form; `None` when it has no URI.

    A member of another type is left out rather than costing the resource (C-GEN-9). `title` and
    `icons` are not mapped (W-RES-1).
    """
    if not isinstance(value, Mapping):
        return None
    uri = value.get("uri")
    if not isinstance(uri, str) or not uri:
        return None
    size = value.get("size")
    meta = value.get("_meta")
    return A2CResource(
        uri=uri,
        name=_text(value.get("name")),
        description=_text(value.get("description")),
        mime_type=_text(value.get("mimeType")),
        size=size if isinstance(size, int) and not isinstance(size, bool) and abs(size) < 2**63 else UNSET,
        annotations=_annotations(value.get("annotations")),
        meta=dict(meta) if isinstance(meta, Mapping) else UNSET,
    )


def _text(value: object) -> str | UnsetType:
    return value if isinstance(value, str) else UNSET


def _annotations(value: object) -> Annotations | UnsetType:
    if not isinstance(value, Mapping):
        return UNSET
    found = Annotations(
        audience=_audience(value.get("audience")),
        priority=_priority(value.get("priority")),
        last_modified=_text(value.get("lastModified")),
    )
    return UNSET if found == Annotations() else found


def _audience(value: object) -> tuple[Literal["user", "assistant"], ...] | UnsetType:
    if not isinstance(value, list | tuple):
        return UNSET
    known: list[Literal["user", "assistant"]] = []
    for member in value:
        if member == "user":
            known.append("user")
        elif member == "assistant":
            known.append("assistant")
    return tuple(known)


def _priority(value: object) -> float | UnsetType:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else UNSET  # type: ignore[arg-type, operator]
