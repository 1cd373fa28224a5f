"""What the Server knows about one connection, one event of it, and one call that waits for it (W-ROOM-3)."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ..wire.rooms import Role
from ..wire.tracing import Span
from .limits import Allowance
from .orders import Ack, Log, Order
from .refusals import Refusal
from .security_log import Level, Record, identify


class Session:
    """A connection to the namespace, from its acceptance to its end.

    Attributes:
        sid: Socket.IO session id; all authority comes from it (W-ROOM-46).
        version: Protocol version as sent in the handshake, for display only (W-HS-18).
        role: Fixed by the first accepted join, kept after a leave (W-ROOM-7); `None` before.
        name: Joined name; `""` while outside.
        office: Office joined; `None` while outside.
        who: The peer in words of the security log.
        alive: False once the connection has ended.
        calls: Calls forwarded to this Computer that wait for its acknowledgement, by the id of the relay.
        open_calls: Calls of this Agent that wait somewhere.
    """

    __slots__ = (
        "_relays",
        "alive",
        "allowance",
        "calls",
        "name",
        "office",
        "open_calls",
        "role",
        "sid",
        "version",
        "who",
    )

    def __init__(
        self, sid: str, *, version: str | None, address: str, user_agent: str, allowance: Allowance | None
    ) -> None:
        self.sid = sid
        self.version = version
        self.who = identify(address=address, user_agent=user_agent, sid=sid)
        self.allowance = allowance
        self.role: Role | None = None
        self.name = ""
        self.office: str | None = None
        self.alive = True
        self.calls: dict[int, Call] = {}
        self.open_calls = 0
        self._relays = 0

    def next_relay(self) -> int:
        """A fresh acknowledgement id for an event sent to this connection."""
        self._relays += 1
        return self._relays

    def record(
        self, level: Level, action: str, *, event: str = "", code: int | None = None, req_id: str = ""
    ) -> Record:
        """A line of the security log about this connection."""
        return Record(
            level=level,
            action=action,
            who=self.who,
            office=self.office or "",
            event=event,
            code=code,
            req_id=req_id,
        )


class Incoming(msgspec.Struct, frozen=True, gc=False):
    """One event as it came.

    Attributes:
        session: Who sent it.
        name: Exact event name (W-GEN-4); `""` if there was none.
        payload: The one argument, unread; `None` if there was none, more than one, or a binary one.
        body: JSON array of name and payload, untouched.
        ack_id: Id under which the sender waits; `None` if it wants no acknowledgement.
        now: Seconds on the shell's monotonic clock.
    """

    session: Session
    name: str
    payload: Raw | None
    body: str
    ack_id: int | None
    now: float

    def acknowledge(self, body: str) -> list[Order]:
        """The acknowledgement, if the sender waits for one."""
        return [] if self.ack_id is None else [Ack(self.session.sid, self.ack_id, body)]

    def refuse(self, refusal: Refusal, req_id: str = "") -> list[Order]:
        """A flat ErrorPayload for the sender, and a line in the security log."""
        return [*self.acknowledge(refusal.payload_ack(self.name)), self.note(refusal, req_id)]

    def refuse_as_text(self, refusal: Refusal) -> list[Order]:
        """A refused join or leave (W-ROOM-4), and a line in the security log."""
        return [*self.acknowledge(refusal.text_ack()), self.note(refusal)]

    def note(self, refusal: Refusal, req_id: str = "") -> Log:
        """The log line of a refusal: a warning if it looks like abuse (W-SRV-7)."""
        level: Level = "warning" if refusal.abuse else "info"
        return Log(self.session.record(level, "refused", event=self.name, code=refusal.code, req_id=req_id))


class Call:
    """A relayed `client:*` event that waits for the Computer's acknowledgement.

    Attributes:
        origin: The Agent that asked; its reply is dropped once it is gone (W-ERR-32).
        ack_id: Id under which the Agent waits, `None` if it asked for no answer.
        event: Name of the event.
        target: The Computer that was asked, under the name `computer` at that time.
        relay_id: Id under which the Computer answers.
        waiting: False once the call has ended in any way.
        span: Its place in a trace, where this process traces.
    """

    __slots__ = ("ack_id", "computer", "event", "origin", "relay_id", "span", "target", "waiting")

    def __init__(self, request: Incoming, target: Session, computer: str) -> None:
        self.origin = request.session
        self.ack_id = request.ack_id
        self.event = request.name
        self.target = target
        self.relay_id = target.next_relay()
        self.computer = computer
        self.waiting = True
        self.span: Span | None = None
