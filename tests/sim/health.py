"""The probing of one session against servers that ignore pings, answer slowly, or stop."""

from __future__ import annotations

import math

from smcp_runtime.actors.mcp.session.listing import Kind
from smcp_runtime.actors.mcp.supervision.health import MISSES, Health
from smcp_runtime.wire.messages.mcp import HealthCheck

from .clock import Clock
from .play import Play

HORIZON = 900.0
MOMENT = 1e-6


class Patient:
    """A server, and the watch over it.

    Attributes:
        stops: When it stops answering anything, `inf` for never.
        found: When it was declared unhealthy.
    """

    def __init__(self, play: Play) -> None:
        self.play, self.clock = play, Clock()
        play.now = lambda: self.clock.now
        self.check = HealthCheck(interval=play.span(1.0, 60.0), timeout=play.span(0.2, 10.0))
        modern = play.chance(0.3)
        kinds: tuple[Kind, ...] = ("tools", "resources", "prompts")
        declared = {kind: play.pick(None, play.random.randint(2, 9999)) for kind in kinds if play.chance(0.6)}
        self.health = Health(self.check, modern=modern, declared=declared)
        self.ignores_ping = not modern and play.chance(0.4)
        self.slowness = self.check.timeout * play.random.random() * 0.99
        self.stops = play.pick(math.inf, play.random.random() * HORIZON / 2)
        self.work_until = -math.inf
        self.received = 0.0
        self.watched = True
        self.found: float | None = None

    def alive(self) -> bool:
        return self.clock.now < self.stops

    def probe_when_due(self) -> None:
        if not self.watched:
            return
        due = self.health.due(last_received=self.received, last_work=self.last_work())
        if due > self.clock.now + MOMENT:
            self.clock.at(due, self.probe_when_due)
        else:
            self.probe()

    def last_work(self) -> float | None:
        return self.work_began if self.clock.now < self.work_until else None

    work_began = -math.inf

    def probe(self) -> None:
        method = self.health.request()
        if method is None:
            self.watched = False
            self.play.note("nothing to probe with")
            return
        asked = self.clock.now
        self.health.asked(asked)
        answers = self.alive() and not (method == "ping" and self.ignores_ping)
        if answers:
            self.clock.after(self.slowness, lambda: self.answer(method, asked))
        else:
            self.clock.after(self.check.timeout, lambda: self.silence(method, asked))

    def answer(self, method: str, asked: float) -> None:
        if not self.alive():
            self.clock.at(asked + self.check.timeout, lambda: self.silence(method, asked))
            return
        self.received = self.clock.now
        self.health.answered(method)
        self.probe_when_due()

    def silence(self, method: str, asked: float) -> None:
        work = self.last_work()
        working = work is not None and self.clock.now - work < self.check.interval
        verdict = self.health.unanswered(method, heard=self.received > asked, working=working)
        self.play.note(f"no answer to {method}: {verdict}")
        if verdict == "unhealthy":
            self.found = self.clock.now
            self.watched = False
            self.play.claim(not self.alive(), "a server that answers was declared unhealthy")
        elif verdict == "ask_again":
            self.probe()
        else:
            self.probe_when_due()

    def chatter(self) -> None:
        """It sends something by itself."""
        if self.alive():
            self.received = self.clock.now

    def work(self) -> None:
        """An Agent keeps it busy for a while."""
        self.work_began = self.clock.now
        self.work_until = self.clock.now + self.play.span(0.1, 120.0)


def health(play: Play) -> None:
    """One schedule."""
    patient = Patient(play)
    patient.probe_when_due()
    for _ in range(play.random.randint(0, 12)):
        deed = play.pick(patient.chatter, patient.chatter, patient.work)
        patient.clock.at(play.random.random() * HORIZON, deed)
    patient.clock.run(HORIZON)
    if patient.found is None and patient.stops < math.inf and patient.watched:
        play.claim(False, "a server that stopped was never found")
    if patient.found is not None and patient.work_began == -math.inf:
        late = patient.found - patient.stops
        bound = patient.check.interval + (MISSES + 2) * patient.check.timeout
        play.claim(late <= bound + MOMENT, f"a stopped server was found after {late:g} s, {bound:g} s are enough")
