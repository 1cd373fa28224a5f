"""Level JSON: what an MCP server says of a document, a page or an element. Pure (C-DOC-27, C-DOC-28)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from ...wire.base import decode_payload

CATEGORIES: Final = frozenset(
    [
        "text",
        "heading",
        "list",
        "code",
        "table",
        "pivot_table",
        "chart",
        "diagram",
        "image",
        "formula",
        "link",
        "annotation",
        "header",
        "footer",
        "separator",
        "audio",
        "video",
        "form",
        "widget",
    ]
)


class Level(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of the three levels; unknown fields are ignored, missing ones absent."""


class PageEntry(Level, frozen=True):
    """A page as its document lists it."""

    page_index: int | UnsetType = UNSET
    title: str | UnsetType = UNSET
    element_count: int | UnsetType = UNSET
    uri: str | UnsetType = UNSET


class DocumentJson(Level, frozen=True):
    """Level 1."""

    doc_ref: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    file_type: str | UnsetType = UNSET
    page_count: int | UnsetType = UNSET
    keywords: tuple[str, ...] | UnsetType = UNSET
    last_modified: str | UnsetType = UNSET
    file_uri: str | UnsetType = UNSET
    pages: tuple[PageEntry, ...] | UnsetType = UNSET


class ElementEntry(Level, frozen=True):
    """An element as its page lists it."""

    element_id: str | UnsetType = UNSET
    category: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    content: Any = UNSET


class PageJson(Level, frozen=True):
    """Level 2."""

    page_index: int | UnsetType = UNSET
    title: str | UnsetType = UNSET
    doc_ref: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    elements: tuple[ElementEntry, ...] | UnsetType = UNSET
    element_count: int | UnsetType = UNSET


class ElementJson(Level, frozen=True):
    """Level 3."""

    element_id: str | UnsetType = UNSET
    category: str | UnsetType = UNSET
    doc_ref: str | UnsetType = UNSET
    page_index: int | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    content: Any = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


LEVELS: Final[dict[int, type[Level]]] = {1: DocumentJson, 2: PageJson, 3: ElementJson}


def parse_level(level: int, text: str) -> Level:
    """The Level JSON in a text block.

    Null means absence, as everywhere (W-GEN-3).

    Raises:
        InvalidPayload: It is not JSON, or a field has another type.
    """
    return decode_payload(LEVELS[level], text.encode())


def unknown_categories(value: Level) -> Sequence[str]:
    """Categories outside the 19; they are kept as they are, and worth a warning."""
    named: list[str | UnsetType] = []
    if isinstance(value, ElementJson):
        named.append(value.category)
    if isinstance(value, PageJson) and value.elements is not UNSET:
        named.extend(element.category for element in value.elements)
    return [category for category in named if isinstance(category, str) and category not in CATEGORIES]
