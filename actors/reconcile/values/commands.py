"""Command inputs: the output of a command, run once for each start that refers to it (R-INPUT-4, R-SEC-12).

The command sees the safe environment only, gets `LIMIT` seconds and says nothing but its
standard output; what it printed is a secret to everybody else. Nothing of its process group outlives it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

import anyio
from anyio.abc import Process
from msgspec import UNSET

from ....wire.inputs import CommandInput
from ...mcp.transports.environment import child_environment
from ..rendering.resolution import SourceFailed, ValueRequest

LIMIT = 30.0
"""Seconds."""
MOST_OUTPUT = 256 * 1024
"""Bytes of output that are read; more is no value."""
_IS_WINDOWS = os.name == "nt"


def command_line(definition: CommandInput) -> str:
    """The line for the platform's shell: the command, then each argument's name and value, quoted."""
    words: list[str] = []
    if definition.args is not UNSET and definition.args is not None:
        for name, value in definition.args.items():
            words.extend(word for word in (name, value) if word)
    quoted = subprocess.list2cmdline(words) if _IS_WINDOWS else shlex.join(words)
    return f"{definition.command} {quoted}" if quoted else definition.command


class CommandSource:
    """Runs the commands of inputs.

    Args:
        directory: Where they run.
        environ: What the safe part of their environment is taken from.
        limit: Seconds for each.
    """

    def __init__(self, directory: str, environ: Mapping[str, str], limit: float = LIMIT) -> None:
        self._directory = directory
        self._environ = environ
        self._limit = limit

    async def find(self, request: ValueRequest) -> object | None:
        """See `ValueSource`. Raises `SourceFailed`, which never quotes what the command said."""
        if not isinstance(request.definition, CommandInput):
            return None
        try:
            with anyio.fail_after(self._limit):
                return await self._run(command_line(request.definition))
        except TimeoutError:
            raise SourceFailed(f"its command took longer than {self._limit:g} s") from None
        except OSError as error:
            raise SourceFailed(f"its command could not be started: {error.strerror}") from None

    async def _run(self, line: str) -> str:
        # It waits for some turns of the loop and for nobody else; given up half-way, only the shell would be ended.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                line,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._directory,
                env=child_environment(self._environ, {}, windows=_IS_WINDOWS),
                start_new_session=not _IS_WINDOWS,
            )
        try:
            output = await _read(process)
            status = await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                _kill_group(process)
                await process.wait()
                await process.aclose()
        if status != 0:
            raise SourceFailed(f"its command ended with status {status}")
        try:
            return output.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise SourceFailed("its command printed no UTF-8") from None


async def _read(process: Process) -> bytes:
    assert process.stdout is not None
    output = bytearray()
    async for chunk in process.stdout:
        output += chunk
        if len(output) > MOST_OUTPUT:
            raise SourceFailed(f"its command printed more than {MOST_OUTPUT // 1024} KiB")
    return bytes(output)


def _kill_group(process: Process) -> None:
    """Ends the shell and all it started, even when it ended before them; a group that is gone already is fine."""
    with suppress(ProcessLookupError, PermissionError):
        if _IS_WINDOWS:
            process.kill()
        elif process.returncode is None or not _exists(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def _exists(pid: int) -> bool:
    """Whether a process has this number.

    No new process gets the number of a group that has members. So one with the number of a shell that ended means that
    nothing of its group is left, and that the group of this number is somebody else's.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
