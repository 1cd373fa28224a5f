"""The catalogue: Level 1 documents of all servers, and which server owns a host. Pure (C-DOC-5…8)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ...wire.base import to_json
from ...wire.documents import DocumentSummary
from ...wire.dpe_uri import DpeUri, InvalidDpeUri, parse_dpe_uri
from ...wire.messages.channels import ResourceSlice

MAX_PAGES = 2**31
LONGEST_URI = 8_192
"""Characters; a longer one could not be answered with, let alone be asked for."""


class Document(msgspec.Struct, frozen=True):
    """One entry: what the Agent sees, and the instant it is sorted by (`None` for undated)."""

    summary: DocumentSummary
    host: str
    modified: datetime | None


class Catalogue(msgspec.Struct, frozen=True):
    """Documents of participating servers that own their hosts, by server in registration order.

    Attributes:
        owners: Host, lower-case, to the bundle_id that owns it.
        notes: What was set aside, and why.
    """

    documents: tuple[Document, ...] = ()
    owners: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    def find(self, uri: DpeUri) -> Document | None:
        """The document a URI of any level belongs to. Spec: C-DOC-20."""
        for document in self.documents:
            if document.summary.doc_ref == uri.doc_ref and document.host == uri.host.lower():
                return document
        return None

    def signature(self) -> frozenset[DocumentSummary]:
        """What a change is judged by. Spec: C-DOC-30."""
        return frozenset(document.summary for document in self.documents)

    def digest(self) -> str:
        """Tells signatures apart over restarts; `""` for no documents."""
        if not self.documents:
            return ""
        summaries = sorted(to_json(document.summary) for document in self.documents)
        return hashlib.sha256(b"\n".join(summaries)).hexdigest()[:16]


def build_catalogue(servers: Sequence[ResourceSlice]) -> Catalogue:
    """The catalogue of servers given in registration order.

    A server that exposes a host owned by an earlier one is left out as a whole. Spec: C-DOC-6…8.
    """
    documents: list[Document] = []
    owners: dict[str, str] = {}
    notes: list[str] = []
    for server in servers:
        if not (server.connected and server.declared and server.subscribe):
            continue
        own = _documents_of(server, notes)
        taken = next((document.host for document in own if document.host in owners), None)
        if taken is not None:
            notes.append(
                f"{server.bundle_id}: document host {taken} belongs to {owners[taken]}; its documents are left out"
            )
            continue
        owners.update((document.host, server.bundle_id) for document in own)
        documents.extend(own)
    return Catalogue(tuple(documents), owners, tuple(notes))


def _documents_of(server: ResourceSlice, notes: list[str]) -> list[Document]:
    found: dict[str, Document] = {}
    for resource in msgspec.json.decode(server.resources.data):
        uri = resource.get("uri") if isinstance(resource, dict) else None
        if not isinstance(uri, str) or uri[:6].lower() != "dpe://" or uri in found:
            continue
        if len(uri) > LONGEST_URI:
            notes.append(f"{server.bundle_id}: a document is skipped: its uri has {len(uri)} characters")
            continue
        try:
            parsed = parse_dpe_uri(uri)
        except InvalidDpeUri as error:
            notes.append(f"{server.bundle_id}: a document is skipped: {error.reason}")
            continue
        if parsed.level == 1:
            found[uri] = _document(server.bundle_id, uri, parsed, resource, notes)
    return list(found.values())


def _document(bundle_id: str, uri: str, parsed: DpeUri, resource: dict[str, Any], notes: list[str]) -> Document:
    place = f"{bundle_id}: document {parsed.doc_ref[:64]}"
    meta = resource.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    annotations = resource.get("annotations")
    stamp = annotations.get("lastModified") if isinstance(annotations, dict) else None
    modified = _instant(stamp)
    if stamp is not None and modified is None:
        notes.append(f"{place}: lastModified is not ISO 8601")
    summary = DocumentSummary(
        doc_ref=parsed.doc_ref,
        uri=uri,
        title=_text(resource.get("name")) or parsed.doc_ref,
        summary=_text(resource.get("description")) or "",
        keywords=_keywords(meta.get("keywords"), place, notes),
        page_count=_page_count(meta.get("page_count"), place, notes),
        mcp_server=bundle_id,
        file_type=_optional(meta.get("file_type")),
        file_uri=_optional(meta.get("file_uri")),
        last_modified=_optional(stamp) if modified is not None else UNSET,
    )
    return Document(summary, parsed.host.lower(), modified)


def _instant(value: object) -> datetime | None:
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return instant.replace(tzinfo=UTC) if instant is not None and instant.tzinfo is None else instant


def _page_count(value: object, place: str, notes: list[str]) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_PAGES:
        return value
    notes.append(f"{place}: page_count is missing or not a natural number and counts as 0")
    return 0


def _keywords(value: object, place: str, notes: list[str]) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    kept = tuple(word for word in words if isinstance(word, str))
    if len(kept) != len(words) or (value is not None and not isinstance(value, list)):
        notes.append(f"{place}: keywords that are no strings are dropped")
    return kept


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _optional(value: object) -> str | UnsetType:
    return _text(value) or UNSET
