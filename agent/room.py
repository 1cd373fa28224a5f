"""Keeps an Agent's picture of its office: runs the tool cache and hands notices to readers (W-AGT-1, W-AGT-2)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol

import msgspec

from ..bus.link import LinkChange
from ..wire.errors import ConfigValidationError, NetworkError, SmcpError
from ..wire.events import (
    NOTIFY_ENTER_OFFICE,
    NOTIFY_LEAVE_OFFICE,
    NOTIFY_TOOL_CALL_CANCEL,
    NOTIFY_UPDATE_CONFIG,
    NOTIFY_UPDATE_TOOL_LIST,
)
from ..wire.protocol import RETRY_ATTEMPTS_MAX
from ..wire.retry import backoff_delay
from ..wire.rooms import ListRoomRet, MemberNotification
from ..wire.tools import GetToolsRet
from .notices import LinkNotice, Notice, Notices, read_notice
from .tool_cache import FetchTools, Order, ToolCache

_log = logging.getLogger(__name__)


class Source(Protocol):
    """What the room asks the office."""

    async def list_room(self) -> ListRoomRet: ...

    async def get_tools(self, computer: str) -> GetToolsRet: ...


class Room:
    """The office as its notifications tell it.

    Args:
        office: Notifications of another one do not count (W-ROOM-32, W-AGT-3).
        source: Answers for the room list and tool lists.
        run: Starts work the Agent owns.
        watch_tools: Whether tools are fetched at all.
    """

    def __init__(
        self,
        office: str,
        source: Source,
        run: Callable[[Coroutine[Any, Any, None]], Any],
        *,
        watch_tools: bool,
    ) -> None:
        self._office = office
        self._source = source
        self._run = run
        self._watch_tools = watch_tools
        self._readers: set[Notices] = set()
        self._changed = asyncio.Event()
        self._ended = False
        self._failure: SmcpError | None = None
        self.tools = ToolCache()

    def subscribe(self) -> Notices:
        """A reader of everything that happens from now on; one of an Agent that has ended is at its end."""
        reader = Notices(self._readers)
        if self._ended:
            reader.close()
        return reader

    def close(self) -> None:
        """Ends all readers, and everybody who waits."""
        self._ended = True
        for reader in list(self._readers):
            reader.close()
        self._poke()

    async def settled(self) -> None:
        """Waits until the tools of everybody present are known, or known to be unavailable.

        Raises:
            ConfigValidationError: Tools are not fetched at all.
            SmcpError: The Agent is closed, or out of its office for good; the reason.
        """
        if not self._watch_tools:
            raise ConfigValidationError(
                "the tools of the office are not watched",
                field="watch_tools",
                retry_hint="watch them, or use get_tools",
            )
        while not self.tools.settled:
            if self._ended or self._failure is not None:
                raise self._failure or NetworkError("the Agent is closed", code="not_connected")
            await self._changed.wait()

    # --- what happens ---

    def on_event(self, event: str, data: msgspec.Raw | None) -> None:
        """An event of the Server."""
        notice = read_notice(event, data)
        if notice is None:
            _log.debug("ignored event %s", event)
        elif event != NOTIFY_TOOL_CALL_CANCEL:
            self._publish(notice)
            self._obey(self._consequences(notice))

    def _consequences(self, notice: Notice) -> list[Order]:
        computer = notice.computer
        if computer is None or not self._watch_tools:
            return []
        if isinstance(notice.payload, MemberNotification) and notice.payload.office_id != self._office:
            return []
        if notice.event == NOTIFY_ENTER_OFFICE:
            return self.tools.entered(computer)
        if notice.event == NOTIFY_LEAVE_OFFICE:
            self.tools.left(computer)
        elif notice.event in (NOTIFY_UPDATE_TOOL_LIST, NOTIFY_UPDATE_CONFIG):
            return self.tools.changed(computer, tools=notice.event == NOTIFY_UPDATE_TOOL_LIST)
        return []

    def on_change(self, change: LinkChange) -> None:
        """A change of the connection."""
        if change.state == "joined" or (change.state == "connecting" and change.error is None):
            self._ended, self._failure = False, None
        if change.state == "joined":
            if change.restored:
                self._publish(Notice("link:restored"))
            self._obey(self.tools.joined() if self._watch_tools else [])
            return
        self.tools.outside()
        if change.state != "connecting":
            self._failure = change.error or self._failure
        self._poke()
        if change.error is not None:
            told: dict[str, LinkNotice] = {
                "connecting": "link:lost",
                "connected": "link:outside",
                "ended": "link:ended",
            }
            self._publish(Notice(told[change.state], error=change.error))
        if change.state == "ended":
            self.close()

    def _publish(self, notice: Notice) -> None:
        for reader in self._readers:
            reader.put(notice)

    # --- what follows ---

    def _obey(self, orders: Iterable[Order]) -> None:
        for order in orders:
            self._run(self._fetch(order) if isinstance(order, FetchTools) else self._list(order.epoch))
        self._poke()

    async def _list(self, epoch: int) -> None:
        room = await _attempts(self._source.list_room)
        if isinstance(room, SmcpError):
            _log.warning("the office could not be listed: %s", room)
            self._obey(self.tools.listed(epoch, None))
        else:
            computers = [member.name for member in room.sessions if member.role == "computer"]
            self._obey(self.tools.listed(epoch, computers))

    async def _fetch(self, order: FetchTools) -> None:
        answer = await _attempts(lambda: self._source.get_tools(order.computer))
        if isinstance(answer, SmcpError):
            _log.warning("the tools of %s could not be fetched: %s", order.computer, answer)
            self._obey(self.tools.failed(order, str(answer)))
        else:
            self._obey(self.tools.fetched(order, answer.tools))

    def _poke(self) -> None:
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()


async def _attempts(ask: Callable[[], Awaitable[Any]]) -> Any:
    """The answer, or the error that is left after the retries §9.6 allows."""
    for attempt in range(RETRY_ATTEMPTS_MAX):
        try:
            return await ask()
        except SmcpError as error:
            if not error.retryable or attempt == RETRY_ATTEMPTS_MAX - 1:
                return error
            await asyncio.sleep(backoff_delay(attempt, random.random()))
    raise AssertionError("unreachable")
