"""Measurement hooks: what a meter may see at each step of an envelope's way.

The bus calls them synchronously and often; a meter must be cheap and must not raise.
Times are seconds.
"""

from __future__ import annotations

from typing import Protocol

from ..wire.envelope import Address, Envelope


class Meter(Protocol):
    """Observer of envelopes. Never gets a body to read."""

    def enqueued(self, envelope: Envelope, depth: int) -> None:
        """An envelope entered a mailbox that now holds `depth`."""

    def refused(self, envelope: Envelope, why: str) -> None:
        """An envelope was not accepted."""

    def handled(self, envelope: Envelope, waited: float, took: float, outcome: str) -> None:
        """A handler ended: `ok`, `failed` or `cancelled`."""

    def answered(self, envelope: Envelope, latency: float, outcome: str) -> None:
        """An ask of this node ended: `ok` or the code of its error."""

    def dead_letter(self, envelope: Envelope, why: str) -> None:
        """A message to nobody."""

    def fact_dropped(self, envelope: Envelope, observer: Address) -> None:
        """A slow observer lost a fact."""

    def fact_coalesced(self, envelope: Envelope, observer: Address) -> None:
        """A fact took the place of an older one."""


class NullMeter:
    """Measures nothing."""

    def enqueued(self, envelope: Envelope, depth: int) -> None:
        pass

    def refused(self, envelope: Envelope, why: str) -> None:
        pass

    def handled(self, envelope: Envelope, waited: float, took: float, outcome: str) -> None:
        pass

    def answered(self, envelope: Envelope, latency: float, outcome: str) -> None:
        pass

    def dead_letter(self, envelope: Envelope, why: str) -> None:
        pass

    def fact_dropped(self, envelope: Envelope, observer: Address) -> None:
        pass

    def fact_coalesced(self, envelope: Envelope, observer: Address) -> None:
        pass


NULL_METER = NullMeter()
"""The meter of a bus that was given none; compared by identity where a measurement itself costs something."""
