"""Messages somebody waits for, and the ways in which the wait can end."""

from __future__ import annotations

from collections.abc import Callable

from ..wire.envelope import Address, Envelope
from ..wire.errors import SmcpError


class Answer:
    """The encoded reply of a handler."""

    __slots__ = ("attachments", "body")

    def __init__(self, body: bytes, attachments: tuple[bytes, ...]) -> None:
        self.body = body
        self.attachments = attachments


Settled = Answer | SmcpError | None
"""How a pending message ended: replied, failed, or (a tell) accepted."""


class Pending:
    """A message in flight, kept by the bus that has to see to its end.

    Attributes:
        resolve: Called once with the end.
        started: Bus-clock second at which it came.
        edge: Its entry in the wait graph.
        overtime: Its deadline has passed and the node that holds it is about to say how far it came.
    """

    __slots__ = ("edge", "envelope", "overtime", "resolve", "started")

    def __init__(self, envelope: Envelope, resolve: Callable[[Settled], None], started: float) -> None:
        self.envelope = envelope
        self.resolve = resolve
        self.started = started
        self.edge: tuple[Address, Address] | None = None
        self.overtime = False
