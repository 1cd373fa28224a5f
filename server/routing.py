"""Relaying `client:*` from the Agent of an office to one of its Computers and back (01 §8.1, §8.2, §9.5).

The payload goes through unread and unchanged in both directions; only the routing fields
are checked on the way there, and on the way back only that one object came (W-SRV-4).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..wire import tracing
from ..wire.packet import MalformedPacket, split_arguments
from ..wire.payload import ErrorPayload, event_unsupported
from .limits import Limits
from .offices import Offices
from .orders import Ack, Log, Order, Relay
from .pending import PendingCalls
from .refusals import GAVE_UP, NOT_JOINED, OTHER_OFFICE, RATE_LIMITED, Refusal, forbidden, unknown_computer
from .requests import RoutingFields, is_object, routing_fields
from .session import Call, Incoming, Session

NOT_AN_AGENT = forbidden("Only an Agent may call a Computer", abuse=True)
NOT_A_COMPUTER = forbidden("The target is not a Computer", abuse=True)
NOT_SUPPORTED = Refusal(event_unsupported())
BAD_REPLY = Refusal(ErrorPayload(code=500, message="The Computer sent an invalid reply"))


class Routing:
    """Decides where requests go, and keeps the calls that wait.

    Args:
        hide_names: Answer 404 instead of 4104 for a Computer of another office (W-CALL-1).
        audit: Leave an info line for each relayed call.
    """

    def __init__(self, offices: Offices, limits: Limits, *, hide_names: bool, audit: bool) -> None:
        self._offices = offices
        self._limits = limits
        self._hide_names = hide_names
        self._audit = audit
        self.pending = PendingCalls()

    def request(self, event: Incoming) -> Sequence[Order]:
        """A `client:*` event: relayed as it is, or refused."""
        fields = routing_fields(event.name, event.payload, self._limits.identifier_chars)
        if isinstance(fields, Refusal):
            return event.refuse(fields)
        target = self._target(event.session, fields)
        if isinstance(target, Refusal):
            return event.refuse(target, fields.req_id)
        call = Call(event, target, fields.computer)
        if tracing.is_on():
            parent = tracing.traceparent_of(event.payload)
            call.span = tracing.begin(f"relay {event.name}", "server", parent, smcp__req_id=fields.req_id)
        self.pending.add(call, event.now + fields.wait_limit())
        relay = Relay(target.sid, call.relay_id, event.body)
        if not self._audit:
            return (relay,)
        return (Log(event.session.record("info", "relayed", event=event.name, req_id=fields.req_id)), relay)

    def acknowledged(self, session: Session, relay_id: int, body: str, *, binary: bool) -> Sequence[Order]:
        """A Computer's acknowledgement. A late or unknown one finds nothing and is dropped (W-CALL-12)."""
        call = self.pending.answered(session, relay_id)
        if call is None:
            return ()
        refusal = BAD_REPLY if binary else _why_not_pass(body)
        if call.span is not None:
            call.span.end("" if refusal is None else "bad_reply")
        return _answer(call, body if refusal is None else refusal.payload_ack(call.event))

    def lost(self, session: Session) -> list[Order]:
        """Ends the calls that wait for a connection that is gone (W-ERR-30)."""
        orders: list[Order] = []
        for call in self.pending.lost(session):
            if call.span is not None:
                call.span.end("computer_lost")
            orders += _answer(call, unknown_computer(call.computer).payload_ack(call.event))
        return orders

    def expired(self, now: float) -> list[Order]:
        """Ends the calls whose limit has passed (W-CALL-12)."""
        orders: list[Order] = []
        for call in self.pending.due(now):
            if call.span is not None:
                call.span.end("deadline")
            orders += _answer(call, GAVE_UP.payload_ack(call.event))
        return orders

    def _target(self, session: Session, fields: RoutingFields) -> Session | Refusal:
        """The Computer a request goes to, by the checks of W-CALL-1 in their order; the pending limit comes last."""
        if session.office is None:
            return NOT_JOINED
        if session.role != "agent":
            return NOT_AN_AGENT
        target = self._offices.by_name(fields.computer)
        foreign = target is not None and target.office != session.office
        if target is None or (foreign and self._hide_names):
            return unknown_computer(fields.computer)
        if foreign:
            return OTHER_OFFICE
        if target.role != "computer":
            return NOT_A_COMPUTER
        return RATE_LIMITED if session.open_calls >= self._limits.pending_calls else target


def _why_not_pass(body: str) -> Refusal | None:
    """Why a reply cannot be passed on: it must be one object (W-SRV-4)."""
    try:
        values = split_arguments(body)
    except MalformedPacket:
        return BAD_REPLY
    if not values:
        return NOT_SUPPORTED
    return None if len(values) == 1 and is_object(values[0]) else BAD_REPLY


def _answer(call: Call, body: str) -> Sequence[Order]:
    """The Agent's acknowledgement; nothing if it wanted none or is gone (W-ERR-32)."""
    if call.ack_id is None or not call.origin.alive:
        return ()
    return (Ack(call.origin.sid, call.ack_id, body),)
