"""Reading acknowledgements: a success of the right type, or the right exception, and nothing in between."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec

from ..wire.base import parse_json
from ..wire.codes import CODES, REASONS
from ..wire.errors import InvalidPayload, MalformedReplyError, PeerError, SmcpError
from ..wire.events import Call
from ..wire.lenient_json import read_leniently
from ..wire.payload import raise_for_error, reason_of

Ret = TypeVar("Ret")

_log = logging.getLogger(__name__)

_NOT_RELAYED = frozenset({400, 401, 403, 4101, 4102, 4103, 4104})


def read(call: Call[Any, Ret], values: list[msgspec.Raw], req_id: str) -> Ret:
    """The success in the values of an acknowledgement.

    Raises:
        PeerError: The peer answered with an ErrorPayload, of whatever code (W-ERR-3).
        MalformedReplyError: Neither a success nor an error (W-ERR-5); code `unsupported` for an empty
            acknowledgement, which is how a peer says that it does not know the event (W-EVT-3, W-DOC-2).
    """
    value = _only(call.event, values)
    if value is None:
        return call.read_reply(None, req_id)
    # A long list is decoded straight into its structures, unless the text could be an ErrorPayload.
    if b'"code"' not in value:
        try:
            expected: Any = call.reply
            reply = _decoder(expected).decode(value)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            if not call.echoes or getattr(reply, "req_id", None) == req_id:
                return reply  # type: ignore[no-any-return]
    with _reporting(call.event):
        return call.read_reply(_parsed(call.event, value), req_id)


def read_object(event: str, values: list[msgspec.Raw]) -> dict[str, Any]:
    """The JSON object in an acknowledgement, where every object is a success but an ErrorPayload.

    Raises:
        PeerError, MalformedReplyError: As `read`.
    """
    value = _only(event, values)
    if value is None:
        raise MalformedReplyError(f"{event} is not supported by the peer", code="unsupported")
    answer = _parsed(event, value)
    with _reporting(event):
        raise_for_error(answer, event=event)
    if not isinstance(answer, dict):
        raise MalformedReplyError(f"the reply to {event} is no object")
    return answer


@contextmanager
def _reporting(event: str) -> Iterator[None]:
    """Logs refusals that a newer peer may make and we do not know; nothing is tried again for them (W-ERR-7)."""
    try:
        yield
    except PeerError as refusal:
        code, reason = refusal.wire_code, reason_of(refusal.payload)
        if code not in CODES or (code in REASONS and reason not in REASONS[code]):
            _log.warning("%s was refused in a way not known here: code %d, reason %.80r", event, code, reason)
        raise


def with_outcome(error: SmcpError) -> SmcpError:
    """Adds to the error of a tool call whether the tool can have run (C-12, DEC-10).

    A refusal the Server makes before it relays, and a request that never left, were `not_executed`. Of a Computer
    that vanished the Server says the same as of one it never knew, so that stays `unknown`.
    """
    if isinstance(error, PeerError):
        known = error.wire_code in _NOT_RELAYED
    else:
        known = error.details.get("executed") == "no" or isinstance(error, InvalidPayload)
    error.details["a2c_outcome"] = "not_executed" if known else "unknown"
    return error


def _only(event: str, values: list[msgspec.Raw]) -> bytes | None:
    if len(values) > 1:
        raise MalformedReplyError(f"the reply to {event} has {len(values)} values")
    return bytes(values[0]) if values else None


def _parsed(event: str, value: bytes) -> Any:
    try:
        return parse_json(value)
    except InvalidPayload as fault:
        with suppress(ValueError, RecursionError):  # an answer that was paid for is not lost over one character
            return read_leniently(value)
        raise MalformedReplyError(f"the reply to {event} is malformed: {fault.message}") from None


@functools.cache
def _decoder(tp: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(tp)
