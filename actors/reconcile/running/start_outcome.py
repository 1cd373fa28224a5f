"""What became of a start that somebody asked for: up, failed, or still on its way when patience ends (R-MCP-25).

A server's actor accepts an order at once and brings it about behind it. Whoever gave the
order by hand wants to know how it ended; facts say when to look, the actor what to see.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from ....wire.errors import SmcpError, error_like
from ....wire.messages.mcp import ServerStatus

UNDER_WAY = frozenset({"stopping", "queued", "starting"})
"""Phases after which a start is decided."""


class StartOutcomes:
    """The starts that somebody waits for.

    Args:
        look: The status of a server now; raises an `SmcpError` when its actor does not answer.
        heard: The status last heard of, `None` when there is no such server any more.
    """

    def __init__(
        self, look: Callable[[str], Awaitable[ServerStatus]], heard: Callable[[str], ServerStatus | None]
    ) -> None:
        self._look = look
        self._heard = heard
        self._moved: dict[str, anyio.Event] = {}
        self._refusals: dict[str, SmcpError] = {}

    def moved(self, bundle_id: str) -> None:
        """Something happened to a server; whoever waits looks again."""
        moved = self._moved.pop(bundle_id, None)
        if moved is not None:
            moved.set()

    def rendered(self, bundle_id: str, refusal: SmcpError | None = None) -> None:
        """A start was rendered, or was not; then the error says more than a status can."""
        self._refusals.pop(bundle_id, None)
        if refusal is not None:
            self._refusals[bundle_id] = refusal

    async def of(self, bundle_id: str, patience: float) -> ServerStatus:
        """How a start that was ordered ends; the status of one that is under way after `patience` seconds.

        Raises:
            SmcpError: It failed, as an error of its category: `AuthError` (`authorization_required`) when the server
                waits for an authorization, `MissingInputError` when a value is missing, `StartupError`, …
        """
        status = ServerStatus(bundle_id, "started", "connecting", "queued")
        with anyio.move_on_after(patience):
            while True:
                moved = self._moved.setdefault(bundle_id, anyio.Event())
                status = await self._status(bundle_id)
                if status.phase not in UNDER_WAY:
                    break
                await moved.wait()
        failure = failure_of(status)
        if failure is None:
            return status
        refusal = self._refusals.get(bundle_id)
        raise refusal if refusal is not None and refusal.category == status.category else failure

    async def _status(self, bundle_id: str) -> ServerStatus:
        try:
            return await self._look(bundle_id)
        except SmcpError:
            return self._heard(bundle_id) or ServerStatus(bundle_id)


def failure_of(status: ServerStatus) -> SmcpError | None:
    """The error a status stands for after a start; `None` for a server that is up, on its way, or stopped again."""
    if status.activation == "stopped" or status.phase in (*UNDER_WAY, "idle") or status.connection == "connected":
        return None
    reason = status.reason or "no reason is known"
    if status.connection == "authorization_required":
        found = error_like("auth", f"{status.bundle_id} waits for an authorization: {reason}", "authorization_required")
    else:
        category = status.category or "startup"
        found = error_like(category, f"{status.bundle_id} did not start: {reason}", status.code or category)
    found.bundle_id = status.bundle_id
    if status.next_try_at is not None:
        found.retry_hint = "it is tried again by itself"
    return found
