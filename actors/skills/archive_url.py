"""Where an archive may be fetched from, and the hash it is to have. Pure (C-SKILL-32, C-SEC-16).

The rule holds for the URL a server names and for every redirect. A URL may hold a secret in
its query or path, so only its origin is ever said.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit

from ...wire.loopback import is_loopback
from .limits import StagingFailed

_PORTS: Final = {"http": 80, "https": 443}


def check_archive_url(url: str, *, local: bool, allow_insecure: bool) -> str:
    """The origin of a permitted URL, for diagnostics.

    Args:
        local: Whether the server that names it runs on this machine; others have no business on our loopback.
        allow_insecure: The option `skill_allow_insecure_archive`.
    Raises:
        StagingFailed: It is not permitted.
    """
    try:
        parts = urlsplit(url)
        origin = _origin(parts)
    except ValueError:
        raise StagingFailed("archive_uri is no URL") from None
    if parts.scheme not in _PORTS or not parts.hostname or not url.isprintable():
        raise StagingFailed("archive_uri is neither an https nor an http URL")
    if parts.username is not None or parts.password is not None:
        raise StagingFailed("archive_uri holds user information")
    at_home = is_loopback(parts.hostname)
    if at_home and not local:
        raise StagingFailed("a server of another machine may not name an archive on this one")
    if parts.scheme == "http" and not (at_home or allow_insecure):
        raise StagingFailed(f"{origin} is neither https nor on this machine")
    return origin


def redirect_target(url: str, location: str | None, *, local: bool, allow_insecure: bool) -> str:
    """The absolute, permitted URL a redirect leads to.

    A redirect from elsewhere may not lead to this machine, whoever named the first URL: the site
    that sends it is not the server that was trusted.

    Raises:
        StagingFailed: It is not permitted.
    """
    if not location:
        raise StagingFailed("a redirect names no place", transfer=True)
    try:
        target = urljoin(url, location)
    except ValueError:
        raise StagingFailed("a redirect names no URL") from None
    from_home = is_loopback(urlsplit(url).hostname or "")
    check_archive_url(target, local=local and from_home, allow_insecure=allow_insecure)
    return target


def expected_sha256(value: Any) -> str | None:
    """The declared hash in lower case; `None` when none is declared.

    Raises:
        StagingFailed: It is not 64 hex digits.
    """
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 64 or not set(value.lower()) <= set("0123456789abcdef"):
        raise StagingFailed("archive_sha256 is not 64 hex digits")
    return value.lower()


def _origin(parts: SplitResult) -> str:
    port = parts.port
    where = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{where}" + (f":{port}" if port not in (None, _PORTS.get(parts.scheme)) else "")
