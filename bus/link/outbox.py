"""Packets that wait for the next polling request, and how many of them make one payload (DEC-17)."""

from __future__ import annotations

import asyncio
from collections import deque

from ...wire.protocol import POLLING_PACKETS_MAX

SEPARATOR = b"\x1e"


class Outbox:
    """A bounded queue that gives its packets out as payloads a Server accepts.

    Args:
        payload_max: Bytes of one payload; a single larger packet still makes a payload of its own.
        capacity: Packets that may wait.
    """

    def __init__(self, payload_max: int, capacity: int = 1024) -> None:
        self._payload_max = payload_max
        self._capacity = capacity
        self._waiting: deque[bytes] = deque()
        self._room = asyncio.Event()
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.closed = False

    async def put(self, packet: bytes) -> bool:
        """Queues a packet, waits while the box is full; false when it was closed and nobody will send it."""
        while len(self._waiting) >= self._capacity and not self.closed:
            self._room.clear()
            await self._room.wait()
        if not self.closed:
            self._waiting.append(packet)
            self._filled.set()
            self._idle.clear()
        return not self.closed

    async def payload(self) -> bytes:
        """The next payload, once there is something to send. `sent` must follow before the next call."""
        await self._filled.wait()
        packets: list[bytes] = []
        size = 0
        while self._waiting and len(packets) < POLLING_PACKETS_MAX:
            size += len(self._waiting[0]) + len(SEPARATOR)
            if packets and size > self._payload_max:
                break
            packets.append(self._waiting.popleft())
        self._room.set()
        return SEPARATOR.join(packets)

    def sent(self) -> None:
        """The last payload reached the Server."""
        if not self._waiting:
            self._filled.clear()
            self._idle.set()

    async def flushed(self) -> None:
        """Waits until nothing is queued or on its way, or the box is closed."""
        await self._idle.wait()

    def close(self) -> None:
        """Drops what is left and lets everybody go who waits."""
        self.closed = True
        self._waiting.clear()
        for event in (self._room, self._filled, self._idle):
            event.set()
