"""Asking a Computer for chunks of one blob, beyond a lost connection (C-BLOB-36).

After a loss the Agent may be back before the Computer is. Its 404 then means "not yet", and §9.6 has it waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ..bus.link import SmcpLink
from ..wire.blobs import GetBlobRet
from ..wire.errors import NetworkError, PeerError
from ..wire.events import NOTIFY_ENTER_OFFICE
from .download import ATTEMPTS
from .follow import GONE, concerns
from .notices import Notices
from .room import Room

LOSS_FOLLOWS = 1.0
"""Seconds after which a Computer that went is taken to have gone alone."""
RESUME_WAIT = 30.0
"""Seconds a download waits for a lost connection, and then for the Computer, before it gives up."""


class ChunkFetcher:
    """One blob of one Computer, chunk by chunk.

    Args:
        get: Asks once for the chunk at `offset`, of at most `max_bytes`.
        computer: Whose blob it is.
        link: The connection it is asked over.
        room: Tells who enters the office.
    """

    def __init__(
        self, get: Callable[..., Coroutine[Any, Any, GetBlobRet]], computer: str, link: SmcpLink, room: Room
    ) -> None:
        self._get = get
        self._computer = computer
        self._link = link
        self._room = room
        self._generation = link.generation
        self._begun = False

    async def __call__(self, offset: int, most: int) -> GetBlobRet:
        """The chunk.

        Raises:
            PeerError: As the Computer says; 404 if it is not there, or did not return in time.
            NetworkError: No answer, or the connection did not return in time.
        """
        try:
            return await self._asked(offset, most)
        except PeerError as refusal:
            if refusal.wire_code != GONE or not await self._lost():
                raise
        deadline = asyncio.get_running_loop().time() + RESUME_WAIT
        async with self._room.subscribe() as notices:
            while True:
                # First once more at once: it may have entered before anybody listened.
                try:
                    return await self._asked(offset, most)
                except PeerError as refusal:
                    if refusal.wire_code != GONE or not await self._entered(notices, deadline):
                        raise

    async def _lost(self) -> bool:
        """Whether the connection was lost since the last chunk; a Server that ends may cut off the Computer first."""
        if self._begun and self._link.state == "joined" and self._link.generation == self._generation:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOSS_FOLLOWS):
                    await self._link.wait_for("connecting", "connected")
        return self._link.state != "joined" or self._link.generation != self._generation

    async def _entered(self, notices: Notices, deadline: float) -> bool:
        """Whether the Computer came, or may have come, before the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                async for notice in notices:
                    if concerns(notice, self._computer, NOTIFY_ENTER_OFFICE):
                        return True
        except TimeoutError:
            pass
        return False

    async def _asked(self, offset: int, most: int) -> GetBlobRet:
        for attempt in range(ATTEMPTS):
            try:
                chunk = await self._get(offset=offset, max_bytes=most)
            except NetworkError:
                if attempt == ATTEMPTS - 1:
                    raise
                await self._office()
            else:
                self._generation, self._begun = self._link.generation, True
                return chunk
        raise AssertionError("unreachable")

    async def _office(self) -> None:
        try:
            async with asyncio.timeout(RESUME_WAIT):
                await self._link.wait_for("joined")
        except TimeoutError:
            raise NetworkError("the connection did not return", code="connection_lost") from None
