"""What a client decides about a handshake: the URL it asks for, and what a refusal means.

Pure. The Socket.IO link of Agent and Computer carries these decisions out: version in
the query, polling first, and one class of error for each way a Server can say no
(R-LIFE-12). A refusal for any other reason is never taken for a version mismatch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit, urlunsplit

import msgspec

from .errors import AuthError, ConfigValidationError, NetworkError, ProtocolVersionError, SmcpError
from .protocol import (
    DEFAULT_TRANSPORTS,
    VERSION_PARAMETER,
    VERSION_REFUSED_CLOSE_CODE,
    VERSION_REFUSED_HEADER,
)

VERSION_MISMATCH = 4008
REFUSED_BY_CLOSE = "refused_by_close"
"""Code of a `ProtocolVersionError` that came as a close code, so that its versions are still to be asked for."""

_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_OTHER_CREDENTIALS = "show the token that the Server asks for: --auth-env on the command line, `auth` in code"
_VERSIONS = ("client_version", "server_version", "min_supported", "max_supported")
_SHOWN = 200


def request_url(url: str, socketio_path: str, version: str) -> str:
    """The HTTP address of every request of a connection, without the parameters of Engine.IO.

    The version replaces one the caller wrote, other query parameters stay as they are (W-HS-1, W-HS-2). A path in
    `url` does not count: where the Server mounts Socket.IO is `socketio_path` (W-ARCH-3).

    Raises:
        ConfigValidationError: The URL has no host, one that cannot exist, or a scheme other than http, https, ws, wss.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  raises for a port that is no number
        (parts.hostname or "").encode("idna")  # raises for a label no resolver takes
    except ValueError as error:
        raise ConfigValidationError("not a URL", code="invalid_url", field="url") from error
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ConfigValidationError(
            "a Server URL starts with http:// or https:// and names a host", code="invalid_url", field="url"
        )
    kept = [pair for pair in parts.query.split("&") if pair and _name(pair) != VERSION_PARAMETER]
    query = "&".join([*kept, f"{VERSION_PARAMETER}={quote(version)}"])
    return urlunsplit((scheme, parts.netloc, f"/{socketio_path.strip('/')}/", query, ""))


def ignored_path(url: str, socketio_path: str) -> str | None:
    """The path in `url` that has no effect, for a warning; `None` when there is none."""
    path = urlsplit(url).path.strip("/")
    return f"/{path}" if path and path != socketio_path.strip("/") else None


def polling_first(transports: Sequence[str]) -> tuple[str, ...]:
    """The transports to use: the caller's, or the default where they would not begin with polling (W-HS-3).

    Without polling the body of a refused handshake could not be read. The caller warns when the answer differs.
    """
    if tuple(transports) in (DEFAULT_TRANSPORTS, ("polling",)):
        return tuple(transports)
    return DEFAULT_TRANSPORTS


def refusal(status: int, body: bytes, headers: Mapping[str, str]) -> SmcpError:
    """The error for a handshake request that was not answered with 200.

    Returns:
        `ProtocolVersionError` for 4008 in the body, nested body or header (W-HS-4, W-HS-5), `AuthError` for 401 and
        403, else `NetworkError` with `details["status"]` and the text of the body (W-HS-6).
    """
    answer = _object(body)
    coded = answer.get("code")
    header = next((value for name, value in headers.items() if name.lower() == VERSION_REFUSED_HEADER.lower()), "")
    if coded == VERSION_MISMATCH or (coded is None and header.strip() == str(VERSION_MISMATCH)):
        return _version_error(answer)
    if status in (401, 403):
        said = f"the Server refused the connection with status {status}"
        return AuthError(said, code="http_refused", retry_hint=_OTHER_CREDENTIALS)
    message = answer.get("message")
    text = message if isinstance(message, str) else body.decode("utf-8", "replace")
    return NetworkError(
        f"the Server answered the handshake with status {status}: {printable(text)}",
        code="handshake_refused",
        details={"status": status, **({"code": coded} if isinstance(coded, int) else {})},
    )


def refused_by_close() -> ProtocolVersionError:
    """The error for close code 4900 when no body could be fetched (W-HS-7)."""
    return ProtocolVersionError(
        f"the Server refused this protocol version over WebSocket (close code {VERSION_REFUSED_CLOSE_CODE})",
        code=REFUSED_BY_CLOSE,
    )


def namespace_refusal(data: Any) -> AuthError:
    """The error for a CONNECT_ERROR of the namespace, whatever its text says (W-AUTH-5, W-AUTH-8)."""
    said = data.get("message") if isinstance(data, dict) else data
    text = printable(said) if isinstance(said, str) and said else "no reason given"
    return AuthError(
        f"the Server refused the credentials: {text}", code="connection_refused", retry_hint=_OTHER_CREDENTIALS
    )


def printable(text: str) -> str:
    """A peer's text for a log or an error: control characters out, at most 200 characters."""
    return "".join(character if character.isprintable() else " " for character in text[:_SHOWN]).strip()


def _name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0])


def _version_error(answer: dict[str, Any]) -> ProtocolVersionError:
    versions = {name: value for name in _VERSIONS if isinstance(value := answer.get(name), str)}
    ours, theirs = versions.get("client_version", "unknown"), versions.get("server_version", "unknown")
    return ProtocolVersionError(
        f"protocol version mismatch: we speak {printable(ours)}, the Server {printable(theirs)}", **versions
    )


def _object(body: bytes) -> dict[str, Any]:
    """The flat error object in a body, unwrapped from the nested form of an early draft (W-ERR-1), else empty."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if isinstance(answer, dict) and isinstance(answer.get("error"), dict) and "code" not in answer:
        answer = answer["error"]
    return answer if isinstance(answer, dict) else {}
