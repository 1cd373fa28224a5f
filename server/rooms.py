"""The core of a Server: events and time go in, orders come out. No I/O, no Socket.IO, no clock.

Both shells feed it the same four things (a connection begins, sends an event, acknowledges
a relay, ends) and carry out the orders in the order given. It serves the room rules of
01 §4, the routing of §5 and §8, and the limits of §11.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import msgspec

from ..wire.events import (
    CALLS,
    CLIENT_PREFIX,
    SERVER_JOIN_OFFICE,
    SERVER_LEAVE_OFFICE,
    SERVER_LIST_ROOM,
    UPDATES,
)
from ..wire.packet import MalformedPacket, split_arguments
from .broadcasts import Broadcasts
from .limits import UNCOUNTED_EVENTS, Allowance, Limits
from .membership import Membership
from .offices import Offices
from .orders import Log, Order
from .refusals import FAILED, NOTHING, RATE_LIMITED, Refusal, malformed
from .requests import names_a_computer
from .routing import Routing
from .session import Incoming, Session

Orders: TypeAlias = Sequence[Order]

_text = msgspec.json.Decoder(str).decode


class Rooms:
    """All state of one Server; not safe for threads by itself.

    Args:
        limits: What peers may take.
        known_offices: Offices that exist from the start; `None` lets them come into being by joining (W-ROOM-17).
        hide_names: Answer 404 instead of 4104 for a Computer of another office (W-CALL-1).
        audit: Leave an info line in the security log for each relayed call.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        known_offices: Collection[str] | None = None,
        hide_names: bool = False,
        audit: bool = False,
    ) -> None:
        self._limits = limits or Limits()
        self._sessions: dict[str, Session] = {}
        self.offices = Offices(known_offices)
        self._membership = Membership(self.offices, self._limits)
        self._broadcasts = Broadcasts(self.offices, self._limits)
        self._routing = Routing(self.offices, self._limits, hide_names=hide_names, audit=audit)
        self._handlers: dict[str, Callable[[Incoming], Orders]] = {
            SERVER_JOIN_OFFICE: self._membership.join,
            SERVER_LEAVE_OFFICE: self._membership.leave,
            SERVER_LIST_ROOM: self._membership.list_room,
            **dict.fromkeys(UPDATES, self._broadcasts.announce),
            **dict.fromkeys(CALLS, self._routing.request),
        }

    def __len__(self) -> int:
        """Connections to the namespace."""
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        """Relayed calls that wait for a Computer."""
        return len(self._routing.pending)

    def connected(
        self, sid: str, now: float, *, version: str | None = None, address: str = "", user_agent: str = ""
    ) -> Orders:
        """An accepted connection to the namespace; it is in no office yet."""
        rate = self._limits.requests_per_second
        allowance = None if rate is None else Allowance(rate, now)
        session = Session(sid, version=version, address=address, user_agent=user_agent, allowance=allowance)
        self._sessions[sid] = session
        return (Log(session.record("info", "connected")),)

    def disconnected(self, sid: str) -> Orders:
        """The connection ended, however that came about (W-ROOM-25, W-ERR-30, W-ERR-32)."""
        session = self._sessions.pop(sid, None)
        if session is None:
            return ()
        session.alive = False
        orders = self._membership.depart(session)
        orders += self._routing.lost(session)
        orders.append(Log(session.record("info", "disconnected")))
        return orders

    def event(self, sid: str, body: str, ack_id: int | None, now: float, *, binary: bool = False) -> Orders:
        """An event with the JSON array `body` of name and payload.

        Args:
            ack_id: Id under which the sender waits; `None` if it wants no acknowledgement.
            now: Seconds on the shell's monotonic clock, the same that `expired` is asked with.
            binary: The packet announced attachments; its payload counts as missing (W-GEN-1).
        """
        session = self._sessions.get(sid)
        if session is None:  # refused, or never connected to the namespace (W-AUTH-6)
            return ()
        event = _read(session, body, ack_id, now, binary=binary)
        try:
            allowance = session.allowance
            if allowance is not None and event.name not in UNCOUNTED_EVENTS and not allowance.take(now):
                return self._refuse(event, RATE_LIMITED)
            return self._dispatch(event)
        except Exception as error:  # a fault of ours must not cost the peer its answer (W-SRV-2, W-ROOM-20)
            fault = f"failed with {type(error).__name__}"
            record = session.record("warning", fault, event=event.name, code=FAILED.code)
            return [*self._refuse(event, FAILED), Log(record)]

    def acknowledged(self, sid: str, relay_id: int, body: str, *, binary: bool = False) -> Orders:
        """An acknowledgement with the JSON array `body` of values for the event relayed under `relay_id`."""
        session = self._sessions.get(sid)
        return () if session is None else self._routing.acknowledged(session, relay_id, body, binary=binary)

    def expired(self, now: float) -> Orders:
        """Ends what has waited too long; to be asked at `next_deadline`."""
        return self._routing.expired(now)

    def next_deadline(self) -> float:
        """When `expired` has something to do, on the shell's clock; `inf` while nothing waits."""
        return self._routing.pending.next_deadline()

    def _dispatch(self, event: Incoming) -> Orders:
        handler = self._handlers.get(event.name)
        if handler is not None:
            return handler(event)
        if event.name.startswith(CLIENT_PREFIX) and names_a_computer(event.payload):  # W-EVT-14
            return self._routing.request(event)
        if not event.name:
            return event.refuse(malformed("$", "an event name and one object"))
        return event.acknowledge(NOTHING)

    def _refuse(self, event: Incoming, refusal: Refusal) -> list[Order]:
        """A refusal in the form in which this event is answered (W-ERR-2)."""
        if event.name in (SERVER_JOIN_OFFICE, SERVER_LEAVE_OFFICE):
            return event.refuse_as_text(refusal)
        if event.name in UPDATES:
            return [*event.acknowledge(NOTHING), event.note(refusal)]
        return event.refuse(refusal)


def _read(session: Session, body: str, ack_id: int | None, now: float, *, binary: bool) -> Incoming:
    """The event in a body; without a name if there is none to be read."""
    try:
        arguments = split_arguments(body)
        name = _text(arguments[0])
    except (MalformedPacket, IndexError, msgspec.DecodeError):
        return Incoming(session, "", None, body, ack_id, now)
    payload = arguments[1] if len(arguments) == 2 and not binary else None
    return Incoming(session, name, payload, body, ack_id, now)
