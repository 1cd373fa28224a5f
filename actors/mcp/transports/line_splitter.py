"""Cuts a byte stream into lines; a line of many megabytes costs one copy, not one per chunk."""

from __future__ import annotations

MAX_LINE = 256 * 1024 * 1024
"""Longest line kept. A result of 100 MiB (the absolute resource cap) is 134 MiB as base64."""


class LineTooLong(Exception):
    """The peer wrote more than the limit without a line end; the stream cannot be used any further."""


class LineSplitter:
    """Collects chunks until a line is complete."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._max_line = max_line

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their line ends.

        Raises:
            LineTooLong: More than `max_line` bytes are waiting for their line end.
        """
        if b"\n" not in data:
            self._keep(data)
            return []
        *lines, rest = data.split(b"\n")
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._max_line:
            self._parts.clear()
            raise LineTooLong(f"a line of more than {self._max_line} bytes")
        self._parts.append(data)
