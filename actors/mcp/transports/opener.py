"""Opens the connection that a plan describes, with what this Computer has for it: records, logs, credentials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ....wire.messages.mcp import LaunchPlan
from ....wire.redaction import Redaction
from .connection import Connection
from .dispatcher import NotificationSink
from .process_record import ProcessRecords
from .stderr_log import StderrLog
from .stdio import open_stdio
from .tail import Tail

if TYPE_CHECKING:
    import httpx2


class Opener:
    """What all servers of a Computer share.

    Args:
        records: Where running processes are recorded for the next start (DEC-8); `None` for nowhere.
        log_folder: Where each server's stderr goes, in `<bundle_id>.log`; `None` for nowhere.
        credentials: The HTTP authorization of a plan, where there is one (R-MCP-25).
    """

    def __init__(
        self,
        *,
        records: ProcessRecords | None = None,
        log_folder: Path | None = None,
        credentials: Callable[[LaunchPlan], httpx2.Auth | None] = lambda _: None,
    ) -> None:
        self._records = records
        self._log_folder = log_folder
        self._credentials = credentials

    async def open(
        self,
        plan: LaunchPlan,
        on_notification: NotificationSink,
        *,
        tail: Tail,
        on_forgotten: Callable[[str], None],
    ) -> Connection:
        """The connection of a plan; nothing has been said over it yet.

        Args:
            tail: Takes the stderr of a server that is a process.
            on_forgotten: Called when an HTTP server forgot the session that is named, outside any request.
        Raises:
            StartupError: The command cannot be run.
            RequestFailed: The endpoint cannot be reached, or refuses.
        """
        if plan.transport == "stdio":
            folder = self._log_folder
            log = None
            if folder is not None:
                log = StderrLog(folder / f"{plan.bundle_id}.log", redaction=Redaction(plan.secrets))
            return await open_stdio(plan, on_notification, tail=tail, log=log, records=self._records)
        # they bring an HTTP client, which no Computer without such a server has to load
        if plan.transport == "sse":
            from .sse import open_sse  # noqa: PLC0415

            return await open_sse(plan, on_notification, auth=self._credentials(plan))
        from .streamable import StreamableConnection  # noqa: PLC0415

        return StreamableConnection(plan, on_notification, on_forgotten=on_forgotten, auth=self._credentials(plan))
