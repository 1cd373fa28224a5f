"""An event loop in a thread of its own, for code that has none."""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ..wire.errors import ConflictError, NetworkError

GRACE = 1.0
"""Seconds a call of another thread may go on after the end was asked for, before it is cancelled."""
LAST_WAIT = 5.0
"""Seconds until the thread is left to itself; a source that blocks a thread cannot be cancelled."""
NOT_CONNECTED = "not_connected"

R = TypeVar("R")

_log = logging.getLogger(__name__)


class LoopThread:
    """Runs coroutines for any thread until stopped. Its thread ends with the process at the latest."""

    def __init__(self) -> None:
        self._portal: Future[BlockingPortal] = Future()
        self._process = os.getpid()
        self._stopping = False
        # A daemon, so that a caller who forgot to close can still end the interpreter.
        self._thread = threading.Thread(target=self._main, name="smcp-agent", daemon=True)
        self._thread.start()

    def run(self, function: Callable[[], Awaitable[R]]) -> R:
        """The result of a coroutine function; interrupting the wait (Ctrl-C) cancels it.

        Raises:
            ConflictError: Called in a child that was forked off: threads stay behind, and nobody would answer.
            NetworkError: The loop was stopped before, or meanwhile.
        """
        if not self.is_here:
            raise ConflictError("a process that was forked off needs a connection of its own", code="forked")
        portal = self._portal.result()
        try:
            future = portal.start_task_soon(function)
        except RuntimeError:
            raise NetworkError("not connected", code=NOT_CONNECTED, details={"executed": "no"}) from None
        try:
            return future.result()
        except CancelledError:
            if self._stopping:
                raise NetworkError("closed meanwhile", code=NOT_CONNECTED, details={"executed": "unknown"}) from None
            raise
        except BaseException:
            future.cancel()
            raise

    @property
    def is_here(self) -> bool:
        """Whether the thread is one of this process."""
        return self._process == os.getpid()

    def stop(self) -> None:
        """Ends the loop and its thread, in bounded time; in a forked child there is nothing to end."""
        if not self.is_here:
            return
        self._stopping = True
        with suppress(NetworkError):  # another thread asked first
            self.run(self._portal.result().stop)
        self._thread.join(GRACE + LAST_WAIT)
        if self._thread.is_alive():
            _log.warning("a call of another thread does not end, and its thread is left to itself")

    def _main(self) -> None:
        fast = importlib.util.find_spec("uvloop") is not None
        anyio.run(self._serve, backend="asyncio", backend_options={"use_uvloop": fast})

    async def _serve(self) -> None:
        with anyio.CancelScope() as calls:
            async with BlockingPortal() as portal:
                self._portal.set_result(portal)
                await portal.sleep_until_stopped()
                # Most calls end with the connection; what is left waits for something of the caller's own.
                calls.deadline = anyio.current_time() + GRACE
