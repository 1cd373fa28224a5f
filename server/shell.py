"""What both shells do alike: packets to the core, orders to packets, and who is connected (W-ARCH-7).

A shell adds how it waits: an event loop or threads. Nothing is decided here either.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from ..wire.packet import ACK, EVENT, MalformedPacket, Parts, split
from ..wire.protocol import NAMESPACE
from ..wire.version import declared_version
from . import security_log
from .options import ServerOptions
from .orders import Ack, Emit, Relay
from .packets import RawPacket
from .rooms import Orders, Rooms
from .security_log import Record, identify

EVENT_HEAD = f"4{EVENT}{NAMESPACE},"
ACK_HEAD = f"4{ACK}{NAMESPACE},"
_USUAL_DIGITS = 15


class Peer(Protocol):
    """A connection as a shell needs it.

    Attributes:
        peer: Session id in the namespace; `""` until it is connected there.
        address: Address of the client.
    """

    peer: str
    address: str

    def push(self, frame: str) -> None:
        """Sends an Engine.IO text packet without waiting."""


class Shell:
    """The part of a Server that is the same with and without an event loop."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        audited = options.audit and logging.getLogger(security_log.LOGGER).isEnabledFor(logging.INFO)
        self.rooms = Rooms(
            options.limits, known_offices=options.known_offices, hide_names=options.hide_names, audit=audited
        )
        self._peers: dict[str, Peer] = {}

    def socketio_options(self) -> dict[str, Any]:
        """Arguments for the Socket.IO library."""
        options = self.options
        return {
            "serializer": RawPacket,
            # A refused peer must never see itself connected (W-AUTH-5).
            "always_connect": False,
            "namespaces": [NAMESPACE],
            "ping_interval": options.ping_interval,
            "ping_timeout": options.ping_timeout,
            "max_http_buffer_size": options.limits.message_bytes,
            "cors_allowed_origins": options.cors_allowed_origins,
            "logger": quiet_logger(),
            "engineio_logger": quiet_logger(),
        }

    def take(self, socket: Peer, frame: str, now: float) -> bool:
        """Handles an Engine.IO message if it is an event or acknowledgement of our namespace, or nonsense."""
        try:
            parts = read_frame(frame)
        except MalformedPacket:
            self.complain(socket)
            return True
        if parts.namespace != NAMESPACE:
            return False
        if parts.type == EVENT:
            self.carry_out(self.rooms.event(socket.peer, parts.body, parts.id, now, binary=parts.binary))
        elif parts.type == ACK:
            if parts.id is not None:
                self.carry_out(self.rooms.acknowledged(socket.peer, parts.id, parts.body, binary=parts.binary))
        else:
            return False
        return True

    def carry_out(self, orders: Orders) -> None:
        """Does what the core says, in its order."""
        for order in orders:
            if isinstance(order, Relay):
                self._push(order.sid, f"{EVENT_HEAD}{order.id}{order.body}")
            elif isinstance(order, Ack):
                self._push(order.sid, f"{ACK_HEAD}{order.id}{order.body}")
            elif isinstance(order, Emit):
                frame = EVENT_HEAD + order.body
                for sid in order.sids:
                    self._push(sid, frame)
            else:
                security_log.write(order.record)

    def admit(self, socket: Peer, sid: str, environ: dict[str, Any], now: float) -> str | None:
        """A connection the provider allowed; returns the version it declared."""
        version = declared_version(environ.get("QUERY_STRING", ""))
        socket.peer = sid
        self._peers[sid] = socket
        agent = user_agent(environ)
        self.carry_out(self.rooms.connected(sid, now, version=version, address=socket.address, user_agent=agent))
        return version

    def refuse(self, socket: Peer, sid: str, environ: dict[str, Any], why: str) -> None:
        """Notes a connection the provider did not allow (W-SRV-7)."""
        who = identify(address=socket.address, user_agent=user_agent(environ), sid=sid)
        security_log.write(Record(level="warning", action=why, who=who, code=401))

    def dismiss(self, sid: str) -> Peer | None:
        """A connection to the namespace that ended; returns its socket, which may live on."""
        socket = self._peers.pop(sid, None)
        if socket is not None:
            socket.peer = ""
        self.carry_out(self.rooms.disconnected(sid))
        return socket

    def ended(self, socket: Peer) -> None:
        """A connection that is over; its session ends too where python-socketio does not know of it yet (W-ROOM-25)."""
        if socket.peer:
            self.dismiss(socket.peer)

    def complain(self, socket: Peer) -> None:
        """Notes a packet that is none."""
        who = identify(address=socket.address, sid=socket.peer)
        security_log.write(Record(level="warning", action="malformed packet", who=who))

    def _push(self, sid: str, frame: str) -> None:
        socket = self._peers.get(sid)
        if socket is not None:
            socket.push(frame)


def read_frame(frame: str) -> Parts:
    """The Socket.IO packet in an Engine.IO message; the usual shapes are found without looking at each character.

    Raises:
        MalformedPacket: There is none.
    """
    for head, kind in ((EVENT_HEAD, EVENT), (ACK_HEAD, ACK)):
        if frame.startswith(head):
            start = frame.find("[", len(head))
            digits = frame[len(head) : start]
            if start > 0 and len(digits) <= _USUAL_DIGITS and (not digits or _is_number(digits)):
                return Parts(kind, NAMESPACE, int(digits) if digits else None, frame[start:], False)
    return split(frame[1:])


def user_agent(environ: dict[str, Any]) -> str:
    """The User-Agent header, for the log."""
    return str(environ.get("HTTP_USER_AGENT", ""))


def quiet_logger() -> logging.Logger:
    """For the libraries: their information lines quote packets, so they never get that far (W-SRV-8)."""
    logger = logging.getLogger("smcp_runtime.server.socketio")
    logger.setLevel(max(logging.WARNING, logger.level))
    return logger


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit()
