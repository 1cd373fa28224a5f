"""What a socket's monitor tells: connections that came, went, or were refused, as typed events.

ZeroMQ itself never says so on the socket: a refused client would try for ever in silence (F-92).
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from enum import Enum

import zmq

from .drain import Drain

_EVENT = struct.Struct("=HI")
_numbers = itertools.count(1)


class Change(Enum):
    """What happened to a connection."""

    UP = "handshake done"
    DOWN = "disconnected"
    UNREACHABLE = "nobody listens there"
    KEY_REFUSED = "the key was refused"
    HANDSHAKE_FAILED = "the security handshake failed"


_MEANING = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: Change.UP,
    zmq.EVENT_DISCONNECTED: Change.DOWN,
    zmq.EVENT_CLOSED: Change.UNREACHABLE,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: Change.KEY_REFUSED,
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: Change.HANDSHAKE_FAILED,
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: Change.HANDSHAKE_FAILED,
}


class Monitor:
    """Reports what happens to the connections of `socket`, from now until `close`; close it before the socket."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], socket: zmq.Socket[bytes], report: Callable[[Change], None]
    ) -> None:
        # A name of our own: the library derives one from a descriptor number, which is used again too early.
        name = f"inproc://smcp-monitor-{next(_numbers)}"
        self._watched = socket
        self._report = report
        socket.monitor(name, sum(_MEANING))
        pair: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        pair.connect(name)
        self._pair = pair
        self._drain = Drain(pair, self._receive)

    def close(self) -> None:
        """Stops reporting."""
        self._drain.stop()
        self._watched.disable_monitor()
        self._pair.close(linger=0)

    def _receive(self, frames: list[bytes], _user: str) -> None:
        event, _value = _EVENT.unpack(frames[0])
        meaning = _MEANING.get(event)
        if meaning is not None:
            self._report(meaning)
