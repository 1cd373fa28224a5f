"""What a failed read or listing means to whoever asked: one error for each way to fail.

Pure. Only the code tells the ways apart, so that no text of a server decides anything.
"""

from __future__ import annotations

from ...wire.errors import AuthError, NetworkError, PeerError, SmcpError
from ...wire.payload import authorization_failed, authorization_required, mcp_server_unreachable
from .failures import AuthorizationFailed, ErrorAnswer, RequestFailed, TimeLimitReached

NOT_FOUND = -32002
"""JSON-RPC code of a resource that does not exist (C-DOC-22)."""
INVALID_PARAMS = -32602
"""Its successor on 2026-07-28, which retired the other; the one parameter of a read is the URI."""


def not_connected() -> NetworkError:
    """There is no session to read in."""
    return NetworkError("the MCP server is not connected", code="not_connected")


def read_failure(failure: RequestFailed, *, modern: bool = False) -> SmcpError:
    """The error of a read that failed. Its text holds nothing of what the server said (C-DOC-24).

    Args:
        modern: Whether the session speaks 2026-07-28.
    """
    if isinstance(failure, AuthorizationFailed):
        return AuthError("the MCP server asks for authorization", details={"error_code": failure.code})
    if isinstance(failure, TimeLimitReached):
        return NetworkError("the MCP server did not answer in time", code="timeout")
    if isinstance(failure, ErrorAnswer) and failure.code in ((NOT_FOUND, INVALID_PARAMS) if modern else (NOT_FOUND,)):
        return NetworkError("the MCP server has no such resource", code="resource_not_found")
    return NetworkError("the MCP server could not answer the read", code="upstream_error")


def listing_failure(failure: RequestFailed, bundle_id: str) -> PeerError:
    """What an Agent is told of a page that could not be had. Spec: W-RES-3, DEC-34."""
    if isinstance(failure, AuthorizationFailed):
        refused = authorization_failed if failure.code == 4007 else authorization_required
        return refused(bundle_id).to_error()
    reason = "timeout" if isinstance(failure, TimeLimitReached) else "upstream_error"
    return mcp_server_unreachable(bundle_id, reason).to_error()
