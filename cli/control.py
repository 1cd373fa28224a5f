"""The door for local questions to a running Computer: a Unix socket only its user can open.

One line of JSON in (`{"ask": "status"}`, `{"ask": "manage", "operation": …, "words": {…}}`), one line out. `smcp
computer run` opens it, other commands ask there. It is a convenience: where it cannot be opened the Computer runs
without it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ..actors.reconcile import directories
from ..actors.reconcile.options import RuntimeOptions
from ..runtime import Computer
from ..wire.errors import Failure, NetworkError, SmcpError, from_failure, to_failure
from ..wire.plain import plain
from .live import carry_out

LINE_MAX = 64 * 1024 * 1024
QUESTION_LIMIT = 10.0
OPERATION_LIMIT = 340.0
"""Seconds for an operation; one that fetches has 120, and one that a person answers 330."""
WORDS_MAX = 1024 * 1024
PATH_MAX = 100
"""Bytes of a socket's path that every system takes."""

logger = logging.getLogger(__name__)


class Question(msgspec.Struct):
    """What is asked."""

    ask: str
    operation: str = ""
    words: dict[str, Any] = {}


@asynccontextmanager
async def open_door(computer: Computer) -> AsyncIterator[None]:
    """Answers questions about this Computer while the context is open."""
    path = door(computer.name)
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


async def managed(path: Path, operation: str, words: Mapping[str, Any]) -> Any:
    """What a running Computer made of an operation.

    Raises:
        NetworkError: Nobody answers there.
        SmcpError: What it failed with.
    """
    answer = await _asked(path, Question("manage", operation, dict(words)), OPERATION_LIMIT)
    if "failed" in answer:
        raise from_failure(msgspec.convert(answer["failed"], Failure))
    return answer["done"]


async def doors(home: Path) -> dict[str, Path]:
    """The Computers that run on a home, by name: where each is asked."""
    found = {}
    for path in sorted(door("").parent.glob("*.sock")):
        try:
            answer = await _asked(path, Question("manage", "identify"), QUESTION_LIMIT)
        except NetworkError:
            continue
        done = answer.get("done") or {}
        if done.get("home") == str(home):
            found[str(done["name"])] = path
    return found


async def question(name: str, ask: str) -> Any:
    """The answer of a running Computer, as JSON values.

    Raises:
        NetworkError: None of this name runs here, or it does not answer.
    """
    try:
        return await _asked(door(name), Question(ask), QUESTION_LIMIT)
    except NetworkError:
        raise NetworkError(f"no Computer {name} answers on this machine", code="not_running") from None


async def _asked(path: Path, asked: Question, limit: float) -> Any:
    try:
        async with asyncio.timeout(limit):
            reader, writer = await asyncio.open_unix_connection(path, limit=LINE_MAX)
            try:
                writer.write(msgspec.json.encode(asked) + b"\n")
                return msgspec.json.decode(await reader.readline())
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, msgspec.DecodeError) as error:
        raise NetworkError("nobody answers there", code="not_running") from error


def door(name: str) -> Path:
    """Where the Computer of this name is asked; a place of fixed length, because a socket's path may not be long."""
    file = hashlib.sha256(name.encode()).hexdigest()[:12] + ".sock"
    folder = directories.resolve(RuntimeOptions()).state / "run"
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
    owner = folder.stat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o077:
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
                writer.write(msgspec.json.encode(await _carried_out(computer, asked)) + b"\n")
            await writer.drain()
    except (OSError, ValueError, TimeoutError) as error:
        logger.info("a local question was not answered: %s", type(error).__name__)
    finally:
        writer.close()


async def _carried_out(computer: Computer, asked: Question) -> dict[str, Any]:
    try:
        return {"done": await carry_out(computer, asked.operation, asked.words)}
    except SmcpError as error:
        return {"failed": to_failure(error)}
