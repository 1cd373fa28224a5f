"""Runs scripts in processes of their own: one that takes long holds up nobody, and ends when its time is over.

The engine holds the interpreter's lock while it runs, so a thread would stop the whole Computer. A
process is started when the first script is known, kept for the next run, and killed when a run
does not end in time or is cancelled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from . import vrl
from .script_run import READY, SIZE, ScriptAnswer, ScriptRun

LARGEST = 256 * 1024 * 1024
"""Bytes of an answer."""
END_LIMIT = 2.0
"""Seconds for a killed process to be gone."""

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(ScriptAnswer).decode


class ScriptHost:
    """The processes of one actor, at most `most` at a time; they end with the tasks that `begin` starts."""

    def __init__(self, most: int) -> None:
        self._places = anyio.CapacityLimiter(most)
        self._idle: list[_Worker] = []
        self._has_begun = False

    def begin(self, start_soon: Callable[..., object]) -> None:
        """Has a process made ready, once, so that the first run need not wait for one.

        Args:
            start_soon: Starts a task of whoever the scripts belong to.
        """
        if not self._has_begun:
            self._has_begun = True
            start_soon(self._keep, name="scripts")
            start_soon(self._warm, name="first script process")

    async def _keep(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            idle, self._idle = self._idle, []
            with anyio.CancelScope(shield=True):
                for worker in idle:
                    await worker.end()

    async def _warm(self) -> None:
        with suppress(vrl.ScriptFailed):  # the first run says so
            async with self._worker():
                pass

    async def run(self, wanted: ScriptRun, limit: float) -> str:
        """The final event of a script as JSON text.

        Args:
            limit: Seconds for the script itself; the caller bounds the wait for a process.
        Raises:
            ScriptFailed: It aborted, or its process ended.
            EngineMissing: There is no engine.
            TimeoutError: It took longer.
        """
        async with self._worker() as worker:
            with anyio.fail_after(limit):
                answer = await worker.ask(wanted)
        if answer.failure == vrl.EngineMissing.__name__:
            raise vrl.EngineMissing
        if answer.failure is not None:
            raise vrl.ScriptFailed(answer.failure)
        return answer.event

    @asynccontextmanager
    async def _worker(self) -> AsyncIterator[_Worker]:
        """A process for one run; it goes back only when the run has ended."""
        async with self._places:
            worker = self._idle.pop() if self._idle else await _Worker.start()
            try:
                yield worker
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await worker.end()
                raise
            self._idle.append(worker)


class _Worker:
    """One process and its pipes."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._process = process
        self._answers = BufferedByteReceiveStream(process.stdout)

    @classmethod
    async def start(cls) -> _Worker:
        """A process that is ready to run scripts.

        Raises:
            ScriptFailed: It could not be started.
        """
        command = [sys.executable, "-m", f"{__package__}.script_worker", str(os.getpid())]
        # Nothing of our environment but what an interpreter needs: a script is somebody else's code.
        environ = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environ |= {name: os.environ[name] for name in ("TZ", "SYSTEMROOT") if name in os.environ}
        try:
            process = await anyio.open_process(
                command, stderr=subprocess.DEVNULL, env=environ, start_new_session=os.name == "posix"
            )
        except OSError as error:
            raise vrl.ScriptFailed(type(error).__name__) from None
        worker = cls(process)
        try:
            await worker._receive(len(READY))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await worker.end()
            raise
        return worker

    async def ask(self, wanted: ScriptRun) -> ScriptAnswer:
        """Runs one script to its end. Raises `ScriptFailed` when the process ends first."""
        assert self._process.stdin is not None
        body = _encode(wanted)
        try:
            await self._process.stdin.send(SIZE.pack(len(body)) + body)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise vrl.ScriptFailed("ended") from None
        (size,) = SIZE.unpack(await self._receive(SIZE.size))
        if size > LARGEST:
            raise vrl.ScriptFailed("too_large")
        return _decode(await self._receive(size))

    async def end(self) -> None:
        """Ends it without ceremony."""
        with anyio.move_on_after(END_LIMIT):
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:  # to its end, which is where an event loop lets go of the pipe
                    await self._answers.receive()
            await self._process.aclose()

    async def _receive(self, size: int) -> bytes:
        try:
            return await self._answers.receive_exactly(size)
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise vrl.ScriptFailed("ended") from None
