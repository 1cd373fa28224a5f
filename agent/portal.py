"""An event loop in a thread of its own, for code that has none."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ..wire.errors import ConflictError

R = TypeVar("R")


class LoopThread:
    """Runs coroutines for any thread until stopped. Its thread ends with the process at the latest."""

    def __init__(self) -> None:
        self._portal: Future[BlockingPortal] = Future()
        self._process = os.getpid()
        # A daemon, so that a caller who forgot to close can still end the interpreter.
        self._thread = threading.Thread(target=self._main, name="smcp-agent", daemon=True)
        self._thread.start()

    def run(self, function: Callable[[], Awaitable[R]]) -> R:
        """The result of a coroutine function; interrupting the wait (Ctrl-C) cancels it.

        Raises:
            ConflictError: Called in a child that was forked off: threads stay behind, and nobody would answer.
        """
        if not self.is_here:
            raise ConflictError("a process that was forked off needs a connection of its own", code="forked")
        future = self._portal.result().start_task_soon(function)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def is_here(self) -> bool:
        """Whether the thread is one of this process."""
        return self._process == os.getpid()

    def stop(self) -> None:
        """Ends the loop and its thread; in a forked child there is nothing to end."""
        if not self.is_here:
            return
        self.run(self._portal.result().stop)
        self._thread.join()

    def _main(self) -> None:
        fast = importlib.util.find_spec("uvloop") is not None
        anyio.run(self._serve, backend="asyncio", backend_options={"use_uvloop": fast})

    async def _serve(self) -> None:
        async with BlockingPortal() as portal:
            self._portal.set_result(portal)
            await portal.sleep_until_stopped()
