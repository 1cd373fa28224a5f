"""How to reach a Server: what the caller of a link decides, checked before anything is sent."""

from __future__ import annotations

import inspect
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from ...wire.backoff import Backoff
from ...wire.base import to_json
from ...wire.errors import ConfigValidationError
from ...wire.protocol import ACK_BUDGET, DEFAULT_TRANSPORTS, NAMESPACE, PROTOCOL_VERSION, SOCKETIO_PATH

AuthPayload = Mapping[str, Any]
AuthSource = AuthPayload | Callable[[], AuthPayload | Awaitable[AuthPayload]] | None
"""Credentials, or a function (may be a coroutine function) asked for fresh ones at every attempt (W-AUTH-8)."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class LinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the Server is and how to talk to it.

    Attributes:
        url: `http(s)://host[:port][?query]`; a path in it has no effect.
        namespace: Socket.IO namespace.
        socketio_path: Where the Server mounts Socket.IO.
        headers: Sent with every request.
        auth: The `auth` object of the connect packet, or where to get it; never holds `role` (W-AUTH-3).
        transports: Polling first; a list that begins with websocket is corrected with a warning (W-HS-3).
        tls: An SSL context; `True` trusts what the system trusts, `False` anybody.
        connect_timeout: Seconds one attempt may take, namespace included.
        reconnect: Whether a lost connection is opened again.
        backoff: Waits between attempts.
        stable_after: Seconds a connection must have lasted for the waits to start over.
        rejoin_budget: Seconds a refused re-join is repeated (DEC-17).
        version: Protocol version to declare.
    """

    url: str
    namespace: str = NAMESPACE
    socketio_path: str = SOCKETIO_PATH
    headers: Mapping[str, str] = {}
    auth: AuthSource = None
    transports: tuple[str, ...] = DEFAULT_TRANSPORTS
    tls: ssl.SSLContext | bool = True
    connect_timeout: float = 10.0
    reconnect: bool = True
    backoff: Backoff = Backoff()
    stable_after: float = 10.0
    rejoin_budget: float = 60.0
    version: str = PROTOCOL_VERSION

    def __post_init__(self) -> None:
        if not self.namespace.startswith("/"):
            raise ConfigValidationError("a namespace starts with /", field="namespace")
        for name, value in self.headers.items():
            if not (isinstance(name, str) and _HEADER_NAME.fullmatch(name)):
                raise ConfigValidationError("the name of a header is one word of ASCII", field="headers")
            if not isinstance(value, str) or _CONTROL.search(value):
                raise ConfigValidationError(
                    "the value of a header is text without line breaks", field=f"headers.{name}"
                )
        if isinstance(self.auth, Mapping):
            encode_auth(self.auth)


async def fresh_auth(source: AuthSource) -> bytes:
    """The connect payload as JSON, evaluated now.

    Raises:
        ConfigValidationError: It is no JSON object, or holds the key `role` (R-LIFE-22).
    """
    payload = source() if callable(source) else source
    if inspect.isawaitable(payload):
        payload = await payload
    return encode_auth(payload)


def encode_auth(payload: Any) -> bytes:
    """As `fresh_auth`, of a value at hand. No error quotes it."""
    if payload is None:
        return b"{}"
    if not isinstance(payload, Mapping):
        raise ConfigValidationError("the auth payload is an object", field="auth")
    if "role" in payload:
        raise ConfigValidationError(
            "the role is declared when joining, not in auth", code="role_in_auth", field="auth.role"
        )
    try:
        encoded = to_json(dict(payload))
    except (TypeError, ValueError):
        raise ConfigValidationError("the auth payload has no JSON form", field="auth") from None
    if len(encoded) > ACK_BUDGET:
        # The Server would drop the connection without a word, and we would come back with the same for ever (W-GEN-7).
        raise ConfigValidationError("the auth payload is too large to be sent", field="auth", code="too_large")
    return encoded
