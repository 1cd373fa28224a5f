"""A worker process of ours: started with its papers on an inherited socket, ended in order or killed with its group.

Its environment is a base that holds no secret of the Computer (R-SEC-12): what interpreters,
TLS and proxies need, and what servers get anyway.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import anyio

from ...wire.errors import StartupError
from ..mcp.transports.environment import POSIX_BASE
from ..mcp.transports.exit_watch import watch_exit
from . import papers as paperwork
from .papers import Papers

MODULE = f"{__package__}.spawned"
KILL_LIMIT = 2.0
"""Seconds for a killed process to disappear; only one stuck in the kernel takes longer."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
NAMES = frozenset(
    (*POSIX_BASE, *PROXIES, *map(str.lower, PROXIES), "LANG", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "XDG_RUNTIME_DIR")
)
PREFIXES = ("LC_", "PYTHON", "SSL_CERT_")


class WorkerProcess:
    """A running worker.

    Attributes:
        bus: Our end of the pair it speaks on; whoever takes it over closes it.
        pid: Leader of its process group and session.
        status: How it ended, `None` while it runs; negative for a signal.
    """

    def __init__(
        self,
        launched: subprocess.Popen[bytes],
        control: socket.socket,
        bus: socket.socket,
        on_exit: Callable[[], None],
    ) -> None:
        self.bus = bus
        self.pid = launched.pid
        self.status: int | None = None
        self._last_words = ""
        self._control = control
        self._on_exit = on_exit
        self._exited = anyio.Event()
        watch_exit(launched, self._settle)

    @classmethod
    async def start(cls, papers: Papers, environment: Mapping[str, str], on_exit: Callable[[], None]) -> WorkerProcess:
        """Starts a worker and hands it its papers.

        Raises:
            StartupError: The interpreter cannot be started.
        """
        ours, theirs = socket.socketpair()
        bus, their_bus = socket.socketpair()
        passed = (theirs.fileno(), their_bus.fileno())
        try:
            launched = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own waits for exits in ways that differ by loop
                [sys.executable, "-P", "-m", MODULE, *map(str, passed)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=passed,
                env=worker_environment(environment),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            bus.close()
            raise StartupError("a worker cannot be started", code="worker", causes=(str(error),)) from error
        finally:
            theirs.close()
            their_bus.close()
        ours.setblocking(False)
        process = cls(launched, ours, bus, on_exit)
        try:
            # Papers are smaller than what a socket holds, so this does not wait for the worker.
            await asyncio.get_running_loop().sock_sendall(ours, paperwork.write(papers))
        except OSError:
            pass  # it has ended already, which is noticed anyway
        except BaseException:
            process.kill()
            raise
        return process

    def ask_to_stop(self) -> None:
        """Asks for a graceful end."""
        with suppress(OSError):
            self._control.send(paperwork.STOP)

    def kill(self) -> None:
        """Kills it and its group on the spot."""
        if self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kills it unless it has ended, and waits until it is collected."""
        self.kill()
        with anyio.move_on_after(KILL_LIMIT):
            await self._exited.wait()
        self._control.close()

    def how(self) -> str:
        """How it ended, for people."""
        status = self.status
        if status is None:
            return "its worker runs"
        if self._last_words:
            return self._last_words
        if status < 0:
            with suppress(ValueError):
                return f"its worker was ended by {signal.Signals(-status).name}"
        return f"its worker exited with status {status}"

    def _settle(self, status: int) -> None:
        self.status = status
        with suppress(OSError):
            self._last_words = self._control.recv(paperwork.WORDS_MAX).decode("utf-8", "replace")
        self._exited.set()
        self._on_exit()


def worker_environment(host: Mapping[str, str]) -> dict[str, str]:
    """The part of our environment a worker gets."""
    return {name: value for name, value in host.items() if name in NAMES or name.startswith(PREFIXES)}
