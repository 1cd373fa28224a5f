"""What `smcp computer status` shows of a running Computer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .output import Output

COLUMNS = ("SERVER", "STATE", "RECENT RESTARTS", "CALLS", "FAILED", "NEXT TRY", "REASON")


def show_status(output: Output, status: Mapping[str, Any], now: float | None = None) -> None:
    """Prints one status: the Computer in a line, its servers in a table, what is degraded beneath."""
    if output.as_json:
        output.document(status)
        return
    where = f" in {status['office']}" if status["office"] else ""
    output.text(f"{status['name']}: {status['state']}{where}", style="red" if status["degradations"] else "green")
    rows = (_row(server, time.time() if now is None else now) for server in status["servers"])
    output.table(COLUMNS, rows, headed=True)
    for open_one in status["degradations"]:
        if open_one["component"] != "server":
            output.text(f"{open_one['component']} {open_one['identity']}: {open_one['code']} {open_one['reason']}")
    for finding in status["findings"]:
        output.text(f"note: {finding}")


def _row(server: Mapping[str, Any], now: float) -> tuple[str, ...]:
    wait = "" if server["next_try_at"] is None else f"in {max(0.0, server['next_try_at'] - now):.0f} s"
    counts = (str(server[name]) for name in ("restarts_in_window", "calls", "failed_calls"))
    return (server["bundle_id"], server["phase"], *counts, wait, server["reason"] or "")
