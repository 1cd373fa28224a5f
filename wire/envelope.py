"""The envelope: what the bus knows about a message without reading it.

Actors see messages, transports see envelopes. A reply is an envelope too; it is
correlated by `id`. Deadlines are absolute on the clock of the node that holds the
envelope; a transport converts them to remaining seconds when it crosses a process.
"""

from __future__ import annotations

from typing import Literal, NewType

import msgspec

Address = NewType("Address", str)
"""Where a message goes: a printable name such as `tools` or `mcp/files`."""

Kind = Literal["ask", "tell", "fact", "reply", "failure", "cancel"]


class Envelope(msgspec.Struct, array_like=True):
    """One message in transit.

    Attributes:
        kind: What the bus has to do with it.
        subject: Name of the message type; for replies that of the ask.
        target: Address it goes to; empty for facts.
        sender: Address of the actor it came from, or `""` for a caller outside any actor.
        id: Correlation id, unique per bus; 0 where nothing is correlated.
        deadline: Seconds on this node's clock after which nobody waits any more; `inf` for none.
        body: msgpack body of the message, reply or `Failure`.
        attachments: Frames the body refers to by index.
        lane: `control` overtakes `ordinary`.
        chain: Serial actors that wait for the end of this ask, outermost first (cycle detection).
        trace: W3C `traceparent`, or `""`.
        key: Coalescing key of a fact, or `""`.
        enqueued_at: Clock of the moment it entered a mailbox, for measurement; never crosses a process.
    """

    kind: Kind
    subject: str
    target: Address
    sender: Address = Address("")
    id: int = 0
    deadline: float = float("inf")
    body: bytes = b""
    attachments: tuple[bytes, ...] = ()
    lane: str = "ordinary"
    chain: tuple[Address, ...] = ()
    trace: str = ""
    key: str = ""
    enqueued_at: float = 0.0
