"""The last lines a server wrote to stderr, in bounded memory whatever it writes (F-19, F-36)."""

from __future__ import annotations

from collections import deque

from ....wire.redaction import Redaction

LINES = 200
LINE_BYTES = 4096


class Tail:
    """Ring of the last lines.

    A line longer than `line_bytes` keeps its end, because the end of an unfinished line is the newest
    thing the server said.

    Args:
        redaction: Knows the secrets that no cut may go through; they are still in the lines (R-INPUT-23).
    """

    def __init__(self, lines: int = LINES, line_bytes: int = LINE_BYTES, *, redaction: Redaction | None = None) -> None:
        self._done: deque[bytes] = deque(maxlen=lines)
        self._open = b""
        self._line_bytes = line_bytes
        self._redaction = redaction or Redaction()
        # the end of an unfinished line may be the beginning of a secret
        self._open_bytes = max(line_bytes, self._redaction.longest)

    def feed(self, data: bytes) -> None:
        """Takes bytes as they were read, split anywhere."""
        *done, rest = data.split(b"\n")
        for line in done:
            self._done.append(self._end(self._open + line, self._line_bytes).rstrip(b"\r"))
            self._open = b""
        self._open = self._end(self._open + rest, self._open_bytes)

    def _end(self, line: bytes, size: int) -> bytes:
        """The last `size` bytes, fewer where those would begin inside a secret."""
        return line if len(line) <= size else line[self._redaction.cut(line, len(line) - size) :]

    def lines(self, count: int | None = None) -> tuple[str, ...]:
        """The last `count` lines, oldest first, the unfinished one included; undecodable bytes are replaced."""
        kept = [*self._done, *([self._open] if self._open else [])]
        chosen = kept if count is None else kept[-count:] if count else []
        return tuple(line.decode("utf-8", "replace") for line in chosen)
