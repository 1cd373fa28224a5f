"""The sockets of a hub and of a node's connection, each with its monitor, and the orderly end of their context.

The context is never the process-wide one: ending it must not wait for sockets of others.
It ends in a helper thread within a bound, because ZeroMQ may hang there (F-89).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import zmq

from . import zap
from .drain import Drain, Receive
from .flow import UNREAD_MAX
from .frames import FRAME_MAX
from .keys import AllowList, KeyPair, NameOf, NodeKeys
from .monitor import Change, Monitor

logger = logging.getLogger(__name__)

HANDSHAKE_WITHIN = 5.0
END_WITHIN = 1.0

Context = zmq.Context[zmq.Socket[bytes]]


def new_context() -> Context:
    """A context of our own."""
    return zmq.Context()


async def end_context(context: Context) -> None:
    """Ends a context whose sockets are closed, or gives up after a second and says so."""
    loop = asyncio.get_running_loop()
    ended = anyio.Event()

    def end() -> None:
        context.term()
        with contextlib.suppress(RuntimeError):
            # The loop may be gone; then nobody waits.
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=end, name="smcp-bus-end", daemon=True).start()
    with anyio.move_on_after(END_WITHIN, shield=True) as limit:
        await ended.wait()
    if limit.cancelled_caught:
        logger.warning("a ZeroMQ context did not end within %g s and was left to itself", END_WITHIN)


class HubSocket:
    """A bound ROUTER that reports peers it cannot reach instead of dropping what is for them.

    Args:
        keys, allow: Make it a CURVE server for the keys in that directory, or for those that have a name.
        receive: Takes each message: routing id, then frames; and the user a key belongs to.
        on_change: Hears of connections that come, go or fail.
        on_refused: Hears why a key was refused.
    Raises:
        zmq.ZMQError: The endpoint cannot be bound.
    """

    def __init__(
        self,
        context: Context,
        url: str,
        *,
        keys: KeyPair | None,
        allow: Path | NameOf | None,
        receive: Receive,
        on_change: Callable[[Change], None],
        on_refused: Callable[[str], None],
    ) -> None:
        with contextlib.ExitStack() as undo:
            if allow is not None:
                name_of = AllowList(allow).name_of if isinstance(allow, Path) else allow
                authenticator = zap.Authenticator(context, name_of, on_refused)
                undo.callback(authenticator.close)
            socket = _new_socket(context, zmq.ROUTER, url)
            undo.callback(socket.close, linger=0)
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            if keys is not None:
                socket.setsockopt(zmq.CURVE_SERVER, 1)
                socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
                socket.setsockopt(zmq.ZAP_DOMAIN, zap.DOMAIN)
            monitor = Monitor(context, socket, on_change)
            undo.callback(monitor.close)
            socket.bind(url)
            self.endpoint = str(socket.getsockopt_string(zmq.LAST_ENDPOINT))
            self._drain = Drain(socket, receive, authenticated=allow is not None)
            self.send = self._drain.send
            self.catch_up = self._drain.catch_up
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Closes it and what watches over it; unsent messages are lost."""
        self._drain.stop()
        self._undo.close()


class NodeSocket:
    """A DEALER for one connection: it never reconnects by itself, so that a new one starts with a greeting.

    Args:
        keys: Make it a CURVE client that trusts one hub.
        receive, on_change: As for a hub.
    """

    def __init__(
        self,
        context: Context,
        url: str,
        *,
        keys: NodeKeys | None,
        receive: Receive,
        on_change: Callable[[Change], None],
    ) -> None:
        with contextlib.ExitStack() as undo:
            socket = _new_socket(context, zmq.DEALER, url)
            undo.callback(socket.close, linger=0)
            socket.setsockopt(zmq.RECONNECT_IVL, -1)
            if keys is not None:
                socket.setsockopt(zmq.CURVE_SERVERKEY, keys.hub)
                socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.own.public)
                socket.setsockopt(zmq.CURVE_SECRETKEY, keys.own.secret)
            monitor = Monitor(context, socket, on_change)
            undo.callback(monitor.close)
            socket.connect(url)
            self._drain = Drain(socket, receive)
            self.send = self._drain.send
            self.catch_up = self._drain.catch_up
            self._undo = undo.pop_all()

    def close(self) -> None:
        """Ends the connection; unsent messages are lost."""
        self._drain.stop()
        self._undo.close()


def _new_socket(context: Context, kind: int, url: str) -> zmq.Socket[bytes]:
    socket: zmq.Socket[bytes] = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    # Credit bounds what is out long before; and at this limit the sender is told, nothing is dropped in silence (F-84).
    socket.setsockopt(zmq.SNDHWM, UNREAD_MAX)
    socket.setsockopt(zmq.MAXMSGSIZE, FRAME_MAX)
    socket.setsockopt(zmq.HANDSHAKE_IVL, int(HANDSHAKE_WITHIN * 1000))
    if "[" in url:
        socket.setsockopt(zmq.IPV6, 1)
    return socket
