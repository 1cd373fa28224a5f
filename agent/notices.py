"""What an Agent is told without asking: notifications of the office, and changes of its own connection.

Several readers may listen; each has a bounded queue of its own in which notices that say
the same thing merge. A reader that falls behind loses the oldest ones and can see how
many, so that it knows when to list the office again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Literal

import msgspec

from ..wire.base import Structure, decode_payload, to_wire
from ..wire.errors import InvalidPayload, SmcpError
from ..wire.events import NOTIFICATIONS, NOTIFY_ENTER_OFFICE, NOTIFY_LEAVE_OFFICE
from ..wire.rooms import MemberNotification

NOTICES_MAX = 256

LinkNotice = Literal["link:lost", "link:restored", "link:outside", "link:ended"]
"""The connection was lost; the office is joined again; it is not, for good; the connection ended, for good."""


class Notice(msgspec.Struct, frozen=True):
    """One notification.

    Attributes:
        event: Name of the `notify:*` event, or a `LinkNotice`.
        payload: Its structure; `None` for a link notice.
        error: Why, for a link notice.
    """

    event: str
    payload: Structure | None = None
    error: SmcpError | None = None

    @property
    def computer(self) -> str | None:
        """The Computer it is about."""
        computer = getattr(self.payload, "computer", None)
        return computer if isinstance(computer, str) else None

    @property
    def is_membership(self) -> bool:
        """Whether somebody came or went; such notices never merge, their order tells the story."""
        return self.event in (NOTIFY_ENTER_OFFICE, NOTIFY_LEAVE_OFFICE)

    def to_dict(self) -> dict[str, Any]:
        """JSON values: the event, its payload, and for a link notice what went wrong."""
        told: dict[str, Any] = {"event": self.event}
        if self.payload is not None:
            told["payload"] = to_wire(self.payload)
        if self.error is not None:
            told["error"] = {"category": self.error.category, "code": self.error.code, "message": str(self.error)}
        return told


def read_notice(event: str, data: msgspec.Raw | None) -> Notice | None:
    """The notice in an event; `None` for one we do not know, or that is malformed."""
    structure = NOTIFICATIONS.get(event)
    if structure is None or data is None:
        return None
    try:
        payload = decode_payload(structure, bytes(data))
    except InvalidPayload:
        return None
    if isinstance(payload, MemberNotification) and payload.role is None:
        return None
    return Notice(event, payload)


class NoticeQueue:
    """Notices for one reader, oldest first. Pure.

    Attributes:
        dropped: Notices lost because the reader was too slow.
    """

    def __init__(self, capacity: int = NOTICES_MAX) -> None:
        self._capacity = capacity
        self._waiting: OrderedDict[object, Notice] = OrderedDict()
        self._serial = 0
        self.dropped = 0

    def put(self, notice: Notice) -> None:
        """Adds a notice. One that waits already and says the same is replaced at its later place."""
        self._serial += 1
        computer = notice.computer
        mergeable = computer is not None and not notice.is_membership
        key: object = (notice.event, computer) if mergeable else self._serial
        self._waiting.pop(key, None)
        self._waiting[key] = notice
        if len(self._waiting) > self._capacity:
            self._waiting.popitem(last=False)
            self.dropped += 1

    def take(self) -> Notice | None:
        """The oldest notice, or `None`."""
        return self._waiting.popitem(last=False)[1] if self._waiting else None


class Notices:
    """An asynchronous iterator over notices, from the moment it was made; ends with the Agent.

    Use it once, as ``async for notice in agent.notices()``; `close` it when leaving early.
    """

    def __init__(self, readers: set[Notices], capacity: int = NOTICES_MAX) -> None:
        self._queue = NoticeQueue(capacity)
        self._news = asyncio.Event()
        self._ended = False
        self._readers = readers
        readers.add(self)

    @property
    def dropped(self) -> int:
        """Notices lost because this reader was too slow."""
        return self._queue.dropped

    def put(self, notice: Notice) -> None:
        """Adds a notice; never waits."""
        self._queue.put(notice)
        self._news.set()

    def take(self) -> Notice | None:
        """The oldest notice that waits already, or `None`."""
        return self._queue.take()

    def close(self) -> None:
        """Ends the iteration after what is waiting."""
        self._ended = True
        self._readers.discard(self)
        self._news.set()

    def __aiter__(self) -> Notices:
        return self

    async def __anext__(self) -> Notice:
        while True:
            notice = self._queue.take()
            if notice is not None:
                return notice
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> Notices:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()
