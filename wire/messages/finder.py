"""What `finder` answers: the catalogue of documents and access to them through the resolver."""

from __future__ import annotations

from ..codec import Attachment
from ..message import Ask, Record
from .channels import ResourceSlice
from .mcp import Completions
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


class DocumentLevel(Record):
    """`level` is the parsed Level JSON of a document, page or element (C-DOC-27)."""

    level: Attachment


class ReadDocument(Ask[DocumentLevel]):
    """Finder read: the Level JSON behind a URI, for the Computer's own use; never answers an Agent (C-DOC-26).

    Raises `PeerError` with a 4204 or 4201…4203 payload, or 4013 when the server cannot be read.
    """

    uri: str
    timeout: float = 30.0


class CompleteDocument(Ask[Completions]):
    """Proposals for `argument` (`doc_ref`, `page_index` or `element_id`) of one server's documents (C-DOC-29)."""

    bundle_id: str
    template: str
    argument: str
    value: str
    known: dict[str, str] = {}
