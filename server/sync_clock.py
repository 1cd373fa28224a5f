"""Timers for a Server without an event loop: one thread that runs short functions at their time."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)


class Timer:
    """A function that will run, unless it is cancelled before."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function

    def cancel(self) -> None:
        """Makes the clock pass over it."""
        self._function = None

    def run(self) -> None:
        """Runs the function, once."""
        function, self._function = self._function, None
        if function is not None:
            function()


class Clock:
    """Runs functions at their time; they must not wait for anything but a lock held briefly."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def now(self) -> float:
        """Seconds on the clock the times refer to."""
        return time.monotonic()

    def call_at(self, at: float, function: Callable[[], None]) -> Timer:
        """Runs a function at a moment; nothing runs after `stop`."""
        timer = Timer(function)
        with self._changed:
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(target=self._run, name="smcp-server-clock", daemon=True)
                self._thread.start()
            heapq.heappush(self._heap, (at, next(self._order), timer))
            self._changed.notify()
        return timer

    def call_later(self, seconds: float, function: Callable[[], None]) -> Timer:
        """Runs a function after some time."""
        return self.call_at(self.now() + seconds, function)

    def stop(self) -> None:
        """Ends the thread; a function that runs is waited for."""
        with self._changed:
            self._stopped = True
            self._heap.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (timer := self._next()) is not None:
            try:
                timer.run()
            except Exception:  # one broken timer must not stop the others
                _log.exception("a timer failed")

    def _next(self) -> Timer | None:
        with self._changed:
            while not self._stopped:
                wait = self._heap[0][0] - self.now() if self._heap else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(wait)
        return None
