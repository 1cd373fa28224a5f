"""The hook `health`: tells the embedding application how the Computer and its servers are, redacted (03 §2.3).

It is called with one mapping for each change, in order. What it does takes as long as it
takes: changes of one server that come meanwhile are told as one, and none waits for it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ...bus import Bus, Observer
from ...wire.messages.mcp import ServerStatus, ServerStatusChanged
from ...wire.redaction import SecretRegistry

logger = logging.getLogger(__name__)

Health = Callable[[Mapping[str, Any]], Any]


class HealthHook:
    """Follows the servers of one bus for a hook. `run` goes on until it is cancelled.

    Args:
        hook: A plain or a coroutine function; what it raises is logged.
        registry: The secrets it must not be told.
    """

    def __init__(self, bus: Bus, hook: Health, registry: SecretRegistry) -> None:
        self._hook, self._registry = hook, registry
        # Subscribed at once, so that nothing said before `run` gets its turn is missed.
        self._facts = Observer(bus, ServerStatusChanged)

    async def run(self) -> None:
        """Tells of every change."""
        with self._facts as facts:
            async for fact in facts:
                if isinstance(fact, ServerStatusChanged):
                    await self._tell(health_of(fact.status))

    async def _tell(self, record: Mapping[str, Any]) -> None:
        try:
            answer = self._hook(self._registry.redaction.tree(record))
            if inspect.isawaitable(answer):
                await answer
        except Exception as error:
            logger.warning("the health hook failed: %s", type(error).__name__)


def health_of(status: ServerStatus) -> dict[str, Any]:
    """What the hook is told about a server."""
    return {
        "server": status.bundle_id,
        "activation": status.activation,
        "connection": status.connection,
        "phase": status.phase,
        "reason": status.reason,
        "category": status.category,
        "code": status.code,
        "since": status.since,
        "next_try_at": status.next_try_at,
    }
