"""Uploads: what a chunk may do, decided from the request and the session alone. Pure (C-UP-4…18, C-UP-25…28)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec

from ...wire.base64_text import from_base64
from ...wire.protocol import NAME_HINT_MAX

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class UploadLimits(msgspec.Struct, frozen=True):
    """Bounds of uploads; times in seconds (D-33…36).

    `finished_kept` is how long a landed file stays, `None` for ever (D-38).
    """

    idle: float = 120.0
    most_open: int = 4
    most_bytes: int = 100 * 1024 * 1024
    lifetime: float = 3600.0
    finished_kept: float | None = None


class Refusal(msgspec.Struct, frozen=True):
    """A chunk is refused with this reason; `ends` says that its session is discarded."""

    reason: str
    ends: bool = False
    total_size: int | None = None


class Declaration(msgspec.Struct, frozen=True):
    """What a valid first chunk declares, and the chunk itself."""

    total_size: int
    sha256: str
    hint: str
    chunk: bytes
    eof: bool


class Chunk(msgspec.Struct, frozen=True):
    """A valid later chunk."""

    data: bytes
    eof: bool


class Session(msgspec.Struct):
    """An open upload: who opened it, what was declared, how far it came. Instants on one clock, in seconds."""

    upload_id: str
    agent: str
    office: str
    total_size: int
    sha256: str
    hint: str
    opened_at: float
    renewed_at: float
    received: int = 0

    def expired(self, now: float, limits: UploadLimits) -> bool:
        """Idle for too long, or open for too long. Spec: C-UP-25."""
        return now - self.renewed_at >= limits.idle or now - self.opened_at >= limits.lifetime


def first_chunk(request: Mapping[str, Any], limits: UploadLimits, open_now: int) -> Declaration | Refusal:
    """Judges a chunk without `upload_id`, whose landing root is known to be usable. Spec: C-UP-5…8."""
    total, sha256, hint = request.get("total_size"), request.get("sha256"), request.get("name_hint")
    chunk, eof = _decoded(request.get("blob")), request.get("eof")
    if not _natural(total) or total < 1 or not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        return Refusal("invalid_declaration")
    if not isinstance(hint, str | None) or not isinstance(eof, bool) or chunk is None:
        return Refusal("invalid_declaration")
    if total > limits.most_bytes:
        return Refusal("too_large", total_size=total)
    offset = request.get("chunk_offset")
    if not _natural(offset) or offset != 0 or len(chunk) > total or (eof and len(chunk) != total):
        return Refusal("range")
    if open_now >= limits.most_open:
        return Refusal("busy")
    return Declaration(total, sha256.lower(), clean_hint(hint or ""), chunk, eof)


def later_chunk(request: Mapping[str, Any], session: Session) -> Chunk | Refusal:
    """Judges a chunk of an open session. Spec: C-UP-12…16."""
    if any(request.get(name) is not None for name in ("total_size", "sha256", "name_hint")):
        return Refusal("invalid_declaration")
    data, eof = _decoded(request.get("blob")), request.get("eof")
    if data is None or not isinstance(eof, bool):
        return Refusal("invalid_declaration")
    offset = request.get("chunk_offset")
    if not _natural(offset) or offset != session.received:
        return Refusal("range")
    if offset + len(data) > session.total_size:
        return Refusal("range", ends=True)
    if eof and offset + len(data) != session.total_size:
        return Refusal("range")
    return Chunk(data, eof)


def clean_hint(hint: str) -> str:
    """A file name suffix out of an Agent's suggestion; empty when nothing harmless is left. Spec: C-UP-21."""
    return _UNSAFE.sub("_", hint.strip())[:NAME_HINT_MAX].strip("._-")


def _natural(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _decoded(blob: Any) -> bytes | None:
    if not isinstance(blob, str):
        return None
    try:
        return from_base64(blob)
    except ValueError:
        return None
