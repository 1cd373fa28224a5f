"""How a request to an MCP server can end without a usable result, and what is known about its execution (DEC-10)."""

from __future__ import annotations

from typing import ClassVar, Literal

Executed = Literal["no", "unknown", "yes"]


class RequestFailed(Exception):
    """Root of these failures. The text is for people and holds no secret; what of it an Agent hears says `outcome`.

    Attributes:
        executed: Whether the server may have acted on the request.
        transport: Whether it counts as a failure of the transport (DEC-29).
    """

    executed: Executed = "unknown"
    transport: ClassVar[bool] = True


class ErrorAnswer(RequestFailed):
    """The server answered with a JSON-RPC error. It is alive, and this is its word."""

    executed = "yes"
    transport = False

    def __init__(self, code: int, message: str, data: bytes = b"") -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class UnusableAnswer(RequestFailed):
    """The server answered, but not with what the protocol asks for."""

    executed = "yes"
    transport = False


class UnwritableRequest(RequestFailed):
    """The encoding that the server asks for has no way to write the request."""

    executed = "no"
    transport = False

    def __init__(self, encoding: str) -> None:
        super().__init__(f"the request holds characters that {encoding}, the encoding of the server, cannot write")


class TimeLimitReached(RequestFailed):
    """No answer within the request's own time limit, or no progress for its idle limit (DEC-11)."""

    transport = False

    def __init__(self, limit: float, *, idle: bool = False) -> None:
        super().__init__(f"no {'progress' if idle else 'answer'} within {limit:g} s")
        self.idle = idle


class StartLimitReached(RequestFailed):
    """The start as a whole took longer than its budget."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"the server did not start within {limit:g} s")


class HandshakeFailed(RequestFailed):
    """There is a connection, but no session (R-LIFE-7)."""

    executed = "no"
    transport = False

    def __init__(self, code: Literal["refused", "malformed_handshake", "version"], reason: str) -> None:
        super().__init__(reason)
        self.code = code


class ConnectionLost(RequestFailed):
    """The process ended, the pipe closed, or the network failed before the answer came."""

    def __init__(self, reason: str, *, sent: bool = True) -> None:
        super().__init__(reason)
        self.executed = "unknown" if sent else "no"


class UpstreamFailed(RequestFailed):
    """An HTTP server answered the request with a failure of its own, such as a 5xx (U-7)."""

    def __init__(self, reason: str, *, status: int | None = None, sent: bool = True) -> None:
        super().__init__(reason)
        self.status = status
        self.executed = "unknown" if sent else "no"


class AuthorizationFailed(RequestFailed):
    """Upstream refused for want of authorization (W-UP). `code` is 4006 or 4007."""

    executed = "no"
    transport = False

    def __init__(self, code: Literal[4006, 4007], reason: str) -> None:
        super().__init__(reason)
        self.code = code


class SessionForgotten(RequestFailed):
    """An HTTP server no longer knows our session; what it refused that way was not executed (DEC-9).

    Attributes:
        session_id: The one it was asked with, which tells whether a new one has been made since. A secret.
    """

    executed = "no"

    def __init__(self, session_id: str) -> None:
        super().__init__("the server no longer knows this session")
        self.session_id = session_id


class RedirectRefused(RequestFailed):
    """The endpoint redirects to where our credentials must not follow (DEC-16)."""

    executed = "no"

    def __init__(self, location: str) -> None:
        super().__init__(f"the endpoint redirects to {location}, which is not followed")
        self.location = location
