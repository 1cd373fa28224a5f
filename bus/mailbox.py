"""Mailbox: one actor's bounded inbox, FIFO within a lane, control before ordinary.

Pure: it never waits and knows no clock. When the ordinary lane is full, asks and tells
queue up in a bounded waiting line behind it (backpressure) and facts give way: one with
the key of a fact still queued takes its place, others are refused and counted.
"""

from __future__ import annotations

from collections import deque
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
    """Bounded two-lane queue.

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
        self._control: deque[Envelope] = deque()
        self._ordinary: deque[Envelope] = deque()
        self._waiting: deque[Envelope] = deque()
        self._latest: dict[tuple[str, str], Envelope] = {}
        self._queued: set[int] = set()
        self._in_line: set[int] = set()
        self._withdrawn: set[int] = set()

    def __len__(self) -> int:
        return len(self._control) + len(self._ordinary) + len(self._waiting) - len(self._withdrawn)

    def offer(self, envelope: Envelope) -> Verdict:
        """Takes an envelope in, makes it wait, or refuses it."""
        if envelope.kind == "fact" and envelope.key:
            slot = (envelope.subject, envelope.key)
            if slot in self._latest:
                self._latest[slot] = envelope
                return Verdict.COALESCED
        verdict = self._place(envelope)
        if verdict is not Verdict.REFUSED:
            if envelope.id:
                (self._in_line if verdict is Verdict.WAITING else self._queued).add(envelope.id)
            if envelope.kind == "fact" and envelope.key:
                self._latest[envelope.subject, envelope.key] = envelope
            self.high_water = max(self.high_water, len(self))
        return verdict

    def take(self) -> Envelope | None:
        """The next envelope, control before ordinary, or `None`."""
        while True:
            if self._control:
                envelope = self._control.popleft()
            elif self._ordinary:
                envelope = self._ordinary.popleft()
                self._advance()
            else:
                return None
            if envelope.id:
                if envelope.id in self._withdrawn:
                    self._withdrawn.discard(envelope.id)
                    continue
                self._queued.discard(envelope.id)
            if envelope.kind == "fact" and envelope.key:
                return self._latest.pop((envelope.subject, envelope.key))
            return envelope

    def withdraw(self, envelope_id: int) -> Whereabouts | None:
        """Takes a queued envelope out again and says where it was; `None` when it is not here (any more)."""
        if envelope_id in self._queued:
            self._queued.discard(envelope_id)
            found: Whereabouts = "queued"
        elif envelope_id in self._in_line:
            self._in_line.discard(envelope_id)
            found = "waiting"
        else:
            return None
        self._withdrawn.add(envelope_id)
        if len(self._withdrawn) > 64 and len(self._withdrawn) > len(self):
            self._sweep()
        return found

    def empty(self) -> list[Envelope]:
        """Takes everything out, in the order it would have been handled."""
        left = []
        while (envelope := self.take()) is not None:
            left.append(envelope)
        return left

    def _place(self, envelope: Envelope) -> Verdict:
        if envelope.lane == "control":
            if len(self._control) >= self.capacity:
                return Verdict.REFUSED
            self._control.append(envelope)
            return Verdict.ADMITTED
        if len(self._ordinary) < self.capacity:
            self._ordinary.append(envelope)
            return Verdict.ADMITTED
        if self._withdrawn:
            self._sweep()
            if len(self._ordinary) < self.capacity:
                self._ordinary.append(envelope)
                return Verdict.ADMITTED
        if envelope.kind == "fact" or not envelope.id or len(self._waiting) >= self.waiting_capacity:
            return Verdict.REFUSED
        self._waiting.append(envelope)
        return Verdict.WAITING

    def _advance(self) -> None:
        while self._waiting and len(self._ordinary) < self.capacity:
            envelope = self._waiting.popleft()
            if envelope.id in self._withdrawn:
                self._withdrawn.discard(envelope.id)
                continue
            self._in_line.discard(envelope.id)
            self._queued.add(envelope.id)
            self._ordinary.append(envelope)
            if self._on_admit is not None:
                self._on_admit(envelope)

    def _sweep(self) -> None:
        gone = self._withdrawn
        for lane in (self._control, self._ordinary, self._waiting):
            kept = [envelope for envelope in lane if envelope.id not in gone]
            lane.clear()
            lane.extend(kept)
        gone.clear()
        self._advance()
