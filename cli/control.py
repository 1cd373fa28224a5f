"""The door for local questions to a running Computer: a Unix socket only its user can open.

One line of JSON in (`{"ask": "status"}`), one line out. `smcp computer run` opens it, other
commands ask there. It is a convenience: where it cannot be opened the Computer runs without it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ..actors.reconcile import directories
from ..actors.reconcile.options import RuntimeOptions
from ..runtime import Computer
from ..wire.errors import NetworkError

LINE_MAX = 64 * 1024 * 1024
QUESTION_LIMIT = 10.0
PATH_MAX = 100
"""Bytes of a socket's path that every system takes."""

logger = logging.getLogger(__name__)


class Question(msgspec.Struct):
    """What is asked."""

    ask: str


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


async def question(name: str, ask: str) -> Any:
    """The answer of a running Computer, as JSON values.

    Raises:
        NetworkError: None of this name runs here, or it does not answer.
    """
    try:
        async with asyncio.timeout(QUESTION_LIMIT):
            reader, writer = await asyncio.open_unix_connection(door(name), limit=LINE_MAX)
            try:
                writer.write(msgspec.json.encode(Question(ask)) + b"\n")
                return msgspec.json.decode(await reader.readline())
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, msgspec.DecodeError) as error:
        raise NetworkError(f"no Computer {name} answers on this machine", code="not_running") from error


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
    return await asyncio.start_unix_server(lambda *ends: _answer(computer, *ends), sock=_bound(path), limit=4096)


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
            if asked.ask == "status":
                writer.write(msgspec.json.encode(as_json(await computer.diagnostics())) + b"\n")
                await writer.drain()
    except (OSError, ValueError, TimeoutError) as error:
        logger.info("a local question was not answered: %s", type(error).__name__)
    finally:
        writer.close()


def as_json(value: Any) -> Any:
    """Structs as objects by field name, whatever form they have on the bus."""
    if isinstance(value, msgspec.Struct):
        return {name: as_json(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list | tuple) else value
