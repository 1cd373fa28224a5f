"""Asking the actors that own the answers: once, or again for a while when the owner was being restarted."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

import anyio

from ...wire.envelope import Address
from ...wire.errors import ActorLost
from ...wire.message import Ask

R = TypeVar("R")

ANSWER_LIMIT: Final = 15.0
"""Seconds one answer may take, tool calls and documents excepted (D-46)."""
REBUILD_WAIT: Final = 5.0
"""Seconds a read waits for an owner that is being restarted (D-47)."""
REBUILD_POLL: Final = 0.02


class Asker(Protocol):
    """The way to other actors."""

    async def __call__(self, target: Address, message: Ask[R], *, timeout: float | None = None) -> R: ...


class Owners:
    """The actors behind the answers of one Computer.

    Args:
        ask: Asks an actor.
    """

    def __init__(self, ask: Asker) -> None:
        self._ask = ask

    async def ask(self, target: Address, message: Ask[R], limit: float = ANSWER_LIMIT) -> R:
        """Asks once, for at most `limit` seconds."""
        return await self._ask(target, message, timeout=limit)

    async def read(self, target: Address, message: Ask[R], limit: float = ANSWER_LIMIT) -> R:
        """Asks again for a while when the owner was being restarted: reading twice changes nothing."""
        with anyio.move_on_after(REBUILD_WAIT):
            while True:
                try:
                    return await self.ask(target, message, limit)
                except ActorLost as lost:
                    # A parked owner is not waited for: it may be gone for minutes (DEC-35).
                    if lost.details.get("down") == "parked":
                        raise
                await anyio.sleep(REBUILD_POLL)
        return await self.ask(target, message, limit)
