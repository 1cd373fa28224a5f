"""The grammar of `dpe://` URIs: a document, one of its pages, or one of its elements. Pure (C-DOC-2, C-DOC-3)."""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import unquote

import msgspec

PAGE_MAX: Final = 2_147_483_647

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PAGE = re.compile(r"0|[1-9][0-9]*", re.ASCII)


class InvalidDpeUri(ValueError):
    """The URI breaks the grammar; `reason` is the text of the first rule it breaks."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DpeUri(msgspec.Struct, frozen=True):
    """A valid URI. `doc_ref` and `element_id` are decoded; `level` says which of the three forms it has."""

    host: str
    doc_ref: str
    page: int | None = None
    element_id: str | None = None

    @property
    def level(self) -> Literal[1, 2, 3]:
        """1 a document, 2 a page, 3 an element."""
        return 2 if self.page is not None else 3 if self.element_id is not None else 1


def parse_dpe_uri(uri: str) -> DpeUri:
    """Reads a URI of any level.

    Raises:
        InvalidDpeUri: It breaks the grammar; the checks are made in the order of C-DOC-3.
    """
    _need(not any(ord(character) <= 0x20 or 0x7F <= ord(character) <= 0x9F for character in uri), "malformed uri")
    scheme, separator, rest = uri.partition("://")
    _need(bool(separator) and scheme.lower() == "dpe", "invalid scheme")
    _need("?" not in rest, "query not allowed")
    _need("#" not in rest, "fragment not allowed")
    host, slash, path = rest.partition("/")
    _need(bool(host), "missing host")
    _need("@" not in host and ":" not in host, "invalid host")
    segments = path.split("/")
    _need(bool(slash) and bool(segments[0]), "missing doc-ref")
    decoded = [_segment(segment) for segment in segments[:-1]]
    # An empty last segment is a trailing slash, which belongs to the rule about sub-paths.
    decoded.append(_segment(segments[-1]) if segments[-1] else "")
    return _level(host, decoded)


def _level(host: str, segments: list[str]) -> DpeUri:
    match segments:
        case [doc_ref]:
            return DpeUri(host, doc_ref)
        case [doc_ref, "pages", number] if number:
            _need(bool(_PAGE.fullmatch(number)) and len(number) <= 10 and int(number) <= PAGE_MAX, "invalid page index")
            return DpeUri(host, doc_ref, page=int(number))
        case [doc_ref, "elements", element_id] if element_id:
            return DpeUri(host, doc_ref, element_id=element_id)
    raise InvalidDpeUri("invalid sub-path")


def _segment(segment: str) -> str:
    _need(not _BROKEN_ESCAPE.search(segment), "invalid segment")
    try:
        decoded = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise InvalidDpeUri("invalid segment") from None
    _need(decoded not in ("", ".", ".."), "invalid segment")
    return decoded


def _need(holds: bool, reason: str) -> None:
    if not holds:
        raise InvalidDpeUri(reason)
