"""The grammar of `window://` URIs: pure identifiers of desktop windows (C-DESK-1…3)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote

import msgspec

SCHEME: Final = "window"

_SCHEME = re.compile(r"window://", re.IGNORECASE)
_FORBIDDEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_END_OF_HOST = re.compile(r"[/?#]")
_END_OF_IDENTITY = re.compile(r"[?#]")


class WindowUri(msgspec.Struct, frozen=True):
    """A valid window URI. `segments` are decoded; `has_query` says that a query or fragment was dropped."""

    host: str
    segments: tuple[str, ...]
    has_query: bool


def parse_window_uri(uri: str) -> WindowUri | None:
    """Reads a window URI; `None` when it is not one. Spec: C-DESK-1."""
    scheme = _SCHEME.match(uri)
    if scheme is None or _FORBIDDEN.search(uri):
        return None
    rest = uri[scheme.end() :]
    kept = _END_OF_IDENTITY.split(rest, maxsplit=1)[0]
    host = _END_OF_HOST.split(rest, maxsplit=1)[0]
    if not host:
        return None
    path = kept[len(host) :].removeprefix("/")
    return WindowUri(host, tuple(_decoded(part) for part in path.split("/")) if path else (), kept != rest)


def window_identity(uri: str) -> str:
    """The raw URI cut before its query or fragment. Spec: C-DESK-2."""
    return _END_OF_IDENTITY.split(uri, maxsplit=1)[0]


def build_window_uri(host: str, segments: Iterable[str] = ()) -> str:
    """The URI of a window.

    Raises:
        ValueError: The host is empty.
    Spec: C-DESK-3.
    """
    if not host:
        raise ValueError("a window URI needs a host")
    return "/".join([f"{SCHEME}://{host}", *(quote(segment, safe="") for segment in segments)])


def _decoded(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        return segment
