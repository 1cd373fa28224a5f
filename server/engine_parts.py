"""What the two Engine.IO servers have in common: packets as text, payload limits, the answers of the opening."""

from __future__ import annotations

from typing import Any

from engineio import exceptions

from ..wire.payload import forbidden
from . import security_log
from .limits import Limits
from .refusals import array
from .security_log import Record, identify

MESSAGE, PONG, CLOSE = "4", "3", "1"
PING, UPGRADE, NOOP = "2", "5", "6"
PROBE, PROBED = "2probe", "3probe"
CLOSE_TIMEOUT = 2.0
"""Seconds a peer has to take part in closing a WebSocket."""
PROBE_TIMEOUT = 3.0
"""Seconds an upgrade may take. Shorter than the patience of our own clients, which poll on when theirs has ended."""
_SEPARATOR = "\x1e"


class BadPayload(exceptions.EngineIOError):  # type: ignore[misc]
    """A polling payload exceeds the limits or is not text; the connection ends, so that nothing is lost in silence."""


class Ready:
    """A packet that is already text and waits to be sent; the library's payload encoder takes it.

    Attributes:
        size: Bytes it takes, here and on its way.
    """

    __slots__ = ("_kept", "size")

    def __init__(self, frame: str) -> None:
        # One emoji makes Python keep a text at four bytes a character, so only ASCII waits as text.
        self._kept = frame if frame.isascii() else frame.encode()
        self.size = len(self._kept)

    @property
    def frame(self) -> str:
        """The text."""
        return self._kept if isinstance(self._kept, str) else self._kept.decode()

    def encode(self, b64: bool = False) -> str:
        """The text."""
        return self.frame


def payload_length(environ: dict[str, Any], limit: int) -> int:
    """Bytes to read of a polling payload; one more than the limit where its length is not known beforehand.

    Raises:
        BadPayload: It is longer than a message may be.
    """
    told = environ.get("CONTENT_LENGTH")
    if not told:
        return limit + 1 if environ.get("HTTP_TRANSFER_ENCODING") else 0
    if not (told.isascii() and told.isdigit() and int(told) <= limit):
        raise BadPayload
    return int(told)


def payload_frames(body: bytes, limits: Limits) -> list[str]:
    """The packets of a polling payload, all or none (F-76).

    Raises:
        BadPayload: More than the limits allow, or not text.
    """
    try:
        frames = body.decode().split(_SEPARATOR)
    except UnicodeDecodeError:
        raise BadPayload from None
    if len(frames) > limits.polling_packets or len(body) > limits.message_bytes:
        raise BadPayload
    return frames


def open_packet(server: Any, sid: str, transport: str) -> dict[str, Any]:
    """The first packet of a connection."""
    return {
        "sid": sid,
        "upgrades": server._upgrades(sid, transport),
        "pingTimeout": int(server.ping_timeout * 1000),
        "pingInterval": int(server.ping_interval * 1000),
        "maxPayload": server.max_http_buffer_size,
    }


def too_many_connections(environ: dict[str, Any], address: str) -> dict[str, Any]:
    """The HTTP answer to a connection beyond the limit of its address, and a line in the security log (W-SRV-5)."""
    who = identify(address=address, user_agent=str(environ.get("HTTP_USER_AGENT", "")))
    security_log.write(Record(level="warning", action="too many connections", who=who, code=403))
    body = array(forbidden("Too many connections", reason="rate_limited"))[1:-1]
    return {
        "status": "403 FORBIDDEN",
        "headers": [("Content-Type", "application/json")],
        "response": body.encode(),
    }
