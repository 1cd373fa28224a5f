"""One end of a socket pair shared with a child process: the messages of the hub without ZeroMQ's threads between.

What a child inherits nobody else can have, so it needs no key; and the system closes it the
moment either process is gone. A message is its length (eight bytes, big-endian) and its frames as a
msgpack array.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable

import msgspec

from .drain import Receive, callback_context
from .flow import UNREAD_MAX
from .frames import FRAME_MAX, FRAMES_MAX

READ = 65_536
"""Bytes read at once."""
MESSAGE_MAX = FRAMES_MAX * FRAME_MAX
TURNS = 64
"""Reads of one turn of the loop, so that a busy peer leaves turns for others."""
_LENGTH = struct.Struct(">Q")
_encode_into = msgspec.msgpack.Encoder().encode_into
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class PairSocket:
    """Sends and receives until it is closed, by either side.

    Args:
        sock: Taken over; closed in the end.
        receive: Takes the frames of each message; the user is `user`.
        on_closed: Called once when the peer is gone, reads nothing any more, or sends what is no message.
    """

    def __init__(self, sock: socket.socket, receive: Receive, on_closed: Callable[[], None], user: str = "") -> None:
        sock.setblocking(False)
        self._sock = sock
        self._receive = receive
        self._on_closed = on_closed
        self._user = user
        self._loop = asyncio.get_running_loop()
        self._in = bytearray()
        self._place = memoryview(bytearray(READ))
        self._wanted = _LENGTH.size
        self._out: deque[memoryview] = deque()
        self.closed = False
        callback_context().run(self._loop.add_reader, sock, self._turn)

    def send(self, frames: list[bytes]) -> bool:
        """Sends one message, or keeps what the system does not take at once; `False` when nobody is there or reads."""
        if self.closed:
            return False
        message = written(frames)
        if self._out:
            if len(self._out) >= UNREAD_MAX:
                self._over()
                return False
            self._out.append(memoryview(message))
            return True
        try:
            sent = self._sock.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._over()
            return False
        if sent < len(message):
            self._out.append(memoryview(message)[sent:])
            self._loop.add_writer(self._sock, self._flush)
        return True

    def catch_up(self) -> None:
        """Receives what is there now: before anybody is judged by silence."""
        self._turn()

    def close(self) -> None:
        """Ends it; unsent messages are lost."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
            self._sock.close()

    # -- out --------------------------------------------------------------------------------

    def _flush(self) -> None:
        try:
            while self._out:
                sent = self._sock.send(self._out[0])
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                    return
                self._out.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._over()
            return
        self._loop.remove_writer(self._sock)

    # -- in ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        for _ in range(TURNS):
            if self.closed:
                return
            try:
                # Into a place of its own: a new one for each read would cost more than all the rest.
                size = self._sock.recv_into(self._place)
            except BlockingIOError:
                return
            except OSError:
                size = 0
            if not size:
                self._over()
                return
            if not self._take(size):
                self._over()
                return
            if size < READ:
                return

    def _take(self, size: int) -> bool:
        """Takes the bytes just read; `False` when they are no messages."""
        if not self._in:
            # Most often whole messages, which are cut out where they were read.
            used = self._hand_out(self._place[:size])
            if 0 <= used < size:
                self._in += self._place[used:size]
            return used >= 0
        self._in += self._place[:size]
        if len(self._in) < self._wanted:
            return True
        with memoryview(self._in) as rest:
            used = self._hand_out(rest)
        del self._in[: max(used, 0)]
        return used >= 0

    def _hand_out(self, buffer: memoryview) -> int:
        """Passes on the messages that are complete; how many bytes they were, negative when these bytes are none."""
        at, size = 0, len(buffer)
        self._wanted = _LENGTH.size
        while size - at >= _LENGTH.size:
            start = at + _LENGTH.size
            end = start + _LENGTH.unpack_from(buffer, at)[0]
            if end - start > MESSAGE_MAX:
                return -1
            if size < end:
                self._wanted = end - at
                break
            try:
                frames = _decode(buffer[start:end])
            except msgspec.DecodeError:
                return -1
            at = end
            try:
                self._receive(frames, self._user)
            except Exception as error:
                # What follows in the buffer must be received all the same.
                self._loop.call_exception_handler({"message": "a message could not be received", "exception": error})
            if self.closed:
                break
        return at

    def _over(self) -> None:
        if not self.closed:
            self.close()
            self._on_closed()


def written(frames: list[bytes]) -> bytearray:
    """The bytes of a message."""
    message = bytearray(_LENGTH.size)
    _encode_into(frames, message, _LENGTH.size)
    _LENGTH.pack_into(message, 0, len(message) - _LENGTH.size)
    return message
