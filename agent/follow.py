"""Keeping one thing of one Computer current: fetched at the start, and again whenever the office says it changed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from ..wire.errors import NetworkError, PeerError
from ..wire.events import NOTIFY_ENTER_OFFICE
from .notices import Notice, Notices

T = TypeVar("T")

GONE = 404


async def follow(
    notices: Notices, computer: str, event: str, fetch: Callable[[], Awaitable[T]]
) -> AsyncGenerator[T, None]:
    """What `fetch` gives now, and after each `event` of that Computer; one fetch at a time.

    A burst of notifications causes one fetch. A Computer that is away, and a connection that is lost, are waited
    for; ends with the Agent.

    Raises:
        SmcpError: The first fetch failed, or a later one for another reason.
    """
    async with notices:
        yield await fetch()
        async for notice in notices:
            if not concerns(notice, computer, event):
                continue
            try:
                current = await fetch()
            except NetworkError:
                continue  # the notice that the connection is back will ask again
            except PeerError as refusal:
                if refusal.wire_code != GONE:
                    raise
                continue
            yield current


def concerns(notice: Notice, computer: str, event: str) -> bool:
    """Whether it is that event of the Computer, or may have hidden one: its return, or that of the connection."""
    if notice.event == "link:restored":
        return True
    return notice.computer == computer and notice.event in (event, NOTIFY_ENTER_OFFICE)
