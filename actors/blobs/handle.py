"""Handles: opaque strings that carry an authenticated description of their source. Pure (C-BLOB-3…6).

The tag is defence in depth: it proves that this Computer minted the handle, not that its
source may still be read. Nothing decoded from a handle is ever used as a path.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

import msgspec

from ...wire.messages.channels import BlobSource

PREFIX: Final = "b1."
LONGEST: Final = 4096
TAG_BYTES: Final = 16
MIME_LONGEST: Final = 255
"""Characters: a type and a subtype of 127 each, the most a registered one may have."""
UNKNOWN_TYPE: Final = "application/octet-stream"

_HANDLE_CONTEXT: Final = b"smcp-runtime blob handle v1\0"
_OFFICE_CONTEXT: Final = b"smcp-runtime office tag v1\0"


class InvalidHandle(Exception):
    """Not a handle that this Computer minted."""


class HandleTooLong(Exception):
    """The fields of a source do not fit a handle that would be accepted again: its bytes must stay where they are."""


def bounded_type(mime_type: str) -> str:
    """The MIME type for a handle: one that servers chose without measure counts as unknown."""
    return mime_type if len(mime_type) <= MIME_LONGEST else UNKNOWN_TYPE


class Minter:
    """Mints and verifies the handles of one Computer.

    Args:
        key: 32 secret bytes; the same key and name verify handles of earlier runs.
        computer: Protocol name of the Computer.
    """

    def __init__(self, key: bytes, computer: str) -> None:
        self._key = key
        self._computer = computer.encode() + b"\0"

    def mint(self, source: BlobSource) -> str:
        """The handle of a source.

        Raises:
            HandleTooLong: `verify` would refuse it for its length. Spec: C-BLOB-5.
        """
        payload = _encode(source)
        handle = f"{PREFIX}{_base64(payload)}.{_base64(self._tag(payload))}"
        if len(handle) > LONGEST:
            raise HandleTooLong
        return handle

    def verify(self, handle: str) -> BlobSource:
        """The source of a handle.

        Raises:
            InvalidHandle: It is malformed, altered, or somebody else's. Spec: C-BLOB-5.
        """
        if len(handle) > LONGEST or not handle.startswith(PREFIX):
            raise InvalidHandle
        payload_text, _, tag_text = handle[len(PREFIX) :].partition(".")
        payload, tag = _bytes(payload_text), _bytes(tag_text)
        if not hmac.compare_digest(tag, self._tag(payload)):
            raise InvalidHandle
        return _decode(payload)

    def office_tag(self, office_id: str) -> str:
        """16 hex digits that stand for an office without naming it."""
        return hmac.new(self._key, _OFFICE_CONTEXT + office_id.encode(), hashlib.sha256).hexdigest()[:16]

    def _tag(self, payload: bytes) -> bytes:
        text = _HANDLE_CONTEXT + self._computer + payload
        return hmac.new(self._key, text, hashlib.sha256).digest()[:TAG_BYTES]


def _encode(source: BlobSource) -> bytes:
    if source.kind == "s":
        return msgspec.json.encode({"k": "s", "n": source.name, "p": source.rel_path})
    return msgspec.json.encode(
        {"k": source.kind, "c": source.content_id, "m": source.mime_type, "o": source.office_tag}
    )


def _decode(payload: bytes) -> BlobSource:
    try:
        match msgspec.json.decode(payload):
            case {"k": "s", "n": str(name), "p": str(rel_path)}:
                return BlobSource("s", name=name, rel_path=rel_path)
            case {"k": "t" | "d" as kind, "c": str(content), "m": str(mime), "o": str(office)}:
                return BlobSource(kind, content_id=content, mime_type=mime, office_tag=office)
    except msgspec.DecodeError:
        pass
    raise InvalidHandle


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidHandle from None
    if _base64(data) != text:
        raise InvalidHandle
    return data
