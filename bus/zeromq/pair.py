"""One end of a socket pair shared with a child process: the messages of the hub without ZeroMQ's threads between.

What a child inherits nobody else can have, so it needs no key; and the system closes it the
moment either process is gone. A message is the number of its frames, their lengths (all four
bytes, big-endian), and the frames.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections import deque
from collections.abc import Callable

from .drain import Receive, callback_context
from .frames import FRAME_MAX, FRAMES_MAX

READ = 262_144
"""Bytes read at once."""
TURNS = 16
"""Reads of one turn of the loop, so that a busy peer leaves turns for others."""
IOV_MAX = 1_000
"""Frames the system takes in one call."""


class PairSocket:
    """Sends and receives until it is closed, by either side.

    Args:
        sock: Taken over; closed in the end.
        receive: Takes the frames of each message; the user is `user`.
        on_closed: Called once when the peer is gone, or sends what is no message.
    """

    def __init__(self, sock: socket.socket, receive: Receive, on_closed: Callable[[], None], user: str = "") -> None:
        sock.setblocking(False)
        self._sock = sock
        self._receive = receive
        self._on_closed = on_closed
        self._user = user
        self._loop = asyncio.get_running_loop()
        self._in = bytearray()
        self._wanted = 4
        self._out: deque[memoryview] = deque()
        self.closed = False
        callback_context().run(self._loop.add_reader, sock, self._turn)

    def send(self, frames: list[bytes]) -> bool:
        """Sends one message, or keeps what the system does not take at once; `False` when nobody is there."""
        if self.closed:
            return False
        parts = [struct.pack(f">I{len(frames)}I", len(frames), *map(len, frames)), *frames]
        if self._out or len(parts) > IOV_MAX:
            self._out.extend(map(memoryview, parts))
            self._flush()
            return not self.closed
        try:
            sent = self._sock.sendmsg(parts)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._over()
            return False
        if sent < sum(map(len, parts)):
            self._out.extend(map(memoryview, parts))
            self._sent(sent)
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
                self._sent(self._sock.sendmsg(list(itertools.islice(self._out, IOV_MAX))))
        except BlockingIOError:
            self._loop.add_writer(self._sock, self._flush)
            return
        except OSError:
            self._over()
            return
        self._loop.remove_writer(self._sock)

    def _sent(self, size: int) -> None:
        while size:
            first = self._out[0]
            if size < len(first):
                self._out[0] = first[size:]
                return
            size -= len(first)
            self._out.popleft()
        while self._out and not self._out[0]:
            self._out.popleft()

    # -- in ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        for _ in range(TURNS):
            if self.closed:
                return
            try:
                data = self._sock.recv(READ)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._over()
                return
            self._in += data
            if len(self._in) >= self._wanted and not self._hand_out():
                self._over()
                return
            if len(data) < READ:
                return

    def _hand_out(self) -> bool:
        """Passes on the messages that are complete; `False` when these bytes are none."""
        buffer, at = self._in, 0
        while True:
            lengths = _lengths(buffer, at)
            if lengths is None:
                return False
            head = 4 + 4 * len(lengths)
            self._wanted = max(head, 4) + sum(lengths) if lengths else 4
            if not lengths or len(buffer) - at < self._wanted:
                break
            end, frames = at + head, []
            for length in lengths:
                frames.append(bytes(buffer[end : end + length]))
                end += length
            at = end
            self._pass_on(frames)
            if self.closed:
                return True
        del buffer[:at]
        return True

    def _pass_on(self, frames: list[bytes]) -> None:
        try:
            self._receive(frames, self._user)
        except Exception as error:
            # What follows in the buffer must be received all the same.
            self._loop.call_exception_handler({"message": "a message could not be received", "exception": error})

    def _over(self) -> None:
        if not self.closed:
            self.close()
            self._on_closed()


def _lengths(buffer: bytearray, at: int) -> tuple[int, ...] | None:
    """The lengths of the frames of the message that begins here; `()` when they are not all here, `None` for none."""
    if len(buffer) - at < 4:
        return ()
    count = int.from_bytes(buffer[at : at + 4], "big")
    if not 0 < count <= FRAMES_MAX:
        return None
    if len(buffer) - at < 4 + 4 * count:
        return ()
    lengths = struct.unpack_from(f">{count}I", buffer, at + 4)
    return None if max(lengths) > FRAME_MAX else lengths
