"""Documents on the wire: the catalogue of `dpe://` documents, and access to one of them (01 §6.10)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from .base import ComputerRequest, Natural, Structure
from .protocol import DPE_TIMEOUT, DPE_TIMEOUT_MAX, FINDER_PAGE, FINDER_PAGE_MAX

Seconds = Annotated[float, Meta(gt=0)]


class ListFinderReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:list_finder`: filters and page; `page_size` is the effective limit (C-DOC-9)."""

    tags: tuple[str, ...] = ()
    file_type: str | UnsetType = UNSET
    offset: Natural = 0
    limit: Natural = FINDER_PAGE

    @property
    def page_size(self) -> int:
        """`limit`, clamped to the largest page."""
        return min(self.limit, FINDER_PAGE_MAX)


class DocumentSummary(Structure, frozen=True, kw_only=True):
    """One catalogue entry; `uri` is the raw Level 1 URI, `mcp_server` a bundle_id (C-DOC-5)."""

    doc_ref: str
    uri: str
    title: str
    summary: str
    keywords: tuple[str, ...] = ()
    page_count: Natural = 0
    mcp_server: str
    file_type: str | UnsetType = UNSET
    file_uri: str | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET


class ListFinderRet(Structure, frozen=True, kw_only=True):
    """One page, and how many documents passed the filters."""

    documents: tuple[DocumentSummary, ...]
    total_count: Natural
    req_id: str


class GetDpeReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_dpe`: one `dpe://` URI of any level; `timeout` in seconds covers read and resolver (C-DOC-24)."""

    uri: str
    timeout: Seconds = DPE_TIMEOUT

    @property
    def effective_timeout(self) -> float:
        """`timeout`, capped."""
        return min(self.timeout, DPE_TIMEOUT_MAX)


class GetDpeRet(Structure, frozen=True, kw_only=True):
    """The access URI the resolver made, and what is behind it."""

    uri: str
    mime_type: str
    size: Natural
    req_id: str
