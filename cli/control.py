"""The door for local questions to a running Computer: a Unix socket under its home that only its user can open.

One line of JSON in (`{"ask": "status"}`, `{"ask": "manage", "operation": …, "words": {…}}`), one line out. A question
with `"progress": true` gets lines of `{"progress": …}` before that one. Whoever hangs up calls the operation off. `smcp
computer run` opens the door, other commands ask there. It is a convenience: where it cannot be opened the Computer runs
without it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..wire.errors import ConfigValidationError, Failure, NetworkError, SmcpError, from_failure, to_failure
from ..wire.plain import plain
from .live import carry_out

if TYPE_CHECKING:
    from ..runtime import Computer

LINE_MAX = 64 * 1024 * 1024
QUESTION_LIMIT = 10.0
OPERATION_LIMIT = 340.0
"""Seconds for an operation; one that fetches has 120, and one that a person answers 330."""
WORDS_MAX = 1024 * 1024
PATH_MAX = 100
"""Bytes of a socket's path that every system takes."""

logger = logging.getLogger(__name__)

Progress = Callable[[Mapping[str, Any]], None]
"""Takes what an operation is at: `what`, `step` and, of a fetch, the `size` so far in bytes."""


class Question(msgspec.Struct):
    """What is asked."""

    ask: str
    operation: str = ""
    words: dict[str, Any] = {}
    progress: bool = False


@asynccontextmanager
async def open_door(computer: Computer) -> AsyncIterator[None]:
    """Answers questions about this Computer while the context is open."""
    path = door(computer.home, computer.name)
    try:
        server = await _listen(computer, path)
    except OSError as error:
        logger.warning("there will be no status of %s: %s", computer.name, error.strerror or error)
        yield
        return
    try:
        yield
    finally:
        server.close()
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()  # stays while another Computer has its door there


async def managed(path: Path, operation: str, words: Mapping[str, Any], progress: Progress | None = None) -> Any:
    """What a running Computer made of an operation.

    Args:
        progress: Told what the Computer is at meanwhile.
    Raises:
        NetworkError: Nobody answers there.
        SmcpError: What it failed with.
    """
    asked = Question("manage", operation, dict(words), progress is not None)
    answer = await _asked(path, asked, OPERATION_LIMIT, progress)
    if "failed" in answer:
        raise from_failure(msgspec.convert(answer["failed"], Failure))
    return answer["done"]


class Door(NamedTuple):
    """Where a running Computer is asked, and the project it works in."""

    path: Path
    project: str


async def doors(home: Path) -> dict[str, Door]:
    """The Computers that run on a home, by name."""
    found = {}
    for path in sorted(door(home, "").parent.glob("*.sock")):
        with suppress(NetworkError):
            answer = await _asked(path, Question("manage", "identify"), QUESTION_LIMIT)
            found[str(answer["done"]["name"])] = Door(path, str(answer["done"]["project"]))
    return found


async def question(home: Path, name: str, ask: str) -> Any:
    """The answer of a running Computer, as JSON values.

    Raises:
        NetworkError: None of this name runs on that home, or it does not answer.
    """
    try:
        return await _asked(door(home, name), Question(ask), QUESTION_LIMIT)
    except NetworkError:
        raise NetworkError(f"no Computer {name} runs on {home}", code="not_running") from None


async def _asked(path: Path, asked: Question, limit: float, progress: Progress | None = None) -> Any:
    line = msgspec.json.encode(asked) + b"\n"
    if len(line) > WORDS_MAX:
        raise ConfigValidationError(f"what was given is longer than {WORDS_MAX // 1024} KiB", code="too_large")
    try:
        _check_private(path.parent)
        async with asyncio.timeout(limit):
            reader, writer = await asyncio.open_unix_connection(path, limit=LINE_MAX)
            try:
                writer.write(line)
                while True:
                    answer = msgspec.json.decode(await reader.readline())
                    if not isinstance(answer, dict) or "progress" not in answer:
                        return answer
                    if progress is not None:
                        progress(answer["progress"])
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
        raise NetworkError("nobody answers there", code="not_running") from error


def door(home: Path, name: str) -> Path:
    """Where the Computer of this name is asked: under its home, or elsewhere if that path is too long for a socket."""
    file = hashlib.sha256(name.encode()).hexdigest()[:12] + ".sock"
    folder = home / ".run"
    if len(os.fsencode(folder / file)) <= PATH_MAX:
        return folder / file
    short = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"smcp-{os.getuid()}-{short}" / file


async def _listen(computer: Computer, path: Path) -> asyncio.Server:
    _prepare(path.parent)
    if await _is_answered(path):
        raise OSError("a Computer of this name runs already")
    return await asyncio.start_unix_server(lambda *ends: _answer(computer, *ends), sock=_bound(path), limit=WORDS_MAX)


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _check_private(folder)


def _check_private(folder: Path) -> None:
    """Refuses a folder that others made or may look into: what is said at a door there they could hear.

    Raises:
        OSError: It is no such directory, or there is none.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise OSError(f"{folder} is open to others")


def _bound(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # of a Computer that was killed
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
        path.chmod(0o600)
    except OSError:
        bound.close()
        raise
    return bound


async def _is_answered(path: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True


async def _answer(computer: Computer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(QUESTION_LIMIT):
            asked = msgspec.json.decode(await reader.readline(), type=Question)
        async with asyncio.timeout(OPERATION_LIMIT if asked.ask == "manage" else QUESTION_LIMIT):
            if asked.ask == "status":
                writer.write(msgspec.json.encode(plain(await computer.diagnostics())) + b"\n")
            elif asked.ask == "manage":
                writer.write(msgspec.json.encode(await _unless_gone(computer, asked, reader, writer)) + b"\n")
            await writer.drain()
    except (OSError, ValueError, TimeoutError) as error:
        logger.info("a local question was not answered: %s", type(error).__name__)
    finally:
        writer.close()


async def _unless_gone(
    computer: Computer, asked: Question, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> dict[str, Any]:
    """Carries an operation out while somebody waits for it.

    Raises:
        ConnectionError: Whoever asked hung up; the operation is called off.
    """
    work = asyncio.ensure_future(_carried_out(computer, asked, writer))
    gone = asyncio.ensure_future(reader.read())
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise ConnectionAbortedError
    finally:
        for task in (work, gone):
            task.cancel()
        await asyncio.wait((work, gone))


async def _carried_out(computer: Computer, asked: Question, writer: asyncio.StreamWriter) -> dict[str, Any]:
    def tell(step: Mapping[str, Any]) -> None:
        # What a client is too slow to read is not kept for it.
        if writer.transport.get_write_buffer_size() < WORDS_MAX:
            writer.write(msgspec.json.encode({"progress": step}) + b"\n")

    try:
        if not asked.progress:
            return {"done": await carry_out(computer, asked.operation, asked.words)}
        async with computer.progress(lambda fact: tell(plain(fact))):
            return {"done": await carry_out(computer, asked.operation, asked.words)}
    except SmcpError as error:
        return {"failed": to_failure(error)}
    except Exception as error:
        # Of words that fit no operation, or of a defect of ours; whoever asked is told that much.
        logger.error("the operation %s failed: %s", asked.operation[:80], type(error).__name__)
        return {"failed": to_failure(error)}
