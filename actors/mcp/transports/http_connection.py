"""What both connections over HTTP have in common: a client, the exchanges under way, and what people are told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final

import httpx2

from ....wire.messages.mcp import LaunchPlan
from ..failures import ConnectionLost
from .dispatcher import NotificationSink, RawDispatcher
from .http_exchange import make_client
from .http_tasks import HttpTasks
from .jsonrpc import RequestId

NOTES_MAX: Final = 16


class HttpConnection(ABC):
    """The common part; see `connection.Connection` for what it offers, and `dispatcher.Sender` for how it is used."""

    def __init__(self, plan: LaunchPlan, on_notification: NotificationSink, auth: httpx2.Auth | None) -> None:
        self._plan = plan
        self._client = make_client(plan, auth=auth)
        self._tasks = HttpTasks()
        self._dispatcher = RawDispatcher(self, on_notification, encoding_errors=plan.encoding_errors)
        self._protocol: str | None = None
        self._notes: list[str] = []
        self._closed = False

    @abstractmethod
    def send(self, message: bytes, request_id: RequestId | None, headers: Mapping[str, str]) -> None: ...

    @abstractmethod
    def withdraw(self, request_id: RequestId) -> bool: ...

    @abstractmethod
    async def _farewell(self, *, gentle: bool) -> None:
        """What is to be done before the client closes."""

    @property
    def dispatcher(self) -> RawDispatcher:
        return self._dispatcher

    @property
    def pid(self) -> int | None:
        return None

    def notes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    def stderr_tail(self) -> tuple[str, ...]:
        return ()

    async def close(self, *, gentle: bool = True) -> None:
        if self._closed:
            return
        self._closed = True
        self._dispatcher.close(ConnectionLost("the connection is being closed"))
        await self._farewell(gentle=gentle)
        await self._client.aclose()
        await self._tasks.close()

    def _note(self, text: str) -> None:
        if text not in self._notes and len(self._notes) < NOTES_MAX:
            self._notes.append(text)
