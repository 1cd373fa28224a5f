"""Why a start failed, as the cause that supervision and people see (R-LIFE-7, R-MCP-23, R-MCP-25)."""

from __future__ import annotations

from ....wire.errors import ConfigValidationError, InvalidSelectionError, MissingInputError, PolicyError, SmcpError
from ..failures import (
    AuthorizationFailed,
    ConnectionLost,
    HandshakeFailed,
    RedirectRefused,
    RequestFailed,
    StartLimitReached,
)
from .lifecycle import Cause, Nature

_NOT_BY_WAITING = (ConfigValidationError, InvalidSelectionError, MissingInputError, PolicyError)


def cause_of(error: BaseException, stderr: tuple[str, ...] = ()) -> Cause:
    """The cause in an exception of a start.

    Args:
        stderr: The last lines of the server without its secrets, of which the newest that says something is shown, cut.
    """
    if isinstance(error, SmcpError):
        return Cause(error.message, error.category, error.code, _nature(error))
    if isinstance(error, AuthorizationFailed):
        return Cause(str(error), "auth", str(error.code), "authorization")
    text, category, code = _told(error)
    said = next((line.strip() for line in reversed(stderr) if line.strip()), "")
    return Cause(f"{text}; stderr: {said[:300]}" if said else text, category, code)


def _told(error: BaseException) -> tuple[str, str, str]:
    """Text, category and code of an error of the connection or the handshake."""
    match error:
        case RedirectRefused():
            told = (str(error), "network", "redirect_refused")
        case StartLimitReached():
            told = (str(error), "startup", "start_timeout")
        case ConnectionLost() if error.executed == "no":
            told = (str(error), "network", "unreachable")
        case ConnectionLost():
            told = (str(error), "startup", "ended_early")
        case HandshakeFailed():
            told = (str(error), "startup", error.code)
        case RequestFailed():
            told = (str(error), "network", "upstream_failed")
        case _:
            told = (f"the start failed ({type(error).__name__})", "startup", "startup")
    return told


def _nature(error: SmcpError) -> Nature:
    if isinstance(error, _NOT_BY_WAITING) or error.code == "identity_drift":
        return "configuration"
    return "authorization" if error.category == "auth" else "passing"
