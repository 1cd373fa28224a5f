"""How much may wait for a server to read its input: what it provokes is dropped, what we ask is refused.

The pipe itself takes little, so a server that sends requests and reads nothing would fill our memory with the answers.
"""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

SIDE_BYTES = 1024 * 1024
"""Notifications and answers of ours that wait at once; a server that provokes more gets none."""
UNREAD_BYTES = 64 * 1024 * 1024
"""What may wait already when a request is handed over, which itself may have arguments of any size."""


class Backlog:
    """Admits messages to the input of one server."""

    def __init__(self, *, side_bytes: int = SIDE_BYTES, unread_bytes: int = UNREAD_BYTES) -> None:
        self._side_bytes, self._unread_bytes = side_bytes, unread_bytes
        self._side = 0
        self._dropping = False

    def admits_request(self, unread: int) -> bool:
        """Whether a request may be handed over while `unread` bytes wait."""
        return unread <= self._unread_bytes

    def admits_side(self, size: int, unread: int) -> bool:
        """Whether a message that nobody waits for may be handed over; counted if so.

        Counted by itself, so that a request with large arguments can still be cancelled while it is read.
        """
        if not unread:
            self._side = 0
        if self._side and self._side + size > self._side_bytes:
            if not self._dropping:
                self._dropping = True
                logger.warning("a server reads none of our answers; while %d bytes wait, more are dropped", self._side)
            return False
        self._side += size
        return True
