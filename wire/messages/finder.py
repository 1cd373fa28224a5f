"""What `finder` answers: the catalogue of documents and access to them through the resolver."""

from __future__ import annotations

from ..codec import Attachment
from ..message import Ask, Record
from .channels import ResourceSlice
from .tools import Applied


class ApplyFinder(Ask[Applied]):
    """Replaces the catalogue's slice with that of commit `number`, servers in registration order (C-DOC-8)."""

    lane = "control"
    number: int
    servers: tuple[ResourceSlice, ...]


class DocumentPage(Record):
    """`documents` is one page as JSON array of DocumentSummary."""

    documents: Attachment
    total_count: int


class ListDocuments(Ask[DocumentPage]):
    """One `client:list_finder`; waits for no server (C-DOC-10)."""

    tags: tuple[str, ...] = ()
    file_type: str | None = None
    offset: int = 0
    limit: int | None = None


class ResolvedDocument(Record):
    """What the resolver made of a document: an access URI, never its contents."""

    uri: str
    mime_type: str
    size: int


class OpenDocument(Ask[ResolvedDocument]):
    """One `client:get_dpe`, within `timeout` seconds. Raises `PeerError` with a 4011…4013 or 4201…4203 payload."""

    uri: str
    timeout: float = 60.0
