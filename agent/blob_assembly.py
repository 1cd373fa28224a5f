"""Putting a blob together from chunks of a peer that may lie, or whose source may change meanwhile. Pure.

The first chunk fixes size, hash and type. Every later one is held against them, so that
an endless, growing or shuffled answer ends in an error and never in wrong bytes (C-BLOB-37).
"""

from __future__ import annotations

import hashlib

from ..wire.base64_text import from_base64
from ..wire.blobs import GetBlobRet
from ..wire.errors import MalformedReplyError, SmcpError
from ..wire.protocol import ABSOLUTE_CAP


class BlobUnavailable(SmcpError):
    """A blob could not be read whole: too large, changed again and again, or its bytes do not match their hash."""

    category = "peer"
    default_code = "blob_unavailable"


class BlobChanged(SmcpError):
    """The source changed between two chunks: nothing read so far counts (W-BLOB-3)."""

    category = "peer"
    default_code = "blob_changed"
    default_retryable = True


class Facts:
    """What the first chunk said about a blob.

    Attributes:
        total_size: Bytes of the whole.
        sha256: Its hash, lower-case hex.
        mime_type: Its type.
    """

    __slots__ = ("mime_type", "sha256", "total_size")

    def __init__(self, total_size: int, sha256: str, mime_type: str) -> None:
        self.total_size = total_size
        self.sha256 = sha256.lower()
        self.mime_type = mime_type


class Assembly:
    """Checks the chunks of one attempt, and the whole at the end.

    Args:
        blob_handle: Every answer must be about it.
        limit: Largest blob accepted (D-31).
        size, sha256: What the producer of the handle promised, if it did.
    """

    def __init__(
        self, blob_handle: str, *, limit: int = ABSOLUTE_CAP, size: int | None = None, sha256: str | None = None
    ) -> None:
        self._handle = blob_handle
        self._limit = limit
        self._promised = (size, sha256.lower() if sha256 else None)
        self._digest = hashlib.sha256()
        self._facts: Facts | None = None
        self.received = 0

    @property
    def facts(self) -> Facts:
        """What is known of the blob; not before the first chunk."""
        assert self._facts is not None
        return self._facts

    def check(self, offset: int, chunk: GetBlobRet) -> bytes:
        """The bytes of the chunk asked for at `offset`, in whatever order chunks arrive.

        Raises:
            BlobChanged: It speaks of another size or hash than the first one.
            BlobUnavailable: The blob is larger than accepted.
            MalformedReplyError: It cannot be part of that blob.
        """
        if self._facts is None:
            self._facts = self._begun(chunk)
        if chunk.total_size != self._facts.total_size or chunk.sha256.lower() != self._facts.sha256:
            raise BlobChanged("the source changed while it was read")
        try:
            data = from_base64(chunk.blob)
        except ValueError:
            raise _lie("holds no base64") from None
        end = offset + len(data)
        if chunk.blob_handle != self._handle:
            raise _lie("belongs to another handle")
        if chunk.chunk_offset != offset:
            raise _lie("begins elsewhere")
        if end > self._facts.total_size:
            raise _lie("exceeds the size it states")
        if chunk.eof != (end == self._facts.total_size):
            raise _lie("is wrong about the end")
        if not data and not chunk.eof:
            raise _lie("is empty")
        return data

    def _begun(self, chunk: GetBlobRet) -> Facts:
        if chunk.total_size < 0:
            raise _lie("states a negative size")
        if chunk.total_size > self._limit:
            raise BlobUnavailable(
                f"the blob has {chunk.total_size} bytes, {self._limit} are accepted", code="blob_too_large"
            )
        size, sha256 = self._promised
        if (size is not None and size != chunk.total_size) or (sha256 is not None and sha256 != chunk.sha256.lower()):
            raise BlobChanged("the source is not what its handle was made for")
        return Facts(chunk.total_size, chunk.sha256, chunk.mime_type)

    def add(self, data: bytes) -> None:
        """Takes checked bytes into the hash, in their order."""
        self._digest.update(data)
        self.received += len(data)

    def finish(self) -> Facts:
        """The facts, once all bytes were added and match them.

        Raises:
            BlobChanged: They do not; reading again may help.
        """
        facts = self.facts
        if self.received != facts.total_size or self._digest.hexdigest() != facts.sha256:
            raise BlobChanged("the bytes do not match their hash")
        return facts


def _lie(what: str) -> MalformedReplyError:
    return MalformedReplyError(f"a blob chunk {what}", code="blob_malformed")
