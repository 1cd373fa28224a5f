"""The version check of a Server as pure decisions: whom to refuse, and with which bytes (01 §2.2, §2.3).

The Server judges, the client only declares (W-HS-16); the client's half is in `handshake`.
Rejection bodies are byte-exact.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple
from urllib.parse import unquote_plus

import msgspec

from .protocol import CLOSE_REASON_MAX, PROTOCOL_VERSION, VERSION_PARAMETER, VERSION_REFUSED_HEADER

_GRAMMAR = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})", re.ASCII)


class Version(NamedTuple):
    """Three numbers; `patch` never decides anything."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class Rejection(msgspec.Struct, frozen=True):
    """An HTTP answer that refuses a handshake: status 400, these headers, this body (§2.3)."""

    body: bytes
    code: int
    status: int = 400

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Names in lower case but for the extra one, values as text."""
        basic = (("content-type", "application/json"), ("content-length", str(len(self.body))))
        return (*basic, (VERSION_REFUSED_HEADER, "4008")) if self.code == 4008 else basic

    @property
    def close_reason(self) -> str:
        """Reason of close code 4900, short enough for a close frame (W-HS-24)."""
        text = "Protocol version mismatch" if self.code == 4008 else "a2c_version missing or invalid"
        return text[:CLOSE_REASON_MAX]


def parse_version(text: str) -> Version | None:
    """The version in a text, or `None` when it breaks the grammar (W-HS-15)."""
    found = _GRAMMAR.fullmatch(text)
    return Version(*map(int, found.groups())) if found else None


def is_compatible(client: Version, server: Version) -> bool:
    """Whether a Server of one version serves a client of another (W-HS-16)."""
    if client.major != server.major:
        return False
    return client.minor == server.minor if server.major == 0 else client.minor <= server.minor


def supported_range(server: Version) -> tuple[str, str]:
    """Lowest and highest version a Server reports as supported (W-HS-17)."""
    lowest = f"0.{server.minor}.0" if server.major == 0 else f"{server.major}.0.0"
    return lowest, f"{server.major}.{server.minor}.999"


def declared_version(query: str | bytes) -> str | None:
    """The first `a2c_version` of a raw query string, URL-decoded; `None` when absent or empty (W-HS-14)."""
    text = query.decode("latin-1") if isinstance(query, bytes) else query
    for pair in text.split("&"):
        name, _, value = pair.partition("=")
        if unquote_plus(name) == VERSION_PARAMETER:
            return unquote_plus(value) or None
    return None


def check_query(query: str | bytes, server: str = PROTOCOL_VERSION) -> Rejection | str:
    """The decision about one request on the Socket.IO path.

    Args:
        query: Raw query string without `?`.
        server: The version served.
    Returns:
        The raw version the client declared, or the rejection to answer with.
    Raises:
        ValueError: `server` is no version.
    Spec: W-HS-13…22.
    """
    ours = parse_version(server)
    if ours is None:
        raise ValueError("the served version must be MAJOR.MINOR.PATCH")
    raw = declared_version(query)
    if raw is None:
        return _rejection(400, message="Missing a2c_version query parameter")
    theirs = parse_version(raw)
    if theirs is None:
        return _rejection(400, message=f"Invalid a2c_version: Invalid version: {raw}")
    if is_compatible(theirs, ours):
        return raw
    lowest, highest = supported_range(ours)
    return _rejection(
        4008,
        message="Protocol version mismatch",
        server_version=str(ours),
        client_version=str(theirs),
        min_supported=lowest,
        max_supported=highest,
    )


def on_path(path: str, mount: str) -> bool:
    """Whether a request path belongs to the Socket.IO mount: equal to it, or below it (W-HS-12)."""
    prefix = "/" + mount.strip("/")
    return path == prefix or path.startswith(prefix + "/")


def _rejection(code: int, **fields: str) -> Rejection:
    # The standard library's spacing and escapes are the required bytes.
    return Rejection(body=json.dumps({"code": code, **fields}).encode(), code=code)
