"""How a call's end becomes the CallToolResult of its acknowledgement (01 §8.4, DEC-10).

The result of a server that answered stays JSON text: only its result-level metadata is
put together anew.
"""

from __future__ import annotations

from typing import Any

from ...wire import results
from ...wire.base import to_json
from ...wire.errors import ActorLost, BusError, DeadlineExceeded, Overloaded, Undeliverable
from ...wire.messages.mcp import ServerStatus, ToolOutcome
from ...wire.results import Outcome
from .calls import Call
from .exposure import Route

_OUTCOMES: dict[str, Outcome | None] = {"no": "not_executed", "unknown": "unknown", "yes": None}


def answer(outcome: ToolOutcome, route: Route, call: Call) -> bytes:
    """The acknowledgement for what the server's actor reported, before transformation and shrinking."""
    attempts = outcome.attempts if outcome.attempts > 1 else None
    if outcome.ended == "answered" and outcome.result is not None:
        try:
            return results.seal(outcome.result.data, {"a2c_tool_meta": route.config, "a2c_attempts": attempts})
        except ValueError:
            return to_json(results.failed("The MCP server answered with a malformed result", route.bundle_id, None))
    result = _unanswered(outcome, route.bundle_id, call)
    if attempts is not None:
        result["meta"]["a2c_attempts"] = attempts
    return to_json(result)


def _unanswered(outcome: ToolOutcome, bundle_id: str, call: Call) -> dict[str, Any]:
    known = _OUTCOMES[outcome.executed]
    match outcome.ended:
        case "busy":
            return results.busy(outcome.text or "The MCP server is busy", bundle_id)
        case "timeout":
            return results.timed_out(call.timeout, bundle_id, known or "unknown")
        case "cancelled" if call.ended_by == "agent":
            return results.cancelled(known or "unknown")
        case "unauthorized":
            return results.unauthorized(4007 if outcome.error_code == 4007 else 4006, bundle_id)
        case "not_connected":
            return results.not_connected(outcome.text or "stopped", bundle_id)
        case _:
            return results.failed(outcome.text, bundle_id, known)


def interrupted(call: Call) -> dict[str, Any]:
    """The result of a call that its Agent or a drain ended (W-CALL-15, R-LIFE-16)."""
    if call.ended_by == "agent":
        return results.cancelled(call.outcome)
    return results.failed("The computer stopped before the tool answered", _server(call), call.outcome)


def lost(error: BusError, call: Call) -> dict[str, Any]:
    """The result of a call whose server actor did not answer."""
    bundle_id = _server(call) or ""
    executed: Outcome = "not_executed" if error.details.get("executed") == "no" else "unknown"
    match error:
        case Overloaded():
            return results.busy("The MCP server has too many calls waiting", bundle_id)
        case DeadlineExceeded():
            return results.timed_out(call.timeout, bundle_id, executed if call.handed_over else "not_executed")
        case Undeliverable():
            return results.not_connected("stopped", bundle_id)
        case ActorLost():
            return results.failed("The MCP server's host went down", bundle_id, executed)
        case _:
            return results.failed("The call could not be delivered", bundle_id, executed)


def state_text(status: ServerStatus | None, now: float) -> str:
    """Why a server is not connected, in words (DEC-25).

    Args:
        now: Unix seconds.
    """
    phase = status.phase if status is not None else "stopped"
    if phase == "parked" and status is not None and status.next_try_at is not None:
        return f"parked after repeated failures, next try in {max(0, round(status.next_try_at - now))} s"
    return _STATES.get(phase, phase)


_STATES = {
    "idle": "starting",
    "queued": "starting",
    "starting": "starting",
    "ready": "starting",
    "backing_off": "restarting",
    "unhealthy": "not answering",
    "parked": "parked after repeated failures",
}


def _server(call: Call) -> str | None:
    return call.route.bundle_id if call.route is not None else None
