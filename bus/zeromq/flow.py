"""Credit: how much of what one peer has not answered yet may be out, and who waits for a place.

One flow per address and lane of a peer, so that a paused actor holds up nobody else on
its node and control messages never queue behind ordinary ones. The window is the credit;
an answer or receipt gives it back. Facts have one flow per peer and give way instead of
waiting; one subject with many keys cannot shut the others out. Pure, like the mailbox it
keeps its line in.
"""

from __future__ import annotations

from collections import Counter

from ...wire.envelope import Envelope
from ..mailbox import Mailbox, Verdict, Whereabouts

WINDOW = 1024
"""Messages for one address and lane that may be unanswered; as many as a mailbox holds."""
LINE = 4096
"""Messages that may wait for one of those places."""
FACT_WINDOW = 1024
FACT_LINE = 1024
"""Facts of one subject that wait for credit. Behind them a quarter more may wait, of other subjects: those with few
keys have room whatever one with many does."""
UNREAD_MAX = 131_072
"""Messages a peer may leave unread: twice what it may have unanswered. One that provokes answers and takes none counts
as gone, before they fill our memory."""
FACTS_PER_RECEIPT = 128
"""Facts a receiver takes before it says so."""


class Flow:
    """Window and line of the directed messages to one address."""

    __slots__ = ("line", "out", "window")

    def __init__(self, window: int = WINDOW, line: int = LINE) -> None:
        self.window = window
        self.out = 0
        self.line = Mailbox(line, waiting=0)

    def offer(self, envelope: Envelope) -> Verdict:
        """Takes a place for the envelope (it may leave now), or makes it wait, or refuses it."""
        if self.out < self.window and not len(self.line):
            self.out += 1
            return Verdict.ADMITTED
        return Verdict.REFUSED if self.line.offer(envelope) is Verdict.REFUSED else Verdict.WAITING

    def release(self) -> Envelope | None:
        """Gives a place back; the envelope that takes it and leaves now, if one waits."""
        self.out -= 1
        envelope = self.line.take() if self.out < self.window else None
        if envelope is not None:
            self.out += 1
        return envelope

    def withdraw(self, envelope_id: int) -> Whereabouts | None:
        """Takes an envelope out of the line; `None` when it does not wait there."""
        return "waiting" if self.line.withdraw(envelope_id) else None


class FactFlow:
    """Window and line of the facts to one peer."""

    def __init__(self, window: int = FACT_WINDOW, line: int = FACT_LINE) -> None:
        self.window = window
        self.out = 0
        self.line = Mailbox(line + line // 4, waiting=0)
        self._share = line
        self._waiting: Counter[str] = Counter()

    def offer(self, envelope: Envelope) -> Verdict:
        """`ADMITTED` leaves now, `WAITING` leaves later, `COALESCED` replaced an older fact, `REFUSED` is dropped."""
        if self.out < self.window and not len(self.line):
            self.out += 1
            return Verdict.ADMITTED
        subject = envelope.subject
        if self._waiting[subject] >= self._share and not self.line.coalesces(envelope):
            return Verdict.REFUSED
        verdict = self.line.offer(envelope)
        if verdict is not Verdict.ADMITTED:
            return verdict
        self._waiting[subject] += 1
        return Verdict.WAITING

    def release(self, facts: int) -> list[Envelope]:
        """Gives places back; the facts that take them and leave now."""
        self.out = max(0, self.out - max(0, facts))
        leaving: list[Envelope] = []
        while self.out < self.window and (envelope := self.line.take()) is not None:
            self.out += 1
            self._waiting[envelope.subject] -= 1
            leaving.append(envelope)
        return leaving
