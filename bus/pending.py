"""Messages somebody waits for, and the ways in which the wait can end."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..wire.envelope import Address, Envelope
from ..wire.errors import SmcpError


class Answer(msgspec.Struct, frozen=True):
    """The encoded reply of a handler."""

    body: bytes
    attachments: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of body and attachments."""
        return len(self.body) + sum(map(len, self.attachments)) if self.attachments else len(self.body)


Settled = Answer | SmcpError | None
"""How a pending message ended: replied, failed, or (a tell) accepted."""


class Pending(msgspec.Struct):
    """A message in flight, kept by the bus that has to see to its end.

    Attributes:
        resolve: Called once with the end.
        started: Bus-clock second at which it came.
        edge: Its entry in the wait graph.
        overtime: Its deadline has passed and the node that holds it is about to say how far it came.
    """

    envelope: Envelope
    resolve: Callable[[Settled], None]
    started: float
    edge: tuple[Address, Address] | None = None
    overtime: bool = False
