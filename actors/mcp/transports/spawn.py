"""Starts a server's process tree on POSIX through the launcher and ends all of it again within a bound (R-MCP-26).

The launcher (`launcher.py`) is the direct child; it stands between us and the server so that the
tree ends even when this process is killed hard. What is waited for is a process, never a pipe that
a grandchild may hold open (F-33).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import anyio

from ....wire.errors import StartupError
from .exit_watch import watch_exit
from .leftovers import kill_members
from .process_tree import GRACE

LAUNCHER = Path(__file__).with_name("launcher.py")
STOP_BOUND = 4.7
"""Seconds after which a launcher that did not finish is killed together with the server's group."""
LEFTOVERS_LOOK, LEFTOVERS_BOUND = 0.02, 1.0
"""Seconds between two looks for what a launcher left behind, and after which only what the kernel holds is left."""


class ServerProcess:
    """A running server, its launcher and its three pipes.

    Attributes:
        pid: Of the server itself, which leads a process group of that number.
        guard: Pid of the launcher, which leads the session.
        stdin, stdout, stderr: Our ends of the pipes, unbuffered; whoever connects them to the loop closes them.
        exited: Resolves to the exit status once the server and all it left behind are gone; negative for a signal.
    """

    def __init__(self, launched: subprocess.Popen[bytes], control: socket.socket) -> None:
        assert launched.stdin is not None
        assert launched.stdout is not None
        assert launched.stderr is not None
        self.pid = 0
        self.guard = launched.pid
        self.stdin: IO[bytes] = launched.stdin
        self.stdout: IO[bytes] = launched.stdout
        self.stderr: IO[bytes] = launched.stderr
        self._launched = launched
        self._control = control
        self._ordering = False
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        watch_exit(launched, self._settle)

    @property
    def returncode(self) -> int | None:
        """Exit status, `None` while it runs."""
        return self.exited.result() if self.exited.done() and not self.exited.cancelled() else None

    async def stop(self) -> None:
        """Ends the tree: the caller has closed stdin, SIGTERM follows after the grace, SIGKILL after another."""
        self._tell(b"s")
        await self._gone(STOP_BOUND)

    async def kill(self) -> None:
        """Ends the tree without grace."""
        self._tell(b"k")
        await self._gone(1.5)

    def abandon(self) -> None:
        """Tells the launcher to end the tree and waits for nothing; for use where waiting is not possible."""
        self._tell(b"k")
        self._control.close()

    async def _gone(self, bound: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.exited), bound)
        if not self.exited.done():
            for group in filter(None, (self.pid, self.guard)):
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
            await asyncio.wait([self.exited], timeout=0.5)
            self._control.close()

    def _tell(self, order: bytes) -> None:
        with suppress(OSError):
            self._control.send(order)

    async def order(self, order: bytes) -> bytes:
        """Hands the launcher its order; the line it answers with, empty when it ended first."""
        self._ordering = True
        try:
            await self._loop.sock_sendall(self._control, order)
            return (await self._loop.sock_recv(self._control, 64)).rstrip()
        except OSError:
            return b""
        finally:
            self._ordering = False
            if self.exited.done():
                self._control.close()

    def close_pipes(self) -> None:
        """Closes our ends of pipes that were never connected to the loop."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                pipe.close()

    def _settle(self, status: int) -> None:
        if not self._ordering:
            # While the loop still watches it, its number must not pass to another's socket, which nobody would watch.
            self._control.close()
        self._clear(status, self._loop.time() + LEFTOVERS_BOUND)

    def _clear(self, status: int, give_up: float) -> None:
        """Tells the exit status once nothing of the tree is left.

        Launchers that end in order leave nothing. A signal may have ended the launcher rather than the server.
        """
        if status < 0 and kill_members(self.guard) and self._loop.time() < give_up:
            self._loop.call_later(LEFTOVERS_LOOK, self._clear, status, give_up)
        elif not self.exited.done():
            self.exited.set_result(status)


async def spawn(
    command: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: str | None = None,
    *,
    grace: float = GRACE,
) -> ServerProcess:
    """Starts a server; it has begun to execute its command when this returns.

    Args:
        command: Looked up in the `PATH` of `environment`.
        environment: The whole environment of the server.
        directory: Working directory, ours when `None`.
        grace: Seconds of the stop ladder, see `GRACE`.
    Raises:
        StartupError: `command_not_found`, `bad_directory` or `cannot_execute`.
    """
    order = _order(command, arguments, environment, directory, grace)
    ours, theirs = socket.socketpair()
    try:
        launched = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own waits for exits in ways that differ by loop
            [sys.executable, "-I", "-S", str(LAUNCHER), str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            env={},
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise StartupError("the launcher cannot be started", code="launcher", causes=(str(error),)) from error
    finally:
        theirs.close()
    ours.setblocking(False)
    process = ServerProcess(launched, ours)
    try:
        answer = await process.order(order)
        if not answer.startswith(b"P "):
            raise _refusal(command, answer)
        process.pid = int(answer[2:])
    except BaseException:
        process.close_pipes()
        with anyio.CancelScope(shield=True):
            await process.kill()
        raise
    return process


def _order(
    command: str, arguments: Sequence[str], environment: Mapping[str, str], directory: str | None, grace: float
) -> bytes:
    fields = [str(os.getpid()), str(int(grace * 1000)), directory or "", str(1 + len(arguments)), command, *arguments]
    fields += [f"{name}={value}" for name, value in environment.items()]
    if any("\0" in field for field in fields):
        raise StartupError("a NUL character in command, arguments or environment", code="cannot_execute")
    body = b"\0".join(os.fsencode(field) for field in fields)
    return len(body).to_bytes(4, "big") + body


def _refusal(command: str, answer: bytes) -> StartupError:
    kind, _, number = answer.decode("ascii", "replace").partition(" ")
    reason = os.strerror(int(number)) if number.isdigit() else "the launcher ended early"
    name = Path(command).name
    if kind == "D":
        return StartupError(f"working directory of {name} cannot be used: {reason}", code="bad_directory", field="cwd")
    if reason == os.strerror(2):
        return StartupError(f"command not found: {name}", code="command_not_found", field="command")
    return StartupError(f"{name} cannot be executed: {reason}", code="cannot_execute", field="command")
