"""What the rooms core tells a shell to do, in order.

Bodies are JSON text, ready to stand behind the head of a Socket.IO packet: an array of
acknowledgement values, or an array of event name and payload.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .security_log import Record


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Acknowledge event `id` of connection `sid` with the values in `body`."""

    sid: str
    id: int
    body: str


class Relay(msgspec.Struct, frozen=True, gc=False):
    """Send the event in `body` to `sid` and ask for an acknowledgement under `id`."""

    sid: str
    id: int
    body: str


class Emit(msgspec.Struct, frozen=True):
    """Send the event in `body` to each of `sids`, wanting no acknowledgement."""

    sids: tuple[str, ...]
    body: str


class Log(msgspec.Struct, frozen=True):
    """Write one line of the security log."""

    record: Record


Order: TypeAlias = Ack | Relay | Emit | Log
