"""Tells when a socket's descriptor fires.

On a loop with readers the loop watches it. The Windows loop that can run child processes
has none (F-91); there a thread watches the bare descriptor and calls back into the loop,
which alone touches the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
from collections.abc import Callable
from typing import Protocol


class Watch(Protocol):
    """A watched descriptor."""

    def rearm(self) -> None:
        """The socket has been drained; watch on."""

    def close(self) -> None:
        """Stops watching."""


class LoopWatch:
    """The loop watches; a drained descriptor is quiet by itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, callback: Callable[[], None]) -> None:
        self._loop, self._fd = loop, fd
        loop.add_reader(fd, callback)

    def rearm(self) -> None:
        pass

    def close(self) -> None:
        self._loop.remove_reader(self._fd)


class ThreadWatch:
    """A thread watches. It waits for `rearm` after each call, or it would spin until the loop gets to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int, callback: Callable[[], None]) -> None:
        self._loop, self._fd, self._callback = loop, fd, callback
        self._armed = threading.Event()
        self._armed.set()
        self._ours, self._theirs = socket.socketpair()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="smcp-bus-watch", daemon=True)
        self._thread.start()

    def rearm(self) -> None:
        self._armed.set()

    def close(self) -> None:
        self._closing = True
        self._armed.set()
        self._ours.close()
        self._thread.join(1.0)
        self._theirs.close()

    def _run(self) -> None:
        while not self._closing:
            self._armed.wait()
            ready, _, _ = select.select([self._fd, self._theirs.fileno()], [], [])
            if self._closing or self._theirs.fileno() in ready:
                return
            self._armed.clear()
            with contextlib.suppress(RuntimeError):
                # The loop is closed: nobody is left to tell.
                self._loop.call_soon_threadsafe(self._callback)


def watch(fd: int, callback: Callable[[], None]) -> Watch:
    """Has `callback` called in the running loop whenever the descriptor fires."""
    loop = asyncio.get_running_loop()
    try:
        return LoopWatch(loop, fd, callback)
    except NotImplementedError:
        return ThreadWatch(loop, fd, callback)
