"""Blobs on the wire: chunks down by handle, chunks up in order (01 §6.8).

Some faults of these requests have a code of their own rather than 400 (C-BLOB-9,
C-UP-5, C-UP-11…14), so the fields concerned arrive as whatever JSON was sent and are
judged by the channel.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from .base import ComputerRequest, Int64, Structure


class GetBlobReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_blob`. A `chunk_offset` that is no integer is a range fault (C-BLOB-9)."""

    blob_handle: str
    chunk_offset: Any = None
    max_chunk_bytes: Int64 | UnsetType = UNSET


class GetBlobRet(Structure, frozen=True, kw_only=True):
    """One chunk: `blob` is base64, size and hash are of the whole resource (C-BLOB-11)."""

    blob_handle: str
    mime_type: str
    total_size: Int64
    sha256: str
    chunk_offset: Int64
    eof: bool
    blob: str
    req_id: str


class PutBlobReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:put_blob` as received; every field of the channel itself is unchecked JSON, `None` for absent (C-UP)."""

    upload_id: Any = None
    chunk_offset: Any = None
    eof: Any = None
    total_size: Any = None
    sha256: Any = None
    name_hint: Any = None
    blob: Any = None


class PutBlobChunk(ComputerRequest, frozen=True, kw_only=True):
    """`client:put_blob` as our Agent sends it: declarations on the first chunk only, nothing null (C-UP-3)."""

    chunk_offset: Int64
    eof: bool
    blob: str
    upload_id: str | UnsetType = UNSET
    total_size: Int64 | UnsetType = UNSET
    sha256: str | UnsetType = UNSET
    name_hint: str | UnsetType = UNSET


class PutBlobRet(Structure, frozen=True, kw_only=True):
    """Acknowledges one chunk; the last one adds where the file landed and what was stored (C-UP-2)."""

    upload_id: str
    chunk_offset: Int64
    req_id: str
    landing_path: str | UnsetType = UNSET
    total_size: Int64 | UnsetType = UNSET
    sha256: str | UnsetType = UNSET
