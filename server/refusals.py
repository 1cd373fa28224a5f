"""Refusals of a Server, and the acknowledgement body of each (W-ERR-1, W-ERR-2, W-CALL-3, W-ROOM-4).

A body is the JSON array of acknowledgement values. Texts are for people and repeat nothing
of a request but names (W-ERR-6).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..wire import payload
from ..wire.events import CLIENT_TOOL_CALL
from ..wire.payload import ErrorPayload

NOTHING = "[]"
DONE = "[true,null]"

_encode = msgspec.json.Encoder().encode


class Refusal(msgspec.Struct, frozen=True):
    """Why a request was refused; `abuse` makes it a warning in the security log (W-SRV-7)."""

    payload: ErrorPayload
    abuse: bool = False

    @property
    def code(self) -> int:
        """The numeric code the peer is given."""
        return self.payload.code

    def text_ack(self) -> str:
        """The two values of a refused join or leave; clients may read the code in brackets (W-ROOM-4)."""
        return array(False, payload.format_refusal(self.payload.code, self.payload.message))

    def payload_ack(self, event: str) -> str:
        """The one flat ErrorPayload of every other refusal; that of a tool call reads as a failed result too."""
        if event == CLIENT_TOOL_CALL:
            return array(payload.for_tool_call(self.payload))
        return array(self.payload)


def malformed(field: str, expected: str) -> Refusal:
    """A field is missing or of another type; never quotes the value."""
    where = "the payload" if field == "$" else f"'{field}'"
    return Refusal(payload.bad_request(field, expected, f"Invalid request: {where} must be {expected}"))


def too_long(field: str, limit: int) -> Refusal:
    """An identifier exceeds the configured length (W-SRV-5)."""
    expected = f"at most {limit} characters"
    return Refusal(payload.bad_request(field, expected, f"Invalid request: '{field}' must have {expected}"))


def forbidden(message: str, *, abuse: bool = False) -> Refusal:
    """A role or a name is violated."""
    return Refusal(payload.forbidden(message), abuse)


def unknown_computer(name: str) -> Refusal:
    """What an official Server says, byte for byte; also when a Computer vanishes in flight (W-CALL-2, W-ERR-30)."""
    return Refusal(payload.computer_not_found(name))


RATE_LIMITED = Refusal(payload.forbidden("Too many requests", reason="rate_limited"), abuse=True)
NOT_JOINED = Refusal(payload.not_in_room(), abuse=True)
OTHER_OFFICE = Refusal(payload.cross_room(), abuse=True)
ROOM_FULL = Refusal(payload.room_full())
ROOM_UNKNOWN = Refusal(payload.room_not_found())
GAVE_UP = Refusal(payload.server_gave_up())
FAILED = Refusal(payload.internal_error())


def array(*values: Any) -> str:
    """Compact JSON of acknowledgement values, or of an event name and its payload."""
    return _encode(values).decode()
