"""A server and its descendants in one job object of Windows, which ends all of them at once (R-MCP-26, F-35).

The server is created suspended, put into the job and only then let run, so nothing it starts can be outside.
The system ends the job when its only handle goes, which is ours: no launcher has to outlive us. What a
server means to leave running it starts with `CREATE_BREAKAWAY_FROM_JOB`, which the job permits.
Decides only; each call of the system is one of `Kernel`.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from ....wire.errors import StartupError
from .process_tree import GRACE, Pipe

JOB_LIMITS: Final = 0x2000 | 0x800
"""`JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE` and `JOB_OBJECT_LIMIT_BREAKAWAY_OK`."""
CREATION: Final = 0x4 | 0x200
"""`CREATE_SUSPENDED` and `CREATE_NEW_PROCESS_GROUP`. A console of its own is not among them: CTRL_BREAK reaches only
who shares ours."""
LEFTOVER_GRACE: Final = 0.5
"""Seconds for what a server left behind when it exited, asked to end, until it is killed."""
FINAL_WAIT: Final = 1.0
"""Seconds to wait for killed processes to disappear."""
LOOK: Final = 0.02
"""Seconds between two looks at who is left."""
KILL_BOUND: Final = FINAL_WAIT + 0.5
"""Seconds until a kill is reported done whatever is left."""
BATCH: Final = (".bat", ".cmd")
READ_BY_THE_INTERPRETER: Final = frozenset('"%&|<>^\r\n')
"""What the command interpreter, which runs a batch file, acts upon; no quoting keeps it from all of them."""


class Born(NamedTuple):
    """A process that has not run yet: handles of it and of its thread, its pid, our ends of its pipes."""

    process: int
    thread: int
    pid: int
    stdin: Pipe
    stdout: Pipe
    stderr: Pipe

    def close_pipes(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            with suppress(OSError):
                pipe.close()


class Kernel(Protocol):
    """The calls a tree is made of. Handles are numbers, to be closed; what cannot be done raises `OSError`."""

    def create_job(self) -> int: ...
    def limit_job(self, job: int, limits: int) -> None: ...
    def create_process(
        self, program: str, line: str, environment: Mapping[str, str], directory: str | None, flags: int
    ) -> Born:
        """`ValueError` for what no command line or environment can hold."""

    def assign(self, job: int, process: int) -> None: ...
    def resume(self, thread: int) -> None: ...
    def send_break(self, group: int) -> None:
        """CTRL_BREAK to a process group."""

    def members(self, job: int) -> int:
        """How many processes are in the job."""

    def terminate_job(self, job: int) -> None: ...
    def terminate_process(self, process: int) -> None: ...
    def wait(self, process: int) -> int:
        """Exit status of a process; blocks until it ends."""

    def close(self, handle: int) -> None: ...


class JobTrees:
    """Starts process trees of Windows; see `StartTree`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def __call__(
        self,
        command: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: str | None = None,
        *,
        grace: float = GRACE,
    ) -> JobTree:
        """Raises `StartupError`: `command_not_found`, `bad_directory`, `cannot_execute` or `job_object`."""
        program = _program(command, environment, directory)
        if Path(program).suffix.lower() in BATCH and not READ_BY_THE_INTERPRETER.isdisjoint("".join(arguments)):
            raise _cannot_execute(program, 'arguments of a batch file can hold none of " % & | < > ^ and no line break')
        try:
            job, born = self._begin(program, subprocess.list2cmdline([program, *arguments]), environment, directory)
        except OSError as error:
            message = f"{Path(program).name} cannot be kept in a job object"
            raise StartupError(message, code="job_object", causes=(str(error),)) from error
        return JobTree(self._kernel, job, born, grace)

    def _begin(
        self, program: str, line: str, environment: Mapping[str, str], directory: str | None
    ) -> tuple[int, Born]:
        kernel = self._kernel
        with ExitStack() as undo:
            job = kernel.create_job()
            undo.callback(kernel.close, job)
            kernel.limit_job(job, JOB_LIMITS)
            try:
                born = kernel.create_process(program, line, environment, directory, CREATION)
            except (OSError, ValueError) as error:
                raise _cannot_execute(program, str(error)) from error
            undo.callback(kernel.close, born.process)
            undo.callback(born.close_pipes)
            undo.callback(kernel.terminate_process, born.process)
            try:
                kernel.assign(job, born.process)
                kernel.resume(born.thread)
            finally:
                kernel.close(born.thread)
            undo.pop_all()
        return job, born


class JobTree:
    """A running server in its job; see `ProcessTree`."""

    guard = None

    def __init__(self, kernel: Kernel, job: int, born: Born, grace: float) -> None:
        self.pid = born.pid
        self.stdin, self.stdout, self.stderr = born.stdin, born.stdout, born.stderr
        self.close_pipes = born.close_pipes
        self._kernel, self._job, self._process, self._grace = kernel, job, born.process, grace
        self._open = True
        self._killed = False
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._watch, name=f"wait-{self.pid}", daemon=True).start()

    @property
    def returncode(self) -> int | None:
        return self.exited.result() if self.exited.done() and not self.exited.cancelled() else None

    async def stop(self) -> None:
        """The caller has closed stdin; CTRL_BREAK follows after the grace, the end of the job after another."""
        for step in (self._ask, self._end):
            if await self._gone(self._grace):
                return
            step()
        await self._gone(KILL_BOUND)

    async def kill(self) -> None:
        self._end()
        await self._gone(KILL_BOUND)

    def abandon(self) -> None:
        self._end()

    async def _gone(self, bound: float) -> bool:
        await asyncio.wait([self.exited], timeout=bound)
        return self.exited.done()

    def _ask(self) -> None:
        if self._open:
            with suppress(OSError):  # we have no console, hence none to share
                self._kernel.send_break(self.pid)

    def _end(self) -> None:
        self._killed = True
        if self._open:
            with suppress(OSError):
                self._kernel.terminate_job(self._job)

    # -- in a thread of its own, which alone may block -----------------------------------------

    def _watch(self) -> None:
        status = self._kernel.wait(self._process)
        if not self._killed and self._left():
            self._ask()
            self._wait_for_the_rest(LEFTOVER_GRACE)
        self._end()
        self._wait_for_the_rest(FINAL_WAIT)
        try:
            self._loop.call_soon_threadsafe(self._settle, status)
        except RuntimeError:  # the loop is closed: nobody is waiting any more
            self._release()

    def _wait_for_the_rest(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._left() and time.monotonic() < deadline:
            time.sleep(LOOK)

    def _left(self) -> bool:
        try:
            return self._kernel.members(self._job) > 0
        except OSError:
            return False

    # -- back in the loop ------------------------------------------------------------------

    def _settle(self, status: int) -> None:
        self._release()
        if not self.exited.done():
            self.exited.set_result(status)

    def _release(self) -> None:
        """Closes the handles; their numbers may be somebody else's from here on."""
        self._open = False
        for handle in (self._process, self._job):
            with suppress(OSError):
                self._kernel.close(handle)


def _program(command: str, environment: Mapping[str, str], directory: str | None) -> str:
    """Path of the command, found as the server's own environment has it; one with a folder, from `directory`."""
    if directory is not None and not Path(directory).is_dir():
        name = Path(command).name
        raise StartupError(f"working directory of {name} cannot be used", code="bad_directory", field="cwd")
    if directory is not None and Path(command).name != command:
        command = str(Path(directory, command))
    found = shutil.which(command, path=environment.get("PATH", ""))
    if found is None:
        name = Path(command).name
        raise StartupError(f"command not found: {name}", code="command_not_found", field="command")
    return found


def _cannot_execute(program: str, reason: str) -> StartupError:
    return StartupError(f"{Path(program).name} cannot be executed: {reason}", code="cannot_execute", field="command")
