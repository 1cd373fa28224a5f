"""The tally: a meter that counts in plain numbers, cheap enough for every envelope.

It renders nothing; whoever shows it reads the attributes and may do so at any time, in the
event loop of the bus. Rows are made for message types, actors and error codes; all are few, and
what exceeds `ROWS` and `CODES` (only a peer that makes names up can do that) is counted as `OTHER`.
"""

from __future__ import annotations

import copy
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from typing import Final

from ..wire.envelope import Address, Envelope
from ..wire.errors import SmcpError
from .measure import Outcome
from .pending import Answer, Settled

BOUNDS: Final = (
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Upper bounds of the histograms, in seconds; one more place counts everything above."""
QUICK: Final = BOUNDS[0]
ROWS: Final = 1024
CODES: Final = 64
OTHER: Final = "other"


class Spread:
    """A histogram of durations.

    Attributes:
        quick: How many took `QUICK` at most; most do, and this spares them the search.
        counts: The others, per bucket and not cumulative; the last is for everything above `BOUNDS`.
        total: Seconds altogether.
    """

    __slots__ = ("counts", "quick", "total")

    def __init__(self) -> None:
        self.quick = 0
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Counts one duration."""
        self.total += seconds
        if seconds <= QUICK:
            self.quick += 1
        else:
            self.counts[bisect_left(BOUNDS, seconds)] += 1

    def merge(self, other: Spread) -> None:
        """Adds what another one counted."""
        self.quick += other.quick
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        """How many there were."""
        return self.quick + sum(self.counts)


class Work(Spread):
    """What one actor did with one message type: how long its handlers ran.

    Attributes:
        failed, cancelled: Handlers that ended so; they are in the histogram too.
        latency: Of the asks among them that were answered, from being sent to the reply.
        bytes_in, bytes_out: Bytes of these asks and of their replies.
    """

    __slots__ = ("bytes_in", "bytes_out", "cancelled", "failed", "latency")

    def __init__(self) -> None:
        super().__init__()
        self.failed = self.cancelled = self.bytes_in = self.bytes_out = 0
        self.latency = Spread()


class Traffic(Spread):
    """What else became of one message type: asks and tells that did not end in the reply of a handler here.

    Attributes:
        kind: ask, tell or fact.
        failed: Those that did not end well, by code; they are in the histogram too.
        delivered: What nobody waits for the end of: facts, once for each observer, and tells without a receipt.
        bytes_in: Bytes of all of these; `bytes_out` those of replies from elsewhere.
    """

    __slots__ = ("bytes_in", "bytes_out", "delivered", "failed", "kind")

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.delivered = self.bytes_in = self.bytes_out = 0
        self.failed: Counter[str] = Counter()


class Tally:
    """Counts what a bus does. Implements `Meter`.

    Attributes:
        traffic: By message type.
        work: By actor and message type.
        refusals: Envelopes that were not accepted, by reason.
        dropped, coalesced: Facts that slow observers lost, and that took the place of an older one, by message type.
        dead: Messages to nobody, by message type.
    """

    def __init__(self) -> None:
        self.traffic: dict[str, Traffic] = {}
        self.work: dict[str, dict[str, Work]] = {}
        self.refusals: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.coalesced: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()

    # -- the hot path ----------------------------------------------------------------------

    def handled(self, address: Address, envelope: Envelope, began: float, ended: float, end: Answer | Outcome) -> None:
        try:
            row = self.work[address][envelope.subject]
        except KeyError:
            row = self._new_work(address, envelope.subject)
        # `Spread.add`, unrolled twice: the calls would cost more than what they do.
        took = ended - began
        row.total += took
        if took <= QUICK:
            row.quick += 1
        else:
            row.counts[bisect_left(BOUNDS, took)] += 1
        if isinstance(end, Answer):
            latency = ended - envelope.enqueued_at
            spread = row.latency
            spread.total += latency
            if latency <= QUICK:
                spread.quick += 1
            else:
                spread.counts[bisect_left(BOUNDS, latency)] += 1
            row.bytes_in += _size(envelope) if envelope.attachments else len(envelope.body)
            row.bytes_out += _size(end) if end.attachments else len(end.body)
        elif end == "failed":
            row.failed += 1
        elif end == "cancelled":
            row.cancelled += 1

    # -- rarer ---------------------------------------------------------------------------

    def answered(self, envelope: Envelope, latency: float, end: Settled) -> None:
        row = self._traffic_of(envelope)
        row.add(latency)
        row.bytes_in += _size(envelope)
        if isinstance(end, SmcpError):
            _count(row.failed, end.code, CODES)
        elif end is not None:
            row.bytes_out += _size(end)

    def abandoned(self, envelope: Envelope, latency: float) -> None:
        row = self._traffic_of(envelope)
        row.add(latency)
        row.bytes_in += _size(envelope)
        row.failed["cancelled"] += 1

    def delivered(self, envelope: Envelope) -> None:
        row = self._traffic_of(envelope)
        row.delivered += 1
        row.bytes_in += _size(envelope)

    def refused(self, envelope: Envelope, why: str) -> None:
        self.refusals[why] += 1

    def dead_letter(self, envelope: Envelope, why: str) -> None:
        _count(self.dead, envelope.subject, ROWS)

    def fact_dropped(self, envelope: Envelope, observer: Address) -> None:
        _count(self.dropped, envelope.subject, ROWS)

    def fact_coalesced(self, envelope: Envelope, observer: Address) -> None:
        _count(self.coalesced, envelope.subject, ROWS)

    def joined(self, work: Mapping[str, Mapping[str, Work]]) -> Tally:
        """These counts together with what actors did elsewhere; both stay as they are."""
        both = copy.copy(self)
        both.work = {address: dict(rows) for address, rows in self.work.items()}
        for address, rows in work.items():
            known = both.work.setdefault(address, {})
            for subject, row in rows.items():
                known[subject] = row if subject not in known else _sum(known[subject], row)
        return both

    def forget(self, address: Address) -> None:
        """Drops the rows of an actor that is gone for good."""
        self.work.pop(address, None)

    def _traffic_of(self, envelope: Envelope) -> Traffic:
        subject = envelope.subject if envelope.subject in self.traffic or len(self.traffic) < ROWS else OTHER
        row = self.traffic.get(subject)
        if row is None:
            row = self.traffic[subject] = Traffic(envelope.kind)
        return row

    def _new_work(self, address: str, subject: str) -> Work:
        rows = self.work.setdefault(address if address in self.work or len(self.work) < ROWS else OTHER, {})
        return rows.setdefault(subject if len(rows) < ROWS else OTHER, Work())


def _count(counter: Counter[str], name: str, most: int) -> None:
    counter[name if name in counter or len(counter) < most else OTHER] += 1


def _sum(one: Work, other: Work) -> Work:
    total = Work()
    for part in (one, other):
        total.merge(part)
        total.latency.merge(part.latency)
        for name in ("failed", "cancelled", "bytes_in", "bytes_out"):
            setattr(total, name, getattr(total, name) + getattr(part, name))
    return total


def _size(letter: Envelope | Answer) -> int:
    return len(letter.body) + sum(map(len, letter.attachments))
