"""Limits of a Server, and the counting behind them (W-SRV-5).

Pure: time is an argument. What is off unless configured would otherwise starve honest
peers behind one address or one busy Agent (DEC-28).
"""

from __future__ import annotations

import msgspec

from ..wire.events import CLIENT_GET_BLOB, CLIENT_PUT_BLOB
from ..wire.protocol import IDENTIFIER_MAX, PACKET_LIMIT, PENDING_CALLS_MAX

UNCOUNTED_EVENTS = frozenset({CLIENT_GET_BLOB, CLIENT_PUT_BLOB})
"""Blob chunks never count as requests (DEC-28)."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one peer may take from a Server.

    Attributes:
        message_bytes: Largest packet accepted, on both transports; a larger one costs the connection (W-GEN-7).
        identifier_chars: Longest `name`, `office_id`, `req_id` and `tool_name`.
        pending_calls: Relayed calls of one Agent that may wait at the same time.
        requests_per_second: Events of one connection, blob chunks not counted; `None` is no limit.
        connections_per_address: Open connections of one client address; `None` is no limit.
        polling_packets: Packets accepted in one polling request. python-engineio stops at 16 and loses the rest;
            we take a burst of notices whole, within `message_bytes` (F-76).
        unsent_bytes: Bytes that may wait for one peer that does not read; beyond it the connection is cut.
        namespace_timeout: Seconds after which a transport that has not connected to the namespace is closed.
    """

    message_bytes: int = PACKET_LIMIT
    identifier_chars: int = IDENTIFIER_MAX
    pending_calls: int = PENDING_CALLS_MAX
    requests_per_second: float | None = None
    connections_per_address: int | None = None
    polling_packets: int = 1_024
    unsent_bytes: int = 64 * 1_024 * 1_024
    namespace_timeout: float = 45.0


class Allowance:
    """A bucket that holds one second's worth of requests and refills steadily.

    Args:
        rate: Requests per second, above 0.
        now: Seconds on any monotonic clock.
    """

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._tokens = max(1.0, rate)
        self._at = now

    def take(self, now: float) -> bool:
        """Uses up one request; false when none is left."""
        self._tokens = min(max(1.0, self._rate), self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class AddressBook:
    """Counts open connections by client address."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._open: dict[str, int] = {}

    def admit(self, address: str) -> bool:
        """Counts one more connection, unless the address has reached the limit."""
        count = self._open.get(address, 0)
        if self._limit is not None and count >= self._limit:
            return False
        self._open[address] = count + 1
        return True

    def release(self, address: str) -> None:
        """Forgets one admitted connection."""
        count = self._open.get(address, 0)
        if count > 1:
            self._open[address] = count - 1
        else:
            self._open.pop(address, None)
