"""Reading requests: the routing fields of `client:*`, and `server:*` in full (W-SRV-1).

A relayed payload is only looked at: the fields of W-CALL-1 are decoded straight from the
JSON, everything else stays unread and travels as it came (W-GEN-2).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw

from ..wire.base import ComputerRequest, Structure, decode_payload
from ..wire.errors import InvalidPayload
from ..wire.events import CLIENT_GET_DPE, CLIENT_TOOL_CALL
from ..wire.packet import MalformedPacket, loads
from ..wire.protocol import (
    DPE_TIMEOUT,
    DPE_TIMEOUT_MAX,
    SERVER_ACK_LIMIT,
    SERVER_TOOL_MARGIN,
    TOOL_TIMEOUT_MAX,
    TOOL_TIMEOUT_MIN,
)
from ..wire.tools import ToolCallReq
from .refusals import Refusal, malformed, too_long

S = TypeVar("S", bound=Structure)


class RoutingFields(msgspec.Struct, gc=False):
    """What the Server reads of any `client:*` request."""

    agent: str
    req_id: str
    computer: str

    def wait_limit(self) -> float:
        """Seconds the Server waits for the Computer (W-CALL-12)."""
        return SERVER_ACK_LIMIT


class ToolCallFields(RoutingFields, gc=False):
    """What the Server reads of a tool call."""

    tool_name: str
    params: Raw
    timeout: Annotated[int, Meta(ge=TOOL_TIMEOUT_MIN, le=TOOL_TIMEOUT_MAX)]

    def wait_limit(self) -> float:
        """The Computer's own limit and a margin (W-CALL-10)."""
        return self.timeout + SERVER_TOOL_MARGIN


class DpeFields(RoutingFields, gc=False):
    """What the Server reads of a document request; whether its timeout is valid is the Computer's to judge."""

    timeout: Any = None

    def wait_limit(self) -> float:
        """As a tool call, but never under the limit of the other events (DEC-31)."""
        timeout = self.timeout
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            timeout = DPE_TIMEOUT
        return max(SERVER_ACK_LIMIT, min(float(timeout), DPE_TIMEOUT_MAX) + SERVER_TOOL_MARGIN)


_tool_call = msgspec.json.Decoder(ToolCallFields).decode
_get_dpe = msgspec.json.Decoder(DpeFields).decode
_any_request = msgspec.json.Decoder(RoutingFields).decode


def routing_fields(event: str, payload: Raw | None, identifier_chars: int) -> RoutingFields | Refusal:
    """The routing fields of a `client:*` payload, or why it is refused with 400 (W-CALL-1)."""
    if payload is None:
        return malformed("$", "one object")
    fields = _decode(event, payload)
    if isinstance(fields, Refusal):
        return fields
    if len(fields.req_id) > identifier_chars:
        return too_long("req_id", identifier_chars)
    if isinstance(fields, ToolCallFields):
        if len(fields.tool_name) > identifier_chars:
            return too_long("tool_name", identifier_chars)
        if not is_object(fields.params):
            return malformed("params", "object")
    return fields


def _decode(event: str, payload: Raw) -> RoutingFields | Refusal:
    try:
        if event == CLIENT_TOOL_CALL:
            return _tool_call(payload)
        return _get_dpe(payload) if event == CLIENT_GET_DPE else _any_request(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    # Rare: a fault to be named, a whole float, or a string only the standard library reads.
    if event == CLIENT_TOOL_CALL:
        call = read(ToolCallReq, payload)
        if isinstance(call, Refusal):
            return call
        return ToolCallFields(call.agent, call.req_id, call.computer, call.tool_name, Raw(b"{}"), call.timeout)
    request = read(ComputerRequest, payload)
    if isinstance(request, Refusal):
        return request
    return RoutingFields(request.agent, request.req_id, request.computer)


def read(tp: type[S], payload: Raw | None) -> S | Refusal:
    """A whole structure, or why the request is refused with 400.

    A lone surrogate may pass through in what is relayed unread; a name of a member that holds one could be told nobody.
    """
    if payload is None:
        return malformed("$", "one object")
    try:
        structure = decode_payload(tp, loads(bytes(payload)))
    except InvalidPayload as fault:
        return malformed(fault.field or "$", fault.expected)
    except MalformedPacket:
        return malformed("$", "JSON")
    for name in structure.__struct_fields__:
        value = getattr(structure, name)
        if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
            return malformed(name, "string of whole characters")
    return structure


def names_a_computer(payload: Raw | None) -> bool:
    """Whether a payload is an object whose `computer` is a string (W-EVT-14)."""
    if payload is None:
        return False
    try:
        _computer(payload)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def is_object(value: Raw) -> bool:
    """Whether a JSON value is an object, told by its first character."""
    view = memoryview(value)
    return len(view) > 0 and view[0] == 0x7B


class _Computer(msgspec.Struct, gc=False):
    computer: str


_computer = msgspec.json.Decoder(_Computer).decode
