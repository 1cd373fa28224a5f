"""Server-sent events from bytes, without a limit below that of any other message (a result may be many megabytes)."""

from __future__ import annotations

import re

import msgspec

from .line_splitter import MAX_LINE

RETRY_DIGITS = 9
"""Of a delay in milliseconds; more are no delay, and Python refuses to read very many."""
_LINE_END = re.compile(rb"\r\n|\n|\r")


class SseEvent(msgspec.Struct, frozen=True):
    """One event. `id` is the last id the stream has named, `retry` in milliseconds."""

    data: bytes
    event: str = "message"
    id: str = ""
    retry: int | None = None


class EventTooLong(Exception):
    """The stream sent more than the limit without finishing an event."""


class SseParser:
    """Collects chunks until events are complete. An event that the stream's end cuts off is dropped."""

    def __init__(self, max_event: int = MAX_LINE) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._after_return = False
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        self._max_event = max_event

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes.

        Raises:
            EventTooLong: The event at hand exceeds the limit.
        """
        if self._after_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if not chunk:
            return []
        self._after_return = chunk.endswith(b"\r")
        self._size += len(chunk)
        *lines, rest = _LINE_END.split(chunk)
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        events = [event for line in lines if (event := self._take(line)) is not None]
        if self._size > self._max_event:
            raise EventTooLong(f"an event of more than {self._max_event} bytes")
        return events

    def _take(self, line: bytes) -> SseEvent | None:
        if not line:
            return self._finish()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= RETRY_DIGITS:
            self._retry = int(value)
        return None

    def _finish(self) -> SseEvent | None:
        event = None
        if self._data or self._event or self._retry is not None:
            event = SseEvent(b"\n".join(self._data), self._event or "message", self._id, self._retry)
        self._data.clear()
        self._event, self._retry = "", None
        self._size = sum(map(len, self._parts))
        return event
