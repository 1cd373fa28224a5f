"""Facts as they are published, without a mailbox in between that could merge them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from smcp_runtime.bus import Bus, Verdict
from smcp_runtime.wire.codec import decode_message
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.messages.kernel import ActorDown, ActorParked, ActorUp

from .play import Play


class Lives:
    """Holds the announcements of a supervisor against the rule: up, down, up, down, never two at once.

    Attributes:
        alive: The life each is in, by address.
        lasted: Seconds the last life was up, by address.
        deaths: How often each went down, `down_at` when last.
        parked: Addresses that are parked now.
    """

    def __init__(self, play: Play, bus: Bus) -> None:
        self.play = play
        self.alive: dict[str, int] = {}
        self.lasted: dict[str, float] = {}
        self.deaths: Counter[str] = Counter()
        self.down_at: dict[str, float] = {}
        self.parked: set[str] = set()
        self._up_at: dict[str, float] = {}
        for kind in (ActorUp, ActorDown, ActorParked):
            bus.subscribe(kind.subject(), Address("lives"), self)

    def over(self) -> None:
        """Claims that everybody who lived was announced dead."""
        self.play.claim(not self.alive, f"never announced down: {sorted(self.alive)}")

    def deliver(self, envelope: Envelope) -> Verdict:
        fact: Any = decode_message(envelope.subject, envelope.body, envelope.attachments)
        address = fact.address
        if isinstance(fact, ActorUp):
            self.play.note(f"{address} is up, life {fact.incarnation}")
            self.play.claim(address not in self.alive, f"{address} has two lives at once")
            self.alive[address] = fact.incarnation
            self.parked.discard(address)
            self._up_at[address] = self.play.now()
        elif isinstance(fact, ActorDown):
            self.play.note(f"{address} is down: {fact.reason}, back in {fact.next_try}")
            self.alive.pop(address, None)
            self.deaths[address] += 1
            self.down_at[address] = self.play.now()
            self.lasted[address] = self.play.now() - self._up_at.pop(address, self.play.now())
        else:
            self.play.note(f"{address} is parked: {fact.reason}")
            self.parked.add(address)
        return Verdict.ADMITTED

    def cancel(self, envelope_id: int) -> None:
        return None

    def is_serial(self, subject: str) -> bool:
        return False
