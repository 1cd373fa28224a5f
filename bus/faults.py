"""A bus that loses, delays and repeats messages, each decision drawn from a seed.

For tests and soaks: put a `FaultyBus` where a `Bus` would be, in one process or at any end of a
hub, and what others promise has to hold over it. It decorates both transports where a message
passes them: on its way into a mailbox or out to a node, and as an answer comes back. What it does
is counted, so that messages sent are those delivered, refused and dropped.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Literal

import anyio
import msgspec

from ..wire.envelope import Envelope
from .bus import Bus
from .measure import Meter
from .once import Once
from .pending import Answer, Settled

Fate = Literal["pass", "drop", "delay", "duplicate"]
FATES: tuple[Fate, ...] = ("drop", "delay", "duplicate")
Send = Callable[[list[bytes]], bool]


class Shares(msgspec.Struct, frozen=True):
    """How much of the traffic meets which fault; each share is 0 to 1, and together they are at most 1.

    Attributes:
        longest: Seconds a delayed message, or the second copy of a repeated one, comes late at most.
    """

    drop: float = 0.0
    delay: float = 0.0
    duplicate: float = 0.0
    longest: float = 0.2


NONE = Shares()


class Faults:
    """Draws the fate of each message. Pure but for its counts; the same seed and traffic give the same faults.

    Args:
        chosen: The envelopes that may meet one; an answer is judged by the ask it belongs to.

    Attributes:
        shares: May be changed at any time.
        done: Faults so far, by kind of message and fate, such as `("ask", "drop")`; kinds are ask, tell, fact, answer
            and, for what was said twice on a line between processes, frame.
        suppressed: Second copies that were recognised and not worked on.
        late: Messages that nobody waited for any more when their time had come, and that went no further.
    """

    def __init__(
        self, seed: int, shares: Shares = NONE, *, chosen: Callable[[Envelope], bool] = lambda _: True
    ) -> None:
        self.shares = shares
        self.chosen = chosen
        self.done: Counter[tuple[str, Fate]] = Counter()
        self.suppressed = self.late = 0
        self._random = random.Random(seed)

    def fate(self, envelope: Envelope, kind: str) -> Fate:
        """What happens to a message, as an envelope or (`answer`) as what becomes of it."""
        if self.shares is NONE or not self.chosen(envelope):
            return "pass"
        return self._draw(kind)

    def repeats(self) -> bool:
        """Whether a frame is said twice."""
        return self.shares.duplicate > 0 and self._draw("frame", ("duplicate",)) == "duplicate"

    def lateness(self) -> float:
        """Seconds."""
        return self._random.uniform(0.0, self.shares.longest)

    def _draw(self, kind: str, among: tuple[Fate, ...] = FATES) -> Fate:
        point = self._random.random()
        for fate in among:
            point -= getattr(self.shares, fate)
            if point < 0:
                self.done[kind, fate] += 1
                return fate
        return "pass"


class FaultyBus(Bus):
    """A `Bus` with faults.

    Messages to somebody here travel over a line with faults and are recognised when they come a second time, as links
    between processes do; a message to another process is said twice on the link itself. A dropped message ends like
    one that was lost: by its deadline, as unknown. A late one that nobody waits for any more is not delivered. Facts
    carry no number: an observer sees a repeated one twice.
    """

    def __init__(self, faults: Faults, meter: Meter | None = None, clock: Callable[[], float] | None = None) -> None:
        super().__init__(meter, clock)
        self.faults = faults
        self._numbers = itertools.count(1)
        self._arrived = Once()

    # -- on the way out -----------------------------------------------------------------------

    def dispatch(self, envelope: Envelope) -> bool:
        fate = self.faults.fate(envelope, envelope.kind)
        if fate == "drop":
            return True
        number = next(self._numbers)
        if fate == "delay":
            self._later(lambda: self._deliver_late(number, envelope))
            return True
        if fate == "duplicate" and envelope.target in self._receivers:
            copy = msgspec.structs.replace(envelope)
            self._later(lambda: self._deliver(number, copy))
        return self._deliver(number, envelope)

    def spread(self, envelope: Envelope) -> None:
        fate = self.faults.fate(envelope, "fact")
        if fate in ("pass", "duplicate"):
            super().spread(envelope)
        if fate in ("delay", "duplicate"):
            copy = msgspec.structs.replace(envelope)
            deliver = super().spread
            self._later(lambda: deliver(copy))

    def line(self, send: Send) -> Send:
        def over(message: list[bytes]) -> bool:
            if self.faults.repeats():
                self._later(lambda: send(message))
            return send(message)

        return over

    # -- on the way back ----------------------------------------------------------------------

    def reply(self, envelope_id: int, answer: Answer) -> bool:
        if self._answers(envelope_id, answer):
            return super().reply(envelope_id, answer)
        return True

    def settle(self, envelope_id: int, settled: Settled) -> None:
        if not isinstance(settled, Answer) or self._answers(envelope_id, settled):
            super().settle(envelope_id, settled)

    def _answers(self, envelope_id: int, answer: Answer) -> bool:
        """Whether an answer gets through now."""
        pending = self._pending.get(envelope_id)
        fate = self.faults.fate(pending.envelope, "answer") if pending is not None else "pass"
        end = super().settle
        if fate in ("delay", "duplicate"):
            self._later(lambda: end(envelope_id, answer))
        return fate in ("pass", "duplicate")

    # -- inside -------------------------------------------------------------------------------

    def _deliver(self, number: int, envelope: Envelope) -> bool:
        if number in self._arrived:
            self.faults.suppressed += 1
            return True
        self._arrived.note(number)
        return super().dispatch(envelope)

    def _deliver_late(self, number: int, envelope: Envelope) -> None:
        if envelope.id and envelope.id not in self._pending:
            self.faults.late += 1
        elif not self.closed:
            self._deliver(number, envelope)

    def _later(self, call: Callable[[], object]) -> None:
        assert self._tasks is not None
        self._tasks.start_soon(self._after, self.faults.lateness(), call)

    async def _after(self, seconds: float, call: Callable[[], object]) -> None:
        await anyio.sleep(seconds)
        call()
