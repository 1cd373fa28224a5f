"""The two things that plug into a bus: receivers below it, a gateway beside it.

A receiver is a local end point (an actor's runner, an observer). A gateway carries
envelopes to addresses that live in other processes.
"""

from __future__ import annotations

from typing import Protocol

from ..wire.envelope import Address, Envelope
from .mailbox import Verdict, Whereabouts


class Receiver(Protocol):
    """A local end point. All methods return at once."""

    def deliver(self, envelope: Envelope) -> Verdict:
        """Takes an envelope in; may start its handler directly."""

    def cancel(self, envelope_id: int) -> Whereabouts | None:
        """Withdraws or interrupts a message and says how far it had come; `None` when it is not here."""

    def is_serial(self, subject: str) -> bool:
        """Whether messages of this subject wait for the one in work."""


class Gateway(Protocol):
    """The way to other processes. All methods return at once."""

    def carry(self, envelope: Envelope) -> Verdict | None:
        """Takes an ask or a tell for a remote address.

        Returns:
            Whether it left, waits for its turn, or finds no place in the line; `None` when no node owns the address.
            Whatever is taken gets settled, also when its node is lost.
        """

    def cancel(self, envelope: Envelope) -> Whereabouts | None:
        """Nobody waits for this carried message any more; `waiting` when it had not left, else `None`."""

    def reaches(self, address: Address) -> bool:
        """Whether another node owns this address."""

    def has_left(self, envelope: Envelope) -> bool:
        """Whether another node holds this message and will say what became of it."""

    def wants(self, subject: str) -> bool:
        """Whether another node observes this subject."""

    def publish(self, envelope: Envelope) -> None:
        """Passes a local fact on to nodes that observe its subject."""

    def observe(self, subject: str) -> None:
        """Somebody here wants facts of this subject from now on."""

    def unobserve(self, subject: str) -> None:
        """Nobody here wants facts of this subject any more."""

    def announce(self, address: Address) -> None:
        """A local address came up."""

    def withdraw(self, address: Address, why: str | None) -> None:
        """A local address went down; with `why` it will be back."""
