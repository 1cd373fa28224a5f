"""The supervision table of one MCP server against servers that do not start, get lost and do not end."""

from __future__ import annotations

import math

from smcp_runtime.actors.mcp.supervision.lifecycle import (
    Begin,
    Cause,
    Closed,
    End,
    Event,
    Lifecycle,
    Lost,
    Nature,
    Placed,
    Restart,
    Start,
    Started,
    StartFailed,
    Stop,
    Tick,
    Withdraw,
)
from smcp_runtime.wire.messages.mcp import ReconnectPolicy

from .clock import Clock
from .play import Play

FAULTS_END = 600.0
LONGEST_STEP = 5.0
MOMENT = 1e-6


class Life:
    """One attempt of the fake server: where it is, and what will become of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.placed = self.ready = self.ending = self.over = False


class Bench:
    """The shell of the table: obeys its orders with a server that has a mind of its own."""

    def __init__(self, play: Play) -> None:
        self.play, self.clock = play, Clock()
        play.now = lambda: self.clock.now
        self.policy = ReconnectPolicy(
            enabled=play.chance(0.9),
            max_retries=play.pick(0, 1, 3, 5),
            initial_delay=play.span(0.05, 2.0),
            max_delay=play.span(2.0, 30.0),
            backoff_factor=play.pick(1.0, 2.0, 3.0),
            stable_after=play.span(1.0, 60.0),
            intensity_max=play.random.randint(1, 5),
            intensity_within=play.span(5.0, 60.0),
            park_retry=play.pick(0.0, play.span(10.0, 120.0)),
        )
        self.table = Lifecycle(self.policy, uniform=play.random.uniform)
        self.life: Life | None = None
        self.lives = 0
        self.tries: list[float] = []
        self.offered = False
        self.ready_since = 0.0

    # -- the shell ------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        before = self.table.state
        orders = self.table.handle(event, self.clock.now)
        after = self.table.state
        if before != after or orders:
            said = ", ".join(type(order).__name__ for order in orders)
            self.play.note(f"{type(event).__name__}: {before} -> {after} {said}")
        stable = before == "ready" and self.clock.now >= self.ready_since + self.policy.stable_after
        if isinstance(event, Start | Restart) or stable:
            self.tries.clear()
        if before == "backing_off" and after == "queued" and isinstance(event, Tick):
            self.tries.append(self.clock.now)
        if after == "ready" and before != after:
            self.ready_since = self.clock.now
        for order in orders:
            self.obey(order)
        self.hold()
        wake = self.table.wake_at
        if wake is not None and wake < math.inf:
            self.play.claim(wake >= self.clock.now - MOMENT, f"wants to be woken {self.clock.now - wake:g} s ago")
            self.clock.at(wake, lambda: self.handle(Tick()) if self.table.wake_at == wake else None)

    def obey(self, order: Event) -> None:
        if isinstance(order, Begin):
            self.play.claim(self.life is None or self.life.over, "a life began before the last one had ended")
            self.lives += 1
            self.life = Life(self.lives)
            self.later(self.life, self.place)
        elif isinstance(order, End):
            self.play.claim(self.life is not None and not self.life.over, "a life was ended that was none")
            assert self.life is not None
            self.life.ending = True
            self.later(self.life, self.end)
        elif isinstance(order, Withdraw):
            self.offered = False

    def later(self, life: Life, step: object) -> None:
        delay = self.play.pick(0.0, self.play.span(0.001, LONGEST_STEP))
        self.clock.after(delay, lambda: None if life.over else step(life))  # type: ignore[operator]

    # -- the server -----------------------------------------------------------------------

    @property
    def faulty(self) -> bool:
        return self.clock.now < FAULTS_END

    def place(self, life: Life) -> None:
        if not life.ending:
            life.placed = True
            self.handle(Placed())
            self.later(life, self.start)

    def start(self, life: Life) -> None:
        if life.ending:
            return
        if self.faulty and self.play.chance(0.4):
            nature: Nature = self.play.pick("passing", "passing", "passing", "configuration", "authorization")
            life.over = True
            self.handle(StartFailed(Cause("no", nature=nature)))
            return
        life.ready = True
        self.offered = True
        self.handle(Started())
        if self.faulty and self.play.chance(0.8):
            self.clock.after(self.play.span(0.01, 90.0), lambda: None if life.over else self.lose(life))

    def lose(self, life: Life) -> None:
        if life.ending:
            return
        if self.play.chance(0.2):
            self.end(life)  # it died before anybody noticed
        else:
            self.handle(Lost(Cause("lost", "network", "lost")))

    def end(self, life: Life) -> None:
        life.over = True
        self.handle(Closed() if life.ready or self.play.chance(0.5) else StartFailed(Cause("given up")))

    # -- what must hold ---------------------------------------------------------------------

    def hold(self) -> None:
        table, policy, claim = self.table, self.policy, self.play.claim
        alive = self.life is not None and not self.life.over
        claim(not self.offered or table.state == "ready", f"capabilities are offered in state {table.state}")
        claim(alive or table.state in ("stopped", "backing_off", "parked", "queued"), f"{table.state} without a life")
        claim(not alive or table.state not in ("stopped", "backing_off", "parked"), f"{table.state} with a life")
        claim(table.wanted or table.state in ("stopped", "stopping"), f"unwanted, but {table.state}")
        if table.cause is not None and table.cause.nature != "passing":
            claim(table.state != "backing_off", "what only a person can mend is tried again soon")
        if policy.enabled and policy.max_retries:
            window = [moment for moment in self.tries if moment > self.clock.now - policy.intensity_within + MOMENT]
            claim(len(window) <= policy.intensity_max, f"{len(window)} tries in {policy.intensity_within:g} s")

    def settled(self) -> None:
        table, policy = self.table, self.policy
        if not table.wanted:
            self.play.claim(table.state == "stopped", f"not wanted, and {table.state} long after")
            return
        for_good = table.state == "parked" and (policy.park_retry <= 0 or not policy.enabled)
        self.play.claim(table.state == "ready" or for_good, f"wanted, and {table.state} long after the last fault")
        if policy.enabled and not policy.max_retries and table.cause is not None:
            self.play.claim(table.cause.nature != "passing", "parked though it is to be retried for ever")


def server(play: Play) -> None:
    """One schedule: orders of a person, faults for ten minutes, then none."""
    bench = Bench(play)
    bench.clock.at(0.0, lambda: bench.handle(Start()))
    for _ in range(play.random.randint(0, 5)):
        moment = play.random.random() * FAULTS_END
        for _ in range(play.random.randint(1, 4)):  # people order in bursts, and change their minds
            order = play.pick(Start, Stop, Restart)
            bench.clock.at(moment, lambda order=order: bench.handle(order()))  # type: ignore[misc]
            moment += play.span(0.01, LONGEST_STEP)
    for _ in range(play.random.randint(0, 5)):
        bench.clock.at(play.random.random() * FAULTS_END, lambda: bench.handle(Tick()))
    bench.clock.run(FAULTS_END + 2 * (bench.policy.park_retry + 1.2 * bench.policy.max_delay) + 20 * LONGEST_STEP)
    bench.settled()
