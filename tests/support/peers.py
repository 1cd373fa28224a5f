"""Peers in processes of their own: started, read line by line, and gone for certain when the test ends.

Used through the `peers` fixture: ``peer = peers.start([...])``, then ``await peer.line(r"ready url=(\\S+)")``.
Reading happens in threads, so a peer can never block on a full pipe, and the same object serves asyncio,
trio and plain tests. Waiting ends at once when the peer exits without having said what was waited for.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

import anyio.to_thread
import psutil

from .alive import alive

LEASH = Path(__file__).with_name("leash.py")


class PeerSilent(AssertionError):
    """A peer did not say, or do, in time what the test waited for. Shows all that it did say."""


class Peer:
    """One process and its descendants.

    Attributes:
        lines: Lines of stdout so far, without their ends.
        errors: Lines of stderr so far.
    """

    def __init__(self, command: Sequence[str | Path], *, env: Mapping[str, str] | None, cwd: Path | None) -> None:
        self.command = [str(word) for word in command]
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *self.command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
        self.pid = self._process.pid
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, into), daemon=True)
            for pipe, into in ((self._process.stdout, self.lines), (self._process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    # --- what it says ---

    async def line(self, pattern: str, *, timeout: float = 10.0, of: str = "lines") -> re.Match[str]:
        """The first line of stdout (`of="errors"`: of stderr) that matches, waited for at most `timeout` seconds.

        Raises:
            PeerSilent: No line came in time, or the peer ended before.
        """
        return await anyio.to_thread.run_sync(lambda: self.wait_line(pattern, timeout=timeout, of=of))

    def wait_line(self, pattern: str, *, timeout: float = 10.0, of: str = "lines") -> re.Match[str]:
        """`line` for tests without an event loop."""
        said: list[str] = getattr(self, of)
        end = time.monotonic() + timeout
        seen = 0
        with self._news:
            while True:
                for line in said[seen:]:
                    if found := re.search(pattern, line):
                        return found
                seen = len(said)
                if not any(reader.is_alive() for reader in self._readers):
                    raise PeerSilent(f"{self!r} ended with {self._ended()} before {pattern!r}\n{self._said()}")
                if time.monotonic() >= end:
                    raise PeerSilent(f"{self!r} said no {pattern!r} in {timeout:g} s\n{self._said()}")
                self._news.wait(min(0.2, max(end - time.monotonic(), 0.0)))

    def send(self, line: str) -> None:
        """A line to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close_stdin(self) -> None:
        """End of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    # --- how it ends ---

    @property
    def status(self) -> int | None:
        """Exit status (negative: the signal), or None while it runs."""
        return self._process.poll()

    async def exit(self, *, timeout: float = 10.0) -> int:
        """Exit status, waited for at most `timeout` seconds; both outputs are complete after it.

        Raises:
            PeerSilent: It still runs.
        """
        return await anyio.to_thread.run_sync(lambda: self.wait_exit(timeout=timeout))

    def wait_exit(self, *, timeout: float = 10.0) -> int:
        """`exit` for tests without an event loop."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise PeerSilent(f"{self!r} still runs after {timeout:g} s\n{self._said()}") from None
        for reader in self._readers:
            reader.join(1.0)  # a descendant may keep the pipe
        return status

    def signal(self, number: int) -> None:
        """Sends a signal to the process alone."""
        self._process.send_signal(number)

    def descendants(self) -> list[psutil.Process]:
        """Its living children, their children and so on."""
        try:
            return alive(psutil.Process(self.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return []

    def stop(self, *, grace: float = 3.0) -> int:
        """SIGTERM, then after `grace` seconds SIGKILL for it and everything that it started. Never fails."""
        family = self.descendants()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.terminate()
            self._process.wait(grace)
        self.kill(family)
        return self._process.wait(5)

    def kill(self, family: Sequence[psutil.Process] = ()) -> None:
        """SIGKILL at once for it, its process group and its descendants."""
        descendants = self.descendants()
        self._process.kill()  # first: it shall not see its children die
        for process in {*family, *descendants}:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()  # compares the creation time first, so a reused pid is safe
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(5)

    def close(self) -> None:
        """Stops it and lets go of its pipes."""
        self.stop(grace=1.0)
        for reader in self._readers:
            reader.join(2.0)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()

    def _read(self, pipe: IO[str], into: list[str]) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in pipe:
                with self._news:
                    into.append(line.rstrip("\r\n"))
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _ended(self) -> int | None:
        """Exit status; the pipes may close a moment before the process is gone, or long before it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1.0)
        return None

    def _said(self) -> str:
        return "\n".join(["stdout:", *self.lines[-40:], "stderr:", *self.errors[-40:]])

    def __repr__(self) -> str:
        return f"<peer {self.pid}: {' '.join(self.command)}>"


class Peers:
    """All peers of one test; leaving it ends every one of them, newest first."""

    def __init__(self) -> None:
        self._started: list[Peer] = []

    def start(
        self, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Peer:
        """Starts a command. `env` replaces the environment; stdin, stdout and stderr are pipes."""
        peer = Peer(command, env=env, cwd=cwd)
        self._started.append(peer)
        return peer

    def python(self, *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Peer:
        """Starts the running interpreter, for example with ``"-m", "smcp_runtime.cli.main", "server"``."""
        return self.start([sys.executable, *arguments], env=env, cwd=cwd)

    def end(self, peer: Peer) -> None:
        """Ends one of them now."""
        self._started.remove(peer)
        peer.close()

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        while self._started:
            self._started.pop().close()
