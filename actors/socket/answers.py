"""Building acknowledgements: JSON text that other actors made is embedded as it is, never encoded again.

Pure. Every function returns the one argument of an A1 acknowledgement as JSON. Errors leave flat,
tool calls end as a CallToolResult, and whatever would exceed the ack budget is replaced by
an error that says so, because an oversized packet costs the whole connection (DEC-18).
"""

from __future__ import annotations

from ...wire import payload, results
from ...wire.base import to_json
from ...wire.errors import ActorLost, BusError, DeadlineExceeded, InvalidPayload, Overloaded, SmcpError, Undeliverable
from ...wire.events import CLIENT_TOOL_CALL
from ...wire.payload import ErrorPayload
from ...wire.protocol import ACK_BUDGET


def embed(req_id: str, **members: bytes) -> bytes:
    """An object of ready JSON texts, with the `req_id` echoed (W-EVT-1)."""
    parts = [b'"%s":%s,' % (name.encode(), text) for name, text in members.items()]
    return b'{%s"req_id":%s}' % (b"".join(parts), to_json(req_id))


def extended(fields: bytes, req_id: str) -> bytes:
    """A ready JSON object that is not empty, with the `req_id` echoed in it."""
    return b'%b,"req_id":%b}' % (fields[:-1], to_json(req_id))


def plain(value: object) -> bytes:
    """An object that is encoded here: error payloads, results of our own making, small replies."""
    return to_json(value)


def refusal(error: ErrorPayload) -> bytes:
    """A flat protocol error (W-ERR-1)."""
    return plain(error)


def malformed(event: str, fault: InvalidPayload) -> bytes:
    """The request does not fit its structure (C-GEN-5, C-10)."""
    if event == CLIENT_TOOL_CALL:
        return plain(results.malformed_request(field=fault.field))
    return refusal(payload.bad_request(fault.field, fault.expected))


def out_of_service(event: str, computer: str) -> bytes:
    """Outside an office, between offices or while draining nothing is executed (R-LIFE-3)."""
    if event == CLIENT_TOOL_CALL:
        return plain(results.failed("This Computer is not in service", outcome="not_executed"))
    return refusal(payload.computer_not_found(computer))


def interrupted(event: str, computer: str) -> bytes:
    """The Computer stops taking part before there was an answer (DEC-13)."""
    if event == CLIENT_TOOL_CALL:
        return plain(results.failed("The Computer went out of service during the call"))
    return refusal(payload.computer_not_found(computer))


def crowded(event: str) -> bytes:
    """Too many requests are in work here already; this one was not begun."""
    if event == CLIENT_TOOL_CALL:
        return plain(results.busy("This Computer has too many requests in flight"))
    return refusal(payload.internal_error())


def failed_call(error: SmcpError, timeout: float) -> bytes:
    """A tool call that ended without an answer of the ToolActor (DEC-10, DEC-35). Names no actor and no address."""
    if isinstance(error, Overloaded):
        return plain(results.busy("This Computer has too many tool calls in flight"))
    executed = error.details.get("executed") if isinstance(error, BusError) else None
    outcome: results.Outcome = "not_executed" if executed == "no" else "unknown"
    if isinstance(error, DeadlineExceeded):
        return plain(results.timed_out(timeout, outcome=outcome))
    if isinstance(error, Undeliverable):
        outcome = "not_executed"
    return plain(results.failed("The Computer could not execute the tool call", outcome=outcome))


def failed_request(error: SmcpError) -> bytes:
    """Any other request that failed: the peer's own payload, 400, or a bare 500 (R-ERR-2)."""
    return refusal(payload.from_error(error))


def failed_listing(error: SmcpError, mcp_server: str) -> bytes:
    """A failed `client:get_resources`, in codes that pass an official Server (W-RES-2, W-RES-3, DEC-34)."""
    if isinstance(error, Undeliverable | ActorLost):
        return refusal(payload.mcp_server_not_found(mcp_server))
    if isinstance(error, DeadlineExceeded):
        return refusal(payload.mcp_server_unreachable(mcp_server, "timeout"))
    if isinstance(error, BusError):
        return refusal(payload.mcp_server_unreachable(mcp_server, "upstream_error"))
    return failed_request(error)


def within_budget(event: str, answer: bytes, budget: int = ACK_BUDGET) -> bytes:
    """The answer, or the error that takes its place when it is larger than `budget` bytes (C-GEN-7, W-CALL-21)."""
    size = len(answer)
    if size <= budget:
        return answer
    if event == CLIENT_TOOL_CALL:
        return plain(results.too_large(size, budget))
    return refusal(payload.internal_error())
