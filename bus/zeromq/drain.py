"""A ZeroMQ socket drained without waiting when its descriptor fires.

The descriptor signals edges, not levels, and any call on the socket may consume one:
after every turn in which something was sent or received, the socket is asked once more
whether it has input. Nothing here ever blocks; what cannot be sent at once has no peer.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import zmq
from zmq.backend import Socket as _Bare

from .watch import watch

sniffio: Any
try:
    import sniffio
except ModuleNotFoundError:  # anyio then does without it, too
    sniffio = None

BATCH = 256
"""Messages received in one turn of the loop, so that a busy peer leaves turns for others."""

CATCH_UP_TURNS = 100

# Flags as plain numbers and the methods below the library's convenience layer: together a third of the cost.
_LAST, _MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
_send: Callable[..., Any] = _Bare.send
_receive: Callable[..., Any] = _Bare.recv
_get: Callable[..., Any] = _Bare.get

Receive = Callable[[list[bytes], str], None]
"""Takes the frames of a message, and the user name of an authenticated sender or `""`."""


class Drain:
    """Receives from `socket` and sends on it until `stop`; whoever made the socket closes it.

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
        self._context = callback_context()
        self._watch = self._context.run(watch, int(socket.getsockopt(zmq.FD)), self._turn)
        # What arrived before the descriptor was watched has used up its edge.
        self._again()

    def send(self, frames: list[bytes]) -> bool:
        """Sends one message; `False` when no peer takes it."""
        if self._closed:
            return False
        if not self._scheduled:
            self._again()
        last = len(frames) - 1
        try:
            for index, frame in enumerate(frames):
                _send(self._socket, frame, _LAST if index == last else _MORE)
        except zmq.ZMQError:
            return False
        return True

    def catch_up(self) -> None:
        """Receives what is there now: before anybody is judged by silence."""
        for _ in range(CATCH_UP_TURNS):
            self._turn()
            if self._closed or not self._has_input():
                return

    def stop(self) -> None:
        """Neither sends nor receives any more; the socket may be closed then."""
        if not self._closed:
            self._closed = True
            self._watch.close()

    def _again(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        self._scheduled = False
        try:
            for _ in range(BATCH):
                if self._closed or not self._has_input():
                    break
                self._receive(*self._take())
            else:
                if not self._scheduled:
                    self._again()
        except BaseException:
            # The loop reports the error; what is left in the socket must not wait for another edge.
            if not self._scheduled:
                self._again()
            raise
        if not (self._closed or self._scheduled):
            self._watch.rearm()

    def _has_input(self) -> bool:
        return bool(_get(self._socket, _EVENTS) & _POLLIN)

    def _take(self) -> tuple[list[bytes], str]:
        socket = self._socket
        frame = _receive(socket, _LAST, False)
        user = _user(frame) if self._authenticated else ""
        frames = [frame.bytes]
        while frame.more:
            frame = _receive(socket, _LAST, False)
            frames.append(frame.bytes)
        return frames, user


def callback_context() -> contextvars.Context:
    """The context of callbacks that may start tasks: they run in none, so anyio has to be told which loop that is.

    Under `anyio.run` it knows; under `asyncio.run`, which applications use, it asks for the current task.
    """
    context = contextvars.copy_context()
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


def _user(frame: zmq.Frame) -> str:
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
