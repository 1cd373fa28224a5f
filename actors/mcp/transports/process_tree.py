"""What a stdio connection needs of the process tree behind it, whatever the system makes one of.

On POSIX systems a launcher keeps the tree together (`spawn.py`), on Windows a job object does (`job_tree.py`);
`system.py` chooses. Either way the end of a tree is the end of everything in it, and it ends with us (R-MCP-26, F-35).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

GRACE = 2.0
"""Seconds between closing stdin and asking the server to end, and again until its tree is killed."""


class Pipe(Protocol):
    """Our end of a pipe, in the form in which the event loop of the system takes it."""

    def fileno(self) -> int: ...
    def close(self) -> None: ...


class ProcessTree(Protocol):
    """A running server with everything it starts.

    Attributes:
        pid: Of the server itself.
        guard: Pid of the process that keeps the tree together, which a later start may have to end too (DEC-8);
            `None` where the system itself does that and nothing can be left behind.
        stdin, stdout, stderr: Whoever connects them to the loop closes them.
        exited: Resolves to the exit status once the server and all it left behind are gone.
        returncode: Exit status, `None` while it runs.
    """

    @property
    def pid(self) -> int: ...
    @property
    def guard(self) -> int | None: ...
    @property
    def stdin(self) -> Pipe: ...
    @property
    def stdout(self) -> Pipe: ...
    @property
    def stderr(self) -> Pipe: ...
    @property
    def exited(self) -> asyncio.Future[int]: ...
    @property
    def returncode(self) -> int | None: ...

    async def stop(self) -> None:
        """Ends the tree politely: the caller has closed stdin, a request follows after the grace, then the kill."""

    async def kill(self) -> None:
        """Ends the tree without grace."""

    def abandon(self) -> None:
        """Has the tree ended and waits for nothing; for use where waiting is not possible."""

    def close_pipes(self) -> None:
        """Closes our ends of pipes that were never connected to the loop."""


class StartTree(Protocol):
    """Starts a server; it has begun to execute its command when this returns.

    Args:
        command: Looked up in the `PATH` of `environment`.
        environment: The whole environment of the server.
        directory: Working directory, ours when `None`.
        grace: Seconds of the stop ladder, see `GRACE`.
    Raises:
        StartupError: The command cannot be run, or its tree not be kept together.
    """

    async def __call__(
        self,
        command: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: str | None = None,
        *,
        grace: float = GRACE,
    ) -> ProcessTree: ...
