"""Hears of the end of a child process and collects it, without a thread where the system has process descriptors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress


def watch_exit(launched: subprocess.Popen[bytes], settle: Callable[[int], None]) -> None:
    """Calls `settle` in this event loop with the exit status, once; a negative one names the signal.

    asyncio's own child watchers differ by loop.
    """
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(launched.pid)
    except (AttributeError, OSError):

        def wait() -> None:
            status = launched.wait()
            with suppress(RuntimeError):  # the loop is closed: nobody is waiting any more
                loop.call_soon_threadsafe(settle, status)

        threading.Thread(target=wait, name=f"wait-{launched.pid}", daemon=True).start()
        return

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        settle(launched.wait())

    loop.add_reader(descriptor, ended)
