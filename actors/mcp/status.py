"""The public status of a server, put together from the table and the life under way (R-MCP-24, R-LIFE-23)."""

from __future__ import annotations

from typing import Any

import msgspec

from ...wire.messages.mcp import ServerStatus
from .life import Life
from .supervision.lifecycle import Lifecycle

LIFELESS = ("stopped", "idle", "backing_off", "parked")
"""States in which what is left of a life is only memory."""

REASON_MAX = 500
"""Characters of a reason in a line of the log."""


class Counters(msgspec.Struct):
    """What outlives a life: calls so far, and the last lines of stderr of the life before."""

    calls: int = 0
    failed_calls: int = 0
    stderr: tuple[str, ...] = ()


def server_status(
    bundle_id: str, table: Lifecycle, life: Life | None, counters: Counters, *, now: float, wall: float
) -> ServerStatus:
    """The status at this moment.

    Args:
        now: On the clock of the table.
        wall: The same moment in Unix seconds.
    """
    cause = table.cause
    status = ServerStatus(
        bundle_id,
        "started" if table.wanted else "stopped",
        table.connection,
        table.state,
        reason=cause.text if cause is not None else "idle" if table.state == "idle" else None,
        category=cause.category if cause is not None else None,
        code=cause.code if cause is not None else None,
        retries=table.law.retries,
        restarts_in_window=table.law.in_window(now),
        next_try_at=None if table.next_try is None else wall + table.next_try - now,
        since=wall + table.since - now,
        calls=counters.calls,
        failed_calls=counters.failed_calls,
        stderr_tail=counters.stderr,
        notes=life.notes() if life is not None else (),
    )
    if life is None or table.state in LIFELESS:
        return status
    session, calls = life.session, life.calls
    return msgspec.structs.replace(
        status,
        pid=life.pid,
        protocol=session.protocol if session is not None else None,
        server_name=session.server_name if session is not None else None,
        in_flight=calls.bulkhead.in_flight if calls is not None else 0,
        queued=calls.bulkhead.queued if calls is not None else 0,
        stderr_tail=life.stderr(),
    )


def complaint(status: ServerStatus, wall: float) -> str | None:
    """The line that the log of the Computer gets when a server is down, `None` unless it is (R-MCP-23).

    Args:
        wall: This moment in Unix seconds.
    """
    if status.phase not in ("backing_off", "parked"):
        return None
    reason = status.reason or "no reason known"
    if not reason.isprintable():  # a server may have worded it, and nothing it says shall steer a terminal
        reason = reason.encode("unicode_escape").decode("ascii")
    if len(reason) > REASON_MAX:
        reason = f"{reason[:REASON_MAX]}…"
    verb = "is down" if status.phase == "backing_off" else "is parked"
    next_try = (
        "no further try" if status.next_try_at is None else f"next try in {max(0.0, status.next_try_at - wall):.1f} s"
    )
    return f"{status.bundle_id} {verb}: {reason}; {next_try}"


def essence(status: ServerStatus) -> tuple[Any, ...]:
    """What must differ for a status to be news: either axis, or why and how long it waits."""
    axes = (status.activation, status.connection, status.phase)
    return (*axes, status.reason, status.category, status.code, status.retries, status.next_try_at is None)
