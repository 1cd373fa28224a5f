"""A server's stderr in a file of its own, rotated; never the terminal of the host (F-36)."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import IO

from ....wire.redaction import Redaction

logger = logging.getLogger(__name__)

MAX_BYTES = 1_000_000
KEEP = 3
LONGEST_LINE = 64 * 1024
"""Bytes of an unfinished line that are held back before it is written in pieces, none of which splits a secret."""


class StderrLog:
    """Appends to `path`; at `max_bytes` it becomes `path.1` and older ones move on, `keep` in all.

    A disk that refuses ends the logging, with one line in our own log, and nothing else.

    Args:
        redaction: Takes the server's secrets out, of which neither a read nor a cut splits one (R-INPUT-23).
    """

    def __init__(
        self, path: Path, *, max_bytes: int = MAX_BYTES, keep: int = KEEP, redaction: Redaction | None = None
    ) -> None:
        self._path, self._max_bytes, self._keep = path, max_bytes, keep
        self._redaction = redaction or Redaction()
        self._line = b""
        self._file: IO[bytes] | None = None
        self._size = 0
        self._broken = False

    def feed(self, data: bytes) -> None:
        """Takes bytes as they were read."""
        if self._redaction.is_empty:
            self._write(data)
            return
        lines, newline, rest = (self._line + data).rpartition(b"\n")
        if len(rest) > LONGEST_LINE + self._redaction.longest:
            at = self._redaction.cut(rest, len(rest) - self._redaction.longest)
            lines, newline, rest = lines + newline + rest[:at], b"", rest[at:]
        self._line = rest
        if lines or newline:
            self._write(self._redacted(lines + newline))

    def _redacted(self, data: bytes) -> bytes:
        text = data.decode("utf-8", "surrogateescape")
        return self._redaction.text(text).encode("utf-8", "surrogateescape")

    def _write(self, data: bytes) -> None:
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
        rest, self._line = self._line, b""
        if rest:
            self._write(self._redacted(rest))
        self._shut()

    def _shut(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = self._path.open("ab", buffering=0)
        self._size = self._file.tell()

    def _rotate(self) -> None:
        self._shut()
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            with suppress(FileNotFoundError):
                (self._path if number == 1 else self._numbered(number - 1)).replace(older)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
