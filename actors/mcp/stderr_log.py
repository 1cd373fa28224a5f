"""A server's stderr in a file of its own, rotated; never the terminal of the host (F-36)."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)

MAX_BYTES = 1_000_000
KEEP = 3


class StderrLog:
    """Appends to `path`; at `max_bytes` it becomes `path.1` and older ones move on, `keep` in all.

    A disk that refuses ends the logging, with one line in our own log, and nothing else.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> None:
        self._path, self._max_bytes, self._keep = path, max_bytes, keep
        self._file: IO[bytes] | None = None
        self._size = 0
        self._broken = False

    def feed(self, data: bytes) -> None:
        """Takes bytes as they were read."""
        if self._broken:
            return
        try:
            if self._file is None:
                self._open()
            elif self._size + len(data) > self._max_bytes:
                self._rotate()
            assert self._file is not None
            self._file.write(data[-self._max_bytes :])
            self._size += len(data)
        except OSError as error:
            self._broken = True
            logger.warning("stderr of a server is no longer logged to %s: %s", self._path, error.strerror)

    def close(self) -> None:
        """Closes the file; a later `feed` opens it again."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            with suppress(FileNotFoundError):
                (self._path if number == 1 else self._numbered(number - 1)).replace(older)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
