"""The audit of tool calls: one line and one fact for each, by its req_id, without its arguments (F-72)."""

from __future__ import annotations

import logging
from typing import Any, Final

import msgspec

from ...wire import results
from ...wire.messages.tools import CallEnded, CallOutcome

logger = logging.getLogger(__name__)

SHOWN: Final = 120
"""Characters of a name in the line; names come from Agents and may be of any length and content."""

_BY_CODE: Final[dict[int, CallOutcome]] = {
    400: "malformed",
    4001: "unknown_tool",
    4002: "disabled_tool",
    4003: "failed",
    4004: "timeout",
    4005: "unconfirmed",
    4006: "unauthorized",
    4007: "unauthorized",
}


class _Verdict(msgspec.Struct):
    """The part of a result that tells how the call ended."""

    isError: bool = False
    meta: dict[str, Any] | None = None
    under: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


_verdict = msgspec.json.Decoder(_Verdict).decode


def outcome_of(result: bytes | dict[str, Any]) -> CallOutcome:
    """How the call of this CallToolResult ended."""
    if isinstance(result, bytes):
        try:
            read = _verdict(result)
        except msgspec.MsgspecError:
            return "failed"
        if not read.isError:
            return "ok"
        result = {"isError": True, "meta": read.meta or read.under}
    if not result.get("isError"):
        return "ok"
    meta = results.result_meta(result)
    for mark, outcome in _MARKS:
        if meta.get(mark) is True:
            return outcome
    code = meta.get("error_code")
    if code == 4003 and meta.get("a2c_outcome") == "not_executed":
        return "not_executed"
    return _BY_CODE.get(code, "tool_error") if isinstance(code, int) else "tool_error"


_MARKS: Final[tuple[tuple[str, CallOutcome], ...]] = (
    ("a2c_cancelled", "cancelled"),
    ("a2c_timeout", "timeout"),
    ("a2c_busy", "busy"),
    ("a2c_result_too_large", "too_large"),
)


def write(call: CallEnded) -> None:
    """Leaves the line of a call."""
    level = logging.INFO if call.outcome == "ok" else logging.WARNING
    if not logger.isEnabledFor(level):
        return
    line = (
        f"call {shown(call.req_id)} of {shown(call.tool)} by {shown(call.agent)} at {call.bundle_id or 'no server'}: "
        f"{call.outcome} after {call.duration * 1000:.0f} ms"
    )
    extra = {"req_id": call.req_id, "bundle_id": call.bundle_id, "actor": "tools"}
    # Where in our source it was written says nothing, and finding out costs more than the line.
    logger.handle(logger.makeRecord(logger.name, level, "(audit)", 0, line, (), None, extra=extra))


def shown(name: str) -> str:
    """A name of a peer in one line of a log: without line ends or anything else that steers, and not too long."""
    safe = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    return safe if len(safe) <= SHOWN else f"{safe[:SHOWN]}…"
