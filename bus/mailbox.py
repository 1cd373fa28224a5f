"""Mailbox: one actor's bounded inbox, FIFO within a lane, control before ordinary.

Pure: it never waits and knows no clock. When the ordinary lane is full, asks and tells
queue up in a bounded waiting line behind it (backpressure) and facts give way: one with
the key of a fact still queued takes its place, others are refused and counted.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Literal

from ..wire.envelope import Envelope

Whereabouts = Literal["waiting", "queued", "running"]
"""Where a message is: in line for a place, in the mailbox, or in its handler."""


class Verdict(Enum):
    """What became of an offered envelope."""

    ADMITTED = "admitted"
    WAITING = "waiting"
    COALESCED = "coalesced"
    REFUSED = "refused"


class Mailbox:
    """Bounded two-lane queue; every operation takes constant time.

    Args:
        capacity: Messages the ordinary lane holds; the control lane holds as many of its own.
        waiting: Messages that may wait for a place in the ordinary lane.
        on_admit: Called for each envelope that leaves the waiting line for the lane.
    """

    def __init__(
        self, capacity: int = 1024, waiting: int = 4096, on_admit: Callable[[Envelope], None] | None = None
    ) -> None:
        self.capacity = capacity
        self.waiting_capacity = waiting
        self.high_water = 0
        self._on_admit = on_admit
        # Lanes are keyed by envelope id, facts and other envelopes without one by a negative number.
        self._control: OrderedDict[int, Envelope] = OrderedDict()
        self._ordinary: OrderedDict[int, Envelope] = OrderedDict()
        self._waiting: OrderedDict[int, Envelope] = OrderedDict()
        self._latest: dict[tuple[str, str], int] = {}
        self._numbers = itertools.count(-1, -1)

    def __len__(self) -> int:
        return len(self._control) + len(self._ordinary) + len(self._waiting)

    def offer(self, envelope: Envelope) -> Verdict:
        """Takes an envelope in, makes it wait, or refuses it."""
        if envelope.kind == "fact" and envelope.key:
            return self._offer_keyed(envelope)
        key = envelope.id or next(self._numbers)
        lane = self._control if envelope.lane == "control" else self._ordinary
        verdict = Verdict.ADMITTED
        if len(lane) >= self.capacity:
            if lane is self._control or not envelope.id or len(self._waiting) >= self.waiting_capacity:
                return Verdict.REFUSED
            lane = self._waiting
            verdict = Verdict.WAITING
        lane[key] = envelope
        depth = len(self._control) + len(self._ordinary) + len(self._waiting)
        if depth > self.high_water:  # noqa: PLR1730 - `max` costs as much as the rest of this method
            self.high_water = depth
        return verdict

    def coalesces(self, envelope: Envelope) -> bool:
        """Whether a fact would take the place of an older one."""
        return (envelope.subject, envelope.key) in self._latest

    def take(self) -> Envelope | None:
        """The next envelope, control before ordinary, or `None`."""
        if self._control:
            return self._control.popitem(last=False)[1]
        if not self._ordinary:
            return None
        envelope = self._ordinary.popitem(last=False)[1]
        if envelope.key and envelope.kind == "fact":
            del self._latest[envelope.subject, envelope.key]
        if self._waiting:
            self._advance()
        return envelope

    def withdraw(self, envelope_id: int) -> Whereabouts | None:
        """Takes a queued envelope out again and says where it was; `None` when it is not here (any more)."""
        if self._waiting.pop(envelope_id, None) is not None:
            return "waiting"
        if self._control.pop(envelope_id, None) is not None:
            return "queued"
        if self._ordinary.pop(envelope_id, None) is not None:
            self._advance()
            return "queued"
        return None

    def empty(self) -> list[Envelope]:
        """Takes everything out, in the order it would have been handled. Nothing is admitted meanwhile."""
        left = [*self._control.values(), *self._ordinary.values(), *self._waiting.values()]
        for lane in (self._control, self._ordinary, self._waiting):
            lane.clear()
        self._latest.clear()
        return left

    def _offer_keyed(self, envelope: Envelope) -> Verdict:
        """A fact with a key takes the place of the older one, else a place at the end of the ordinary lane."""
        slot = (envelope.subject, envelope.key)
        number = self._latest.get(slot)
        if number is not None:
            self._ordinary[number] = envelope
            return Verdict.COALESCED
        if len(self._ordinary) >= self.capacity:
            return Verdict.REFUSED
        number = next(self._numbers)
        self._latest[slot] = number
        self._ordinary[number] = envelope
        self.high_water = max(self.high_water, len(self))
        return Verdict.ADMITTED

    def _advance(self) -> None:
        while self._waiting and len(self._ordinary) < self.capacity:
            key, envelope = self._waiting.popitem(last=False)
            self._ordinary[key] = envelope
            if self._on_admit is not None:
                self._on_admit(envelope)
