"""The supervision of one server as a table: what each event means in each state, with time as an argument.

It decides, the shell (`actor.py`) acts: events go in, orders come out. A *life* is one attempt with all
that belongs to it, from rendering the plan to the end of the process. The table lets the next life begin
only after the one before has reported its end, so there are never two (R-MCP-9).
Spec: DEC-1, DEC-2, DEC-3, DEC-35, R-MCP-21…24.
"""

from __future__ import annotations

import random
from typing import ClassVar, Literal

import msgspec

from ....wire.messages.mcp import Connection, ReconnectPolicy
from .restart_law import RestartLaw, Uniform

State = Literal["stopped", "idle", "queued", "starting", "ready", "unhealthy", "backing_off", "parked", "stopping"]
Nature = Literal["passing", "configuration", "authorization"]


class Cause(msgspec.Struct, frozen=True):
    """Why a server is not ready. `nature` decides what trying again is worth: only what may pass is tried soon."""

    text: str
    category: str = "startup"
    code: str = "startup"
    nature: Nature = "passing"


class Event(msgspec.Struct, frozen=True):
    """Something the table reacts to."""


class Start(Event, frozen=True):
    """A person, or the boot, wants the server started; forgets earlier failures."""


class Rest(Event, frozen=True):
    """It is wanted, but only started once it is needed (F-68)."""


class Stop(Event, frozen=True):
    """It is not wanted any more."""


class Restart(Event, frozen=True):
    """It is wanted anew: a new life, whatever it is doing."""


class Placed(Event, frozen=True):
    """The life has its place under the start caps and begins to launch."""


class Started(Event, frozen=True):
    """The life has a session."""


class StartFailed(Event, frozen=True):
    """The life ended before it had a session; nothing of it is left."""

    cause: Cause


class Lost(Event, frozen=True):
    """The session is of no use any more, but what belongs to it still has to end."""

    cause: Cause


class Closed(Event, frozen=True):
    """The life has ended after it had a session, or because it was told to; nothing of it is left."""


class Tick(Event, frozen=True):
    """Time has passed; sent at `wake_at` at the latest, harmless at any other time."""


class Begin(Event, frozen=True):
    """Order: begin a life."""


class Withdraw(Event, frozen=True):
    """Order: nothing of this server is offered from now on."""


class End(Event, frozen=True):
    """Order: end the life, with a drain of the calls in flight if `drain`."""

    drain: bool


class Lifecycle:
    """State of one server.

    Attributes:
        state: Where it is in the table.
        since: When it got there.
        wanted: The accepted intention (*activation* of R-MCP-24).
        cause: Why it is not ready, kept until it is.
        next_try: When a waiting server is tried again, `None` for never.
        idle_after: Seconds without use after which a ready server is ended until it is needed, `None` for never.
    """

    def __init__(
        self, policy: ReconnectPolicy | None = None, *, now: float = 0.0, uniform: Uniform = random.uniform
    ) -> None:
        self.state: State = "stopped"
        self.since = now
        self.wanted = False
        self.cause: Cause | None = None
        self.next_try: float | None = None
        self.law = RestartLaw(policy or ReconnectPolicy(), uniform)
        self.idle_after: float | None = None
        self._stable_at: float | None = None
        self._again = False
        self._in_use = False
        self._unused_since = now

    def handle(self, event: Event, now: float) -> list[Event]:
        """What to do about an event. An event that means nothing in this state does nothing."""
        method = self._TABLE.get((self.state, type(event)))
        return getattr(self, method)(event, now) if method is not None else []

    @property
    def wake_at(self) -> float | None:
        """When a `Tick` is due; `None` if nothing is waited for."""
        if self.state != "ready":
            return self.next_try
        return min((at for at in (self._stable_at, self._idle_at) if at is not None), default=None)

    @property
    def connection(self) -> Connection:
        """The second public axis (R-MCP-24)."""
        if self.state == "parked" and self.cause is not None and self.cause.nature == "authorization":
            return "authorization_required"
        return _CONNECTION[self.state]

    def used(self) -> None:
        """Somebody needs the server from now on."""
        self._in_use = True

    def unused(self, now: float) -> None:
        """Nobody needs it any more; `wake_at` may have moved."""
        self._in_use, self._unused_since = False, now

    @property
    def _idle_at(self) -> float | None:
        return None if self.idle_after is None or self._in_use else self._unused_since + self.idle_after

    # -- reactions ----------------------------------------------------------------------

    def _begin(self, event: Event, now: float) -> list[Event]:
        self.wanted = True
        self.law.clear()
        self.cause = None
        return self._enter_queue(now)

    def _wish(self, event: Event, now: float) -> list[Event]:
        """Wanted (again) while a life is under way that may serve."""
        self.wanted = True
        self.law.clear()
        return []

    def _wish_anew(self, event: Event, now: float) -> list[Event]:
        """Wanted again while a life is ending."""
        self.wanted = self._again = True
        self.law.clear()
        return []

    def _unwish(self, event: Event, now: float) -> list[Event]:
        self.wanted = self._again = False
        return []

    def _abort(self, event: Event, now: float) -> list[Event]:
        self.wanted = self._again = False
        self._move("stopping", now)
        return [End(drain=False)]

    def _abort_and_again(self, event: Event, now: float) -> list[Event]:
        self._abort(event, now)
        self._wish_anew(event, now)
        return [End(drain=False)]

    def _end(self, event: Event, now: float) -> list[Event]:
        self.wanted = self._again = False
        self.cause = None
        self._move("stopping", now)
        return [Withdraw(), End(drain=True)]

    def _end_and_again(self, event: Event, now: float) -> list[Event]:
        orders = self._end(event, now)
        self._wish_anew(event, now)
        return orders

    def _end_unhealthy(self, event: Event, now: float) -> list[Event]:
        self.wanted = self._again = False
        self._move("stopping", now)
        return []

    def _give_up_waiting(self, event: Event, now: float) -> list[Event]:
        self.wanted = False
        self.cause = None
        self._move("stopped", now)
        return []

    def _launch(self, event: Event, now: float) -> list[Event]:
        self._move("starting", now)
        return []

    def _ready(self, event: Event, now: float) -> list[Event]:
        self.cause = None
        self._move("ready", now)
        self._stable_at = now + self.law.policy.stable_after
        self._unused_since = now
        return self._age(event, now)

    def _age(self, event: Event, now: float) -> list[Event]:
        if self._stable_at is not None and now >= self._stable_at:
            self.law.clear()
            self._stable_at = None
        return []

    def _look(self, event: Event, now: float) -> list[Event]:
        """Time has passed for a server that is up: it may be stable by now, or have idled long enough."""
        self._age(event, now)
        if self._idle_at is None or now < self._idle_at:
            return []
        self._move("stopping", now)
        return [End(drain=True)]  # what it listed stays known

    def _rest(self, event: Event, now: float) -> list[Event]:
        self.wanted = True
        self._move("idle", now)
        return []

    def _lose(self, event: Event, now: float) -> list[Event]:
        assert isinstance(event, Lost)
        self._age(event, now)
        self.cause = event.cause
        self._move("unhealthy", now)
        return [Withdraw(), End(drain=False)]

    def _failed(self, event: Event, now: float) -> list[Event]:
        assert isinstance(event, StartFailed)
        self.cause = event.cause
        return self._wait(now)

    def _gone(self, event: Event, now: float) -> list[Event]:
        """An unhealthy life has ended."""
        if self._again:
            return self._enter_queue(now)
        return self._wait(now)

    def _died(self, event: Event, now: float) -> list[Event]:
        """A life ended by itself before anybody noticed that it was lost."""
        self._age(event, now)
        self.cause = Cause("the session ended", "network", "lost")
        return [Withdraw(), *self._wait(now)]

    def _stopped(self, event: Event, now: float) -> list[Event]:
        if self._again:
            return self._enter_queue(now)
        # Only a server that ends because nobody uses it is still wanted then.
        self._move("idle" if self.wanted else "stopped", now)
        return []

    def _try_again(self, event: Event, now: float) -> list[Event]:
        if self.next_try is None or now < self.next_try:
            return []
        self.law.tried(now)
        return self._enter_queue(now)

    # -- steps --------------------------------------------------------------------------

    def _enter_queue(self, now: float) -> list[Event]:
        self._again = False
        self._move("queued", now)
        return [Begin()]

    def _wait(self, now: float) -> list[Event]:
        """After a failure: backs off, or parks (DEC-35, R-MCP-23)."""
        assert self.cause is not None
        due = self.law.next_try(now) if self.cause.nature == "passing" else None
        if due is not None:
            self._move("backing_off", now)
            self.next_try = due
        else:
            self._move("parked", now)
            self.next_try = self.law.slow_try(now)
        return []

    def _move(self, state: State, now: float) -> None:
        self.state, self.since = state, now
        self.next_try = self._stable_at = None

    _TABLE: ClassVar[dict[tuple[State, type[Event]], str]] = {
        ("stopped", Start): "_begin",
        ("stopped", Restart): "_begin",
        ("stopped", Rest): "_rest",
        ("idle", Start): "_begin",
        ("idle", Restart): "_begin",
        ("idle", Stop): "_give_up_waiting",
        ("queued", Start): "_wish",
        ("queued", Restart): "_wish",
        ("queued", Stop): "_abort",
        ("queued", Placed): "_launch",
        ("queued", StartFailed): "_failed",
        ("starting", Start): "_wish",
        ("starting", Restart): "_abort_and_again",
        ("starting", Stop): "_abort",
        ("starting", Started): "_ready",
        ("starting", StartFailed): "_failed",
        ("ready", Start): "_wish",
        ("ready", Restart): "_end_and_again",
        ("ready", Stop): "_end",
        ("ready", Lost): "_lose",
        ("ready", Closed): "_died",
        ("ready", Tick): "_look",
        ("unhealthy", Start): "_wish_anew",
        ("unhealthy", Restart): "_wish_anew",
        ("unhealthy", Stop): "_end_unhealthy",
        ("unhealthy", Closed): "_gone",
        ("backing_off", Start): "_begin",
        ("backing_off", Restart): "_begin",
        ("backing_off", Stop): "_give_up_waiting",
        ("backing_off", Tick): "_try_again",
        ("parked", Start): "_begin",
        ("parked", Restart): "_begin",
        ("parked", Stop): "_give_up_waiting",
        ("parked", Tick): "_try_again",
        ("stopping", Start): "_wish_anew",
        ("stopping", Restart): "_wish_anew",
        ("stopping", Stop): "_unwish",
        ("stopping", StartFailed): "_stopped",
        ("stopping", Closed): "_stopped",
    }


_CONNECTION: dict[State, Connection] = {
    "stopped": "disconnected",
    "idle": "disconnected",
    "queued": "connecting",
    "starting": "connecting",
    "ready": "connected",
    "unhealthy": "error",
    "backing_off": "error",
    "parked": "error",
    "stopping": "disconnected",
}
