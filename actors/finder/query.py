"""Finding documents: filter, order, page. Pure (C-DOC-10…16)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...wire.documents import DocumentSummary
from .catalogue import Document

KEPT = 1_024
"""Characters that are kept of each text of an entry that fits no answer as it is."""


class Page(msgspec.Struct, frozen=True):
    """The JSON array of one page of summaries, and how many documents passed the filters.

    `shortened` are bundle_ids of servers with entries that would have filled an answer by themselves.
    """

    documents: bytes
    total_count: int
    shortened: tuple[str, ...] = ()


def query(
    documents: Sequence[Document],
    servers: Sequence[str],
    *,
    tags: Sequence[str] = (),
    file_type: str | None = None,
    offset: int = 0,
    limit: int,
    budget: int,
) -> Page:
    """One page.

    Args:
        servers: bundle_ids in the order they are shown.
        limit: Most entries; fewer come when `budget` bytes are not enough (C-DOC-16).
    """
    words = [tag.casefold() for tag in tags if tag]
    kept = [document for document in documents if _wanted(document, words, file_type)]
    rank = {bundle_id: position for position, bundle_id in enumerate(servers)}
    # Two passes: instants fall, URIs rise, and a sort keeps the order of equals.
    kept.sort(key=lambda document: document.summary.uri)
    kept.sort(key=lambda document: (rank[document.summary.mcp_server], *_newest_first(document)))
    page: list[bytes] = []
    left = budget - 2
    shortened: list[str] = []
    for document in kept[offset : offset + limit]:
        encoded = msgspec.json.encode(document.summary)
        if len(encoded) > budget - 2:
            # Left out it would shift the offsets of all that follow, and as it is it would cost the whole answer.
            encoded = msgspec.json.encode(_shortened(document.summary))
            shortened.append(document.summary.mcp_server)
        left -= len(encoded) + 1
        if left < 0 and page:
            break
        page.append(encoded)
    return Page(b"[" + b",".join(page) + b"]", len(kept), tuple(dict.fromkeys(shortened)))


def _shortened(summary: DocumentSummary) -> DocumentSummary:
    """What identifies a document, and the beginning of what describes it."""
    return DocumentSummary(
        doc_ref=summary.doc_ref,
        uri=summary.uri,
        title=summary.title[:KEPT],
        summary=summary.summary[:KEPT],
        keywords=(),
        page_count=summary.page_count,
        mcp_server=summary.mcp_server,
        last_modified=summary.last_modified,
    )


def _wanted(document: Document, words: Sequence[str], file_type: str | None) -> bool:
    summary = document.summary
    if file_type is not None and summary.file_type != file_type:
        return False
    if not words:
        return True
    places = [text.casefold() for text in (summary.title, summary.summary, *summary.keywords)]
    return any(word in place for word in words for place in places)


def _newest_first(document: Document) -> tuple[bool, float]:
    if document.modified is None:
        return True, 0.0
    return False, -document.modified.timestamp()
