"""What `blobs` answers: handles for large contents, slices of them, and uploads."""

from __future__ import annotations

from typing import Any

from ..codec import Attachment
from ..message import Ask, Record
from .channels import BlobSource


class BlobTicket(Record):
    """A minted handle and what it stands for. `sha256` is lower-case hex over the bytes the Agent consumes."""

    handle: str
    total_size: int
    sha256: str


class MintHandle(Ask[BlobTicket]):
    """A handle for bytes that stay where they are; the producer has authorised them already (C-BLOB-2)."""

    source: BlobSource
    total_size: int
    sha256: str


class SpoolBytes(Ask[BlobTicket]):
    """Stores bytes in the spool under their content id and mints a handle (C-BLOB-23, C-BLOB-33).

    A MIME type of more than 255 characters counts as `application/octet-stream`, for a handle holds it.
    Raises `StartupError` (`spool_full`, `spool_unwritable`) when they cannot be kept.
    """

    data: Attachment
    mime_type: str
    kind: str = "t"


class BlobChunk(Record):
    """One slice for a `client:get_blob` answer."""

    data: Attachment
    mime_type: str
    total_size: int
    sha256: str
    offset: int
    eof: bool


class GetBlobChunk(Ask[BlobChunk]):
    """One `client:get_blob`. `offset` is whatever JSON was sent: what is wrong with it is a range fault (C-BLOB-9).

    Raises `PeerError` with a 4018 payload.
    """

    handle: str
    offset: Any = None
    max_bytes: int | None = None


class PutAnswer(Record):
    """`fields` is the PutBlobRet as JSON without `req_id`."""

    fields: Attachment


class ReceiveChunk(Ask[PutAnswer]):
    """One `client:put_blob`: `request` is its payload as JSON, checked here in the order of C-UP-4…18.

    Raises `PeerError` with a 4019 payload.
    """

    agent: str
    request: Attachment


class ChangeOffice(Ask[None]):
    """The office the Computer is in now, `""` for none: decides office tags and ends foreign uploads (C-UP-27).

    An ask, because nothing may be served to the new office before this is done.
    """

    lane = "control"
    office_id: str


class EndUploads(Ask[None]):
    """The Agent of the office left, and an office has one; all uploads end (C-UP-27).

    It is not named: it may put another name into its requests than it joined under (W-ROOM-46).
    """

    lane = "control"


class KeptFile(Record):
    """`path` is absolute and stays until the spool collects it."""

    path: str


class KeepFile(Ask[KeptFile]):
    """Stores bytes as `dpe/<content id>` in the spool, for Agents that share the filesystem (C-DOC-33).

    Raises as `SpoolBytes`.
    """

    data: Attachment
