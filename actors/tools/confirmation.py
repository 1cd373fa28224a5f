"""The confirmation a tool needs before it runs, unless the configuration says it may run by itself (W-CALL-7)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Literal

import anyio
import msgspec

from ...wire.messages.tools import RunTool
from .calls import Call
from .exposure import Route

logger = logging.getLogger(__name__)

TOLD = 1000
"""Tools the log speaks of at most, whatever names a server thinks of."""

Verdict = Literal["confirmed", "missing", "denied", "timed out"]


class ConfirmationRequest(msgspec.Struct, frozen=True):
    """What the person at the Computer is asked about.

    Attributes:
        parameters: The arguments as JSON text.
        timeout: Seconds until the call is answered without them.
    """

    req_id: str
    agent: str
    bundle_id: str
    server_name: str
    tool: str
    exposed: str
    parameters: bytes
    timeout: float


ConfirmTool = Callable[[ConfirmationRequest], Awaitable[bool] | bool]
"""Answers whether a tool may run. It must not block; only `True` confirms, an exception denies."""


def request_of(call: Call, route: Route, message: RunTool, now: float) -> ConfirmationRequest:
    """The question about one call."""
    return ConfirmationRequest(
        req_id=call.req_id,
        agent=message.agent,
        bundle_id=route.bundle_id,
        server_name=route.server_name,
        tool=route.original,
        exposed=route.exposed,
        parameters=message.params.data,
        timeout=call.remaining(now),
    )


class Confirmations:
    """Asks for the confirmation of calls, and says in the log when nobody is there to be asked.

    Args:
        hook: Whom to ask; `None` confirms nothing.
    """

    def __init__(self, hook: ConfirmTool | None) -> None:
        self._hook = hook
        self._told: set[str] = set()

    async def ask(self, request: ConfirmationRequest) -> Verdict:
        """The verdict about one call; the wait counts against the call's own limit."""
        if self._hook is None:
            self._tell(request)
            return "missing"
        try:
            with anyio.fail_after(request.timeout):
                given = self._hook(request)
                return "confirmed" if (await given if isawaitable(given) else given) is True else "denied"
        except TimeoutError:
            return "timed out"
        except Exception as error:
            # The hook is the host's code; whatever goes wrong in it must not run the tool.
            logger.warning("the confirmation of %s failed: %s", request.exposed, type(error).__name__)
            return "denied"

    def _tell(self, request: ConfirmationRequest) -> None:
        """Names the way out to whoever configures this Computer, once for each tool; an Agent is told no such thing."""
        if request.exposed in self._told or len(self._told) >= TOLD:
            return
        self._told.add(request.exposed)
        logger.warning(
            "%s was not run: calls need a confirmation, and nobody is asked here; "
            '"auto_apply": true in tool_meta or default_tool_meta of %s lets it run without one',
            request.exposed,
            request.bundle_id,
        )
