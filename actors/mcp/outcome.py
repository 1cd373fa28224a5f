"""How a call's end is told: the outcome table (DEC-10, DEC-11, DEC-25, DEC-29, W-CALL 8.4)."""

from __future__ import annotations

from ...wire.messages.mcp import ServerStatus, ToolOutcome
from .failures import AuthorizationFailed, ErrorAnswer, RedirectRefused, RequestFailed, TimeLimitReached


def failed(failure: RequestFailed, text: str) -> ToolOutcome:
    """The outcome of a call that was handed to the transport and brought no result; `text` says so without secrets."""
    match failure:
        case AuthorizationFailed():
            return ToolOutcome("unauthorized", executed="no", error_code=failure.code, text=text)
        case ErrorAnswer():
            return ToolOutcome("error", error_code=failure.code, text=text)
        case RedirectRefused():
            # Where it leads is for the operator's eyes: it may be an address of the inside (W-ERR-6).
            text = "the endpoint of the MCP server redirects elsewhere, which is not followed"
            return ToolOutcome("failed", executed="no", text=text)
        case TimeLimitReached():
            return ToolOutcome("timeout", executed="unknown", text=text)
        case _:
            return ToolOutcome("failed", executed=failure.executed, text=text)


def busy(text: str) -> ToolOutcome:
    """Refused by a full queue or an open breaker."""
    return ToolOutcome("busy", executed="no", text=text)


def timed_out_waiting(timeout: float) -> ToolOutcome:
    """The time limit came while the call still waited for its place."""
    return ToolOutcome("timeout", executed="no", text=f"no place for the call within {timeout:g} s")


def timed_out_starting(timeout: float) -> ToolOutcome:
    """The time limit came while the call waited for its server to be started (F-68)."""
    return ToolOutcome("timeout", executed="no", text=f"the MCP server was not up within {timeout:g} s")


def stopped_waiting() -> ToolOutcome:
    """The server was stopped or lost while the call still waited for its place."""
    return ToolOutcome("failed", executed="no", text="the server went away before the call was handed to it")


def not_connected(status: ServerStatus, now: float) -> ToolOutcome:
    """A call that meets a server without a session (DEC-25). `now` in Unix seconds."""
    return ToolOutcome("not_connected", executed="no", text=f"the MCP server is {describe(status, now)}")


def describe(status: ServerStatus, now: float) -> str:
    """What a server is doing, for the caller of one of its tools. Holds no diagnostics of ours (R-LIFE-25)."""
    if status.activation == "stopped":
        return "stopped"
    if status.connection == "authorization_required":
        return "waiting for authorization"
    if status.phase == "parked":
        soon = "" if status.next_try_at is None else f", next try in {max(0.0, status.next_try_at - now):.0f} s"
        return f"parked after repeated failures{soon}"
    if status.phase in ("queued", "starting") and not status.retries:
        return "starting"
    return "restarting"
