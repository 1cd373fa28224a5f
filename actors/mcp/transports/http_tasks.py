"""The exchanges of one HTTP connection that are under way: owned, bounded, and gone when the connection closes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from .jsonrpc import RequestId

logger = logging.getLogger(__name__)

SIDE_MESSAGES = 64
"""Notifications and answers of ours under way at once; a server that provokes more gets none."""
LAST_WORDS = 0.05
"""Seconds that exchanges under way get to notice that their client is closed."""
LATE_GRACE = 2.0
"""Seconds that the exchange of a withdrawn request may still take before it is cut."""


class HttpTasks:
    """Tasks by the request they carry."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._requests: dict[RequestId, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
        self._side = 0
        self._dropped = 0

    def carry(self, request_id: RequestId, work: Coroutine[Any, Any, None]) -> None:
        """Runs the exchange of one request."""
        task = self._loop.create_task(work)
        self._requests[request_id] = task
        task.add_done_callback(lambda done: self._forget(request_id, done))

    def side(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Runs the exchange of a message nobody waits for; `None` when there are too many."""
        if self._side >= SIDE_MESSAGES:
            work.close()
            self._dropped += 1
            if self._dropped == 1:
                logger.warning("more than %d messages to one server under way; further ones are dropped", SIDE_MESSAGES)
            return None
        self._side += 1
        task = self.run(work)
        task.add_done_callback(self._side_done)
        return task

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs anything else, such as a listening stream."""
        task = self._loop.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def cut(self, request_id: RequestId, grace: float = 0.0) -> None:
        """Ends the exchange of a request after `grace` seconds."""
        task = self._requests.get(request_id)
        if task is not None:
            if grace:
                self._loop.call_later(grace, task.cancel)
            else:
                task.cancel()

    async def close(self) -> None:
        """Ends everything and waits for it. The client is closed by then, so most of it ends by itself.

        What is cancelled while the client library lets go of expired connections leaves them to the garbage
        collector, hence the moment before it.
        """
        pending = {*self._requests.values(), *self._others}
        if pending:
            _, pending = await asyncio.wait(pending, timeout=LAST_WORDS)
        for task in pending:
            task.cancel()
        if pending:
            await asyncio.wait(pending, timeout=1.0)

    def _forget(self, request_id: RequestId, task: asyncio.Task[None]) -> None:
        # a request that failed may have been sent again under its id before its first task was seen to end
        if self._requests.get(request_id) is task:
            del self._requests[request_id]

    def _side_done(self, _: asyncio.Task[None]) -> None:
        self._side -= 1
