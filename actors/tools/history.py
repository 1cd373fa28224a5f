"""The last finished calls, for ordering a desktop by what was used (C-DESK-23). In memory only."""

from __future__ import annotations

from collections import deque

from ...wire.messages.tools import CallHistory, CallRecord

LENGTH = 10
"""How many calls are kept (D-9)."""


class History:
    """Bounded record of calls in the order in which they ended."""

    def __init__(self, length: int = LENGTH) -> None:
        self._records: deque[CallRecord] = deque(maxlen=length)

    def add(self, record: CallRecord) -> None:
        """Appends a call that ended; the oldest gives way."""
        self._records.append(record)

    def snapshot(self) -> CallHistory:
        """What is kept, oldest first."""
        return CallHistory(tuple(self._records))
