"""A file that appears under its name only once it is whole: written beside it, then renamed."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import anyio.to_thread

from ..wire.errors import ConfigValidationError


class WholeFile:
    """Takes the bytes of a download; `finish` it, or `discard` it.

    Every method but `discard` raises ConfigValidationError when the file cannot be written.
    """

    def __init__(self, target: Path, file: IO[bytes]) -> None:
        self._target = target
        self._file = file

    @classmethod
    async def for_target(cls, target: Path) -> WholeFile:
        """A new file in the directory of the target, so that a rename finishes it."""
        with _writable():
            return cls(target, await anyio.to_thread.run_sync(_beside, target))

    async def restart(self) -> None:
        """Forgets what was written."""

        def empty() -> None:
            self._file.seek(0)
            self._file.truncate()

        with _writable():
            await anyio.to_thread.run_sync(empty)

    async def write(self, data: bytes) -> None:
        """Takes the next bytes."""
        with _writable():
            await anyio.to_thread.run_sync(self._file.write, data)

    async def finish(self) -> None:
        """Gives it its name."""

        def rename() -> None:
            self._file.close()
            os.replace(self._file.name, self._target)

        with _writable():
            await anyio.to_thread.run_sync(rename)

    def discard(self) -> None:
        """Removes what was written; nothing that goes wrong here may hide why."""
        with suppress(OSError):
            self._file.close()
        # Cancelled while it was renamed, it has its name already.
        with suppress(OSError):
            os.unlink(self._file.name)


def _beside(target: Path) -> IO[bytes]:
    if target.is_dir():
        # Found out by the rename otherwise, when everything has been read.
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part").open("xb")


@contextmanager
def _writable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigValidationError(
            f"the file cannot be written: {error.strerror}", field="path", retry_hint="name a file that can be written"
        ) from error
