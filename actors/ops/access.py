"""Who may look: loopback without more, everybody else with the token. Pure.

Without a token the endpoint listens on loopback only, and answers only to names of loopback,
so that no page of somebody else reaches it by giving its own name this address.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from typing import Final, Literal

Verdict = Literal["allowed", "no_token", "foreign_name"]

COOKIE: Final = "smcp_ops"
SHORTEST: Final = 16
"""Characters a token has at least."""


class Access:
    """The rules of one endpoint.

    Args:
        token: What everybody has to show; `None` for loopback only.
    """

    def __init__(self, token: str | None) -> None:
        self._token = token
        self._key = secrets.token_bytes(32)

    @property
    def needs_token(self) -> bool:
        """Whether there is a token to be shown."""
        return self._token is not None

    def judge(self, *, authorization: str, cookie: str, host: str) -> Verdict:
        """Whether a request may be answered.

        Args:
            authorization: Its `Authorization` header.
            cookie: Value of the cookie that `admit` gave out.
            host: Its `Host` header.
        """
        if self._token is None:
            return "allowed" if is_loopback(_name(host)) else "foreign_name"
        scheme, _, shown = authorization.partition(" ")
        if scheme.lower() == "bearer" and self.fits(shown.strip()):
            return "allowed"
        return "allowed" if cookie and _same(cookie, self.pass_of()) else "no_token"

    def fits(self, shown: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and _same(shown, self._token)

    def pass_of(self) -> str:
        """What a browser shows in place of the token, until the endpoint starts anew."""
        return hmac.new(self._key, _bytes(self._token or ""), hashlib.sha256).hexdigest()


def is_loopback(name: str) -> bool:
    """Whether a host name or address means this machine."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def split(endpoint: str) -> tuple[str, int]:
    """Host and port of a `HOST:PORT` that was checked before."""
    host, _, port = endpoint.rpartition(":")
    return host.strip("[]"), int(port)


def _same(shown: str, secret: str) -> bool:
    return hmac.compare_digest(_bytes(shown), _bytes(secret))


def _bytes(text: str) -> bytes:
    # A header may hold bytes that are no UTF-8; they arrive as surrogates.
    return text.encode("utf-8", "surrogatepass")


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
