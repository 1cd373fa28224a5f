"""One ZeroMQ context of our own with its socket, monitor and orderly end.

The context is never the process-wide one: ending it must not wait for sockets of others.
It ends in a helper thread within a bound, because ZeroMQ may hang there (F-89).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

import anyio
import zmq

from . import zap
from .frames import FRAME_MAX
from .keys import KeyPair, NodeKeys

logger = logging.getLogger(__name__)

HANDSHAKE_WITHIN = 5.0
END_WITHIN = 1.0


def new_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context of our own."""
    return zmq.Context()


async def end_context(context: zmq.Context[zmq.Socket[bytes]]) -> None:
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


def hub_socket(context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair | None) -> zmq.Socket[bytes]:
    """A ROUTER that reports peers it cannot reach instead of dropping what is for them."""
    socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
    _common(socket)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    if keys is not None:
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, zap.DOMAIN)
    return socket


def node_socket(context: zmq.Context[zmq.Socket[bytes]], keys: NodeKeys | None) -> zmq.Socket[bytes]:
    """A DEALER for one connection: it never reconnects by itself, so that a new one starts with a greeting."""
    socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
    _common(socket)
    socket.setsockopt(zmq.RECONNECT_IVL, -1)
    if keys is not None:
        socket.setsockopt(zmq.CURVE_SERVERKEY, keys.hub)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.own.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.own.secret)
    return socket


def _common(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    # Credit bounds what is out, not a limit at which a message would be dropped in silence (F-84).
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, FRAME_MAX)
    socket.setsockopt(zmq.HANDSHAKE_IVL, int(HANDSHAKE_WITHIN * 1000))
