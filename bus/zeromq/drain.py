"""A ZeroMQ socket drained without waiting when its descriptor fires.

The descriptor signals edges, not levels, and any call on the socket may consume one:
after every turn in which something was sent or received, the socket is asked once more
whether it has input. Nothing here ever blocks; what cannot be sent at once has no peer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

from .watch import watch

BATCH = 128
"""Messages received in one turn of the loop, so that a busy peer leaves turns for others."""

CATCH_UP_TURNS = 100

Receive = Callable[[list[bytes], str], None]
"""Takes the frames of a message, and the user name of an authenticated sender or `""`."""


class Drain:
    """Owns `socket` until `close`.

    Args:
        receive: Called for each message, in the event loop.
        authenticated: Whether messages carry the name of an authenticated user.
    """

    def __init__(self, socket: zmq.Socket[bytes], receive: Receive, *, authenticated: bool = False) -> None:
        self._socket = socket
        self._receive = receive
        self._authenticated = authenticated
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._closed = False
        self._watch = watch(int(socket.getsockopt(zmq.FD)), self._turn)
        # What arrived before the descriptor was watched has used up its edge.
        self._again()

    def send(self, frames: list[bytes]) -> bool:
        """Sends one message; `False` when no peer takes it."""
        if self._closed:
            return False
        try:
            last = len(frames) - 1
            for index, frame in enumerate(frames):
                self._socket.send(frame, zmq.NOBLOCK if index == last else zmq.NOBLOCK | zmq.SNDMORE)
        except zmq.ZMQError:
            return False
        finally:
            self._again()
        return True

    def catch_up(self) -> None:
        """Receives what is there now: before anybody is judged by silence."""
        for _ in range(CATCH_UP_TURNS):
            self._turn()
            if self._closed or not self._has_input():
                return

    def close(self) -> None:
        """Closes the socket; unsent messages are lost."""
        if not self._closed:
            self._closed = True
            self._watch.close()
            self._socket.close(linger=0)

    def _again(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        try:
            for _ in range(BATCH):
                if self._closed or not self._has_input():
                    break
                self._receive(*self._take())
            else:
                self._again()
        except BaseException:
            # The loop reports the error; what is left in the socket must not wait for another edge.
            self._again()
            raise
        if not (self._closed or self._scheduled):
            self._watch.rearm()

    def _has_input(self) -> bool:
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def _take(self) -> tuple[list[bytes], str]:
        if not self._authenticated:
            return self._socket.recv_multipart(zmq.NOBLOCK), ""
        frames = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
        try:
            user = str(frames[0].get("User-Id"))
        except zmq.ZMQError:
            user = ""
        return [frame.bytes for frame in frames], user
