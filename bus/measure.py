"""Measurement hooks: what a meter may see at each step of an envelope's way.

The bus calls them synchronously and often; a meter must be cheap and must not raise.
Times are seconds.
"""

from __future__ import annotations

from typing import Literal, Protocol

from ..wire.envelope import Address, Envelope
from .pending import Answer, Settled

Outcome = Literal["ok", "failed", "cancelled"]


class Meter(Protocol):
    """Observer of envelopes. Never gets a body to read."""

    def delivered(self, envelope: Envelope) -> None:
        """An actor took in what nobody waits for: a fact, or a tell without a receipt. How full it is, it knows."""

    def refused(self, envelope: Envelope, why: str) -> None:
        """An envelope was not accepted."""

    def handled(self, address: Address, envelope: Envelope, began: float, ended: float, end: Answer | Outcome) -> None:
        """A handler of the actor at `address` ended, `cancelled` also when nobody waited for it any more.

        An `Answer` was the end of the ask, too, which is not reported again.
        """

    def answered(self, envelope: Envelope, latency: float, end: Settled) -> None:
        """An ask or tell of this node ended, other than by the reply of a handler here."""

    def abandoned(self, envelope: Envelope, latency: float) -> None:
        """Whoever waited for an ask or tell has gone."""

    def dead_letter(self, envelope: Envelope, why: str) -> None:
        """A message to nobody."""

    def fact_dropped(self, envelope: Envelope, observer: Address) -> None:
        """A slow observer lost a fact."""

    def fact_coalesced(self, envelope: Envelope, observer: Address) -> None:
        """A fact took the place of an older one."""


class NullMeter:
    """Measures nothing."""

    def delivered(self, envelope: Envelope) -> None:
        pass

    def refused(self, envelope: Envelope, why: str) -> None:
        pass

    def handled(self, address: Address, envelope: Envelope, began: float, ended: float, end: Answer | Outcome) -> None:
        pass

    def answered(self, envelope: Envelope, latency: float, end: Settled) -> None:
        pass

    def abandoned(self, envelope: Envelope, latency: float) -> None:
        pass

    def dead_letter(self, envelope: Envelope, why: str) -> None:
        pass

    def fact_dropped(self, envelope: Envelope, observer: Address) -> None:
        pass

    def fact_coalesced(self, envelope: Envelope, observer: Address) -> None:
        pass


NULL_METER = NullMeter()
"""The meter of a bus that was given none; compared by identity where a measurement itself costs something."""
