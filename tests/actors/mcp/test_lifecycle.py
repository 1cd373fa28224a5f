"""The supervision table on a clock that the test moves: every transition, and what holds over any sequence of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from smcp_runtime.actors.mcp.supervision.lifecycle import (
    Begin,
    Cause,
    Closed,
    End,
    Event,
    Lifecycle,
    Lost,
    Placed,
    Rest,
    Restart,
    Start,
    Started,
    StartFailed,
    State,
    Stop,
    Tick,
    Withdraw,
)
from smcp_runtime.wire.messages.mcp import ReconnectPolicy

spec = pytest.mark.spec

PASSING = Cause("it exited with status 1")
MISSING = Cause("no value for token", "missing_input", "missing_input", "configuration")
UNAUTHORIZED = Cause("HTTP 401", "auth", "4006", "authorization")


def middle(low: float, high: float) -> float:
    """No jitter."""
    return (low + high) / 2


def lifecycle(**policy: Any) -> Lifecycle:
    return Lifecycle(ReconnectPolicy(**policy), uniform=middle)


def in_state(state: State, **policy: Any) -> Lifecycle:
    """A table that has got into `state` by time 10."""
    table = lifecycle(**policy)
    ways: dict[State, list[Event]] = {
        "stopped": [],
        "idle": [Rest()],
        "queued": [Start()],
        "starting": [Start(), Placed()],
        "ready": [Start(), Placed(), Started()],
        "unhealthy": [Start(), Placed(), Started(), Lost(PASSING)],
        "backing_off": [Start(), Placed(), StartFailed(PASSING)],
        "parked": [Start(), StartFailed(MISSING)],
        "stopping": [Start(), Placed(), Started(), Stop()],
    }
    for event in ways[state]:
        table.handle(event, 10.0)
    assert table.state == state
    return table


LEAVE = [Withdraw(), End(drain=True)]
CUT = [End(drain=False)]
GIVE_UP = [Withdraw(), End(drain=False)]
BEGIN: list[Event] = [Begin()]


@spec("DEC-1", "R-MCP-24")
@pytest.mark.parametrize(
    ("state", "event", "after", "orders"),
    [
        ("stopped", Start(), "queued", BEGIN),
        ("stopped", Restart(), "queued", BEGIN),
        ("stopped", Stop(), "stopped", []),
        ("stopped", Tick(), "stopped", []),
        ("stopped", Rest(), "idle", []),
        ("idle", Start(), "queued", BEGIN),
        ("idle", Restart(), "queued", BEGIN),
        ("idle", Stop(), "stopped", []),
        ("idle", Rest(), "idle", []),
        ("idle", Tick(), "idle", []),
        ("queued", Start(), "queued", []),
        ("queued", Restart(), "queued", []),
        ("queued", Stop(), "stopping", CUT),
        ("queued", Placed(), "starting", []),
        ("queued", StartFailed(PASSING), "backing_off", []),
        ("queued", StartFailed(MISSING), "parked", []),
        ("starting", Start(), "starting", []),
        ("starting", Restart(), "stopping", CUT),
        ("starting", Stop(), "stopping", CUT),
        ("starting", Started(), "ready", []),
        ("starting", StartFailed(PASSING), "backing_off", []),
        ("starting", StartFailed(UNAUTHORIZED), "parked", []),
        ("ready", Start(), "ready", []),
        ("ready", Restart(), "stopping", LEAVE),
        ("ready", Stop(), "stopping", LEAVE),
        ("ready", Lost(PASSING), "unhealthy", GIVE_UP),
        ("ready", Closed(), "backing_off", [Withdraw()]),
        ("ready", Tick(), "ready", []),
        ("ready", Rest(), "ready", []),
        ("unhealthy", Start(), "unhealthy", []),
        ("unhealthy", Restart(), "unhealthy", []),
        ("unhealthy", Stop(), "stopping", []),
        ("unhealthy", Closed(), "backing_off", []),
        ("backing_off", Start(), "queued", BEGIN),
        ("backing_off", Restart(), "queued", BEGIN),
        ("backing_off", Stop(), "stopped", []),
        ("backing_off", Tick(), "backing_off", []),
        ("parked", Start(), "queued", BEGIN),
        ("parked", Restart(), "queued", BEGIN),
        ("parked", Stop(), "stopped", []),
        ("parked", Tick(), "parked", []),
        ("stopping", Start(), "stopping", []),
        ("stopping", Restart(), "stopping", []),
        ("stopping", Stop(), "stopping", []),
        ("stopping", Closed(), "stopped", []),
        ("stopping", StartFailed(PASSING), "stopped", []),
    ],
)
def test_each_event_leads_where_the_table_says(state: State, event: Event, after: State, orders: list[Event]) -> None:
    table = in_state(state)
    assert table.handle(event, 10.0) == orders
    assert table.state == after


def test_every_row_of_the_table_stands_in_the_list_above() -> None:
    (mark,) = [mark for mark in test_each_event_leads_where_the_table_says.pytestmark if mark.name == "parametrize"]
    listed = {(state, type(event)) for state, event, *_ in mark.args[1]}
    assert set(Lifecycle._TABLE) <= listed


@spec("R-MCP-24")
@pytest.mark.parametrize(
    ("state", "connection", "wanted"),
    [
        ("stopped", "disconnected", False),
        ("idle", "disconnected", True),
        ("queued", "connecting", True),
        ("starting", "connecting", True),
        ("ready", "connected", True),
        ("unhealthy", "error", True),
        ("backing_off", "error", True),
        ("parked", "error", True),
        ("stopping", "disconnected", False),
    ],
)
def test_the_public_axes_follow_the_state(state: State, connection: str, wanted: bool) -> None:
    table = in_state(state)
    assert (table.connection, table.wanted) == (connection, wanted)


@spec("R-MCP-25")
def test_a_server_that_needs_authorization_stays_wanted_and_says_so() -> None:
    table = in_state("starting")
    table.handle(StartFailed(UNAUTHORIZED), 10.0)
    assert (table.wanted, table.connection, table.next_try) == (True, "authorization_required", 310.0)


class TestRetries:
    @spec("R-MCP-21", "DEC-1", "DEC-35", "F-104")
    def test_delays_double_and_the_sixth_failure_in_a_row_parks(self) -> None:
        table, now, delays = in_state("backing_off"), 10.0, []
        while table.state == "backing_off":
            assert table.next_try is not None
            delays.append(table.next_try - now)
            now = table.next_try
            assert table.handle(Tick(), now) == BEGIN
            table.handle(Placed(), now)
            table.handle(StartFailed(PASSING), now)
        assert delays == [1.0, 2.0, 4.0, 8.0, 16.0]
        assert (table.state, table.law.retries, table.next_try) == ("parked", 5, now + 300.0)

    @spec("R-MCP-21")
    def test_a_delay_is_spread_by_a_fifth_either_way(self) -> None:
        bounds: list[tuple[float, float]] = []

        def note(low: float, high: float) -> float:
            bounds.append((low, high))
            return high

        table = Lifecycle(ReconnectPolicy(), uniform=note)
        for event in (Start(), StartFailed(PASSING)):
            table.handle(event, 10.0)
        assert bounds == [(0.8, 1.2)]
        assert table.next_try == pytest.approx(11.2)

    def test_a_tick_before_its_time_does_nothing(self) -> None:
        table = in_state("backing_off")
        assert table.handle(Tick(), 10.99) == []
        assert table.handle(Tick(), 11.0) == BEGIN

    @spec("DEC-1", "DEC-35")
    def test_more_restarts_within_the_window_than_the_intensity_park(self) -> None:
        table = in_state("starting", max_retries=100, initial_delay=0.1, max_delay=0.1, intensity_max=3)
        now, starts = 10.0, 0
        while table.state == "starting":
            table.handle(Started(), now)
            table.handle(Lost(PASSING), now + 0.5)
            table.handle(Closed(), now + 0.5)
            starts += 1
            if table.next_try is not None and table.state == "backing_off":
                now = table.next_try
                table.handle(Tick(), now)
                table.handle(Placed(), now)
        assert (table.state, starts, table.law.in_window(now)) == ("parked", 4, 3)

    @spec("DEC-1")
    def test_restarts_that_the_window_has_passed_no_longer_count(self) -> None:
        table = in_state("starting", max_retries=100, initial_delay=30.0, max_delay=30.0, intensity_max=3)
        now = 10.0
        for _ in range(20):
            table.handle(StartFailed(PASSING), now)
            assert table.next_try is not None
            now = table.next_try
            table.handle(Tick(), now)
            table.handle(Placed(), now)
        assert table.state == "starting"

    @spec("DEC-35")
    def test_without_a_number_of_retries_it_is_tried_for_ever_at_the_longest_delay(self) -> None:
        table, now = in_state("starting", max_retries=0, intensity_max=1), 10.0
        for _ in range(50):
            table.handle(StartFailed(PASSING), now)
            assert table.next_try is not None
            waited, now = table.next_try - now, table.next_try
            table.handle(Tick(), now)
            table.handle(Placed(), now)
        assert (table.state, waited) == ("starting", 30.0)

    def test_without_reconnecting_a_failure_parks_for_good(self) -> None:
        table = in_state("starting", enabled=False)
        table.handle(StartFailed(PASSING), 10.0)
        assert (table.state, table.next_try) == ("parked", None)

    @spec("DEC-1")
    def test_a_good_start_forgets_nothing_before_it_has_been_stable(self) -> None:
        table = in_state("backing_off")
        table.handle(Tick(), 11.0)
        table.handle(Placed(), 11.0)
        table.handle(Started(), 12.0)
        assert (table.law.retries, table.wake_at) == (1, 72.0)
        table.handle(Tick(), 71.9)
        assert table.law.retries == 1
        table.handle(Tick(), 72.0)
        assert (table.law.retries, table.wake_at) == (0, None)

    @spec("DEC-1")
    def test_a_loss_after_the_stable_time_counts_as_the_first_even_if_no_tick_came(self) -> None:
        table = in_state("backing_off")
        for event, now in ((Tick(), 11.0), (Placed(), 11.0), (Started(), 12.0), (Lost(PASSING), 100.0)):
            table.handle(event, now)
        table.handle(Closed(), 100.0)
        assert table.next_try == 101.0

    @spec("R-MCP-23", "DEC-1")
    def test_what_waiting_cannot_cure_parks_at_once_and_is_tried_slowly_for_ever(self) -> None:
        table, now = in_state("parked"), 10.0
        for _ in range(10):
            assert table.next_try == now + 300.0
            now = table.next_try
            assert table.handle(Tick(), now) == BEGIN
            table.handle(StartFailed(MISSING), now)
        assert table.state == "parked"

    @spec("DEC-1")
    def test_a_slow_try_that_fails_in_another_way_is_parked_again_when_the_tries_are_used_up(self) -> None:
        table = in_state("starting", max_retries=1)
        table.handle(StartFailed(PASSING), 10.0)
        table.handle(Tick(), 11.0)
        table.handle(StartFailed(PASSING), 11.0)
        assert table.state == "parked"
        table.handle(Tick(), 311.0)
        table.handle(Placed(), 311.0)
        table.handle(StartFailed(PASSING), 312.0)
        assert (table.state, table.next_try) == ("parked", 612.0)

    @spec("DEC-1")
    def test_no_slow_try_where_the_policy_says_never(self) -> None:
        table = in_state("parked", park_retry=0)
        assert (table.next_try, table.wake_at) == (None, None)

    @spec("DEC-1", "F-59")
    @pytest.mark.parametrize("event", [Start(), Restart()])
    def test_a_manual_start_resets(self, event: Event) -> None:
        table = in_state("starting", max_retries=1)
        table.handle(StartFailed(PASSING), 10.0)
        table.handle(Tick(), 11.0)
        table.handle(StartFailed(PASSING), 11.0)
        assert table.handle(event, 12.0) == BEGIN
        assert (table.law.retries, table.cause) == (0, None)


class TestWishes:
    @spec("R-MCP-9", "DEC-37")
    @pytest.mark.parametrize("state", ["ready", "starting"])
    def test_a_restart_begins_the_next_life_only_after_the_last_has_ended(self, state: State) -> None:
        table = in_state(state)
        assert Begin() not in table.handle(Restart(), 20.0)
        assert (table.state, table.wanted) == ("stopping", True)
        assert table.handle(Closed(), 21.0) == BEGIN

    def test_a_start_during_a_stop_is_remembered_and_a_stop_after_it_wins(self) -> None:
        table = in_state("stopping")
        table.handle(Start(), 20.0)
        table.handle(Stop(), 20.0)
        assert table.handle(Closed(), 21.0) == []
        assert table.state == "stopped"

    def test_a_start_while_unhealthy_waits_for_the_end_and_not_for_a_delay(self) -> None:
        table = in_state("unhealthy")
        table.handle(Start(), 20.0)
        assert table.handle(Closed(), 21.0) == BEGIN

    @spec("R-MCP-24")
    def test_the_cause_stays_while_it_is_tried_again_and_goes_when_it_is_ready(self) -> None:
        table = in_state("backing_off")
        table.handle(Tick(), 11.0)
        assert table.cause == PASSING
        table.handle(Placed(), 11.0)
        table.handle(Started(), 12.0)
        assert table.cause is None


@spec("F-68")
class TestIdling:
    """A lazy server ends when nobody has used it for long enough, and stays wanted."""

    @staticmethod
    def ready(**policy: Any) -> Lifecycle:
        table = in_state("ready", **policy)
        table.idle_after = 300.0
        return table

    def test_it_ends_when_its_time_is_over_and_not_before(self) -> None:
        table = self.ready()
        assert table.handle(Tick(), 309.9) == []
        assert table.handle(Tick(), 310.0) == [End(drain=True)], "what it listed is not withdrawn"
        assert (table.state, table.wanted) == ("stopping", True)
        assert table.handle(Closed(), 311.0) == []
        assert (table.state, table.wanted, table.connection, table.wake_at) == ("idle", True, "disconnected", None)

    def test_it_never_ends_in_use_and_its_time_begins_anew_after_it(self) -> None:
        table = self.ready(stable_after=0.0)
        table.used()
        assert (table.wake_at, table.handle(Tick(), 5000.0)) == (None, [])
        table.unused(5000.0)
        assert table.wake_at == 5300.0

    def test_what_comes_first_wakes_it_the_end_of_its_time_or_that_it_is_stable(self) -> None:
        assert self.ready(stable_after=60.0).wake_at == 70.0
        assert self.ready(stable_after=900.0).wake_at == 310.0

    def test_a_server_that_is_not_lazy_never_idles(self) -> None:
        table = in_state("ready")
        assert table.handle(Tick(), 1e9) == []
        assert table.state == "ready"

    def test_one_that_is_needed_while_it_ends_begins_again(self) -> None:
        table = self.ready()
        table.handle(Tick(), 310.0)
        table.handle(Start(), 310.1)
        assert table.handle(Closed(), 311.0) == BEGIN

    def test_one_that_is_stopped_by_hand_while_it_ends_is_stopped(self) -> None:
        table = self.ready()
        table.handle(Tick(), 310.0)
        table.handle(Stop(), 310.1)
        table.handle(Closed(), 311.0)
        assert (table.state, table.wanted) == ("stopped", False)


class AnySequence(RuleBasedStateMachine):
    """A table in front of a world that obeys: lives begin and end as ordered, in any order events can come."""

    def __init__(self) -> None:
        super().__init__()
        self.table = lifecycle(intensity_max=3)
        self.now = 0.0
        self.life: str | None = None
        self.ending = self.offered = False
        self.begun = self.ended = 0

    def send(self, event: Event) -> None:
        for order in self.table.handle(event, self.now):
            if isinstance(order, Begin):
                assert self.life is None, "two lives at once"
                self.life, self.ending = "queued", False
                self.begun += 1
            elif isinstance(order, End):
                assert self.life is not None, "nothing to end"
                self.ending = True
            elif isinstance(order, Withdraw):
                self.offered = False

    @rule(seconds=st.floats(0.0, 400.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.send(Tick())

    @rule(event=st.sampled_from([Start(), Stop(), Restart(), Rest()]))
    def somebody_wants(self, event: Event) -> None:
        self.send(event)

    @precondition(lambda self: self.life == "queued" and not self.ending)
    @rule()
    def a_place_is_free(self) -> None:
        self.life = "starting"
        self.send(Placed())

    @precondition(lambda self: self.life == "starting" and not self.ending)
    @rule()
    def the_start_succeeds(self) -> None:
        self.life, self.offered = "ready", True
        self.send(Started())

    @precondition(lambda self: self.life in ("queued", "starting"))
    @rule(cause=st.sampled_from([PASSING, MISSING, UNAUTHORIZED]))
    def the_start_fails(self, cause: Cause) -> None:
        self.over(StartFailed(cause))

    @precondition(lambda self: self.life == "ready" and not self.ending)
    @rule()
    def the_session_is_lost(self) -> None:
        self.send(Lost(PASSING))

    @precondition(lambda self: self.life is not None and (self.ending or self.life == "ready"))
    @rule()
    def the_life_ends(self) -> None:
        self.over(Closed())

    def over(self, event: Event) -> None:
        self.life = None
        self.ended += 1
        self.send(event)

    @invariant()
    def a_life_is_under_way_exactly_in_the_states_that_have_one(self) -> None:
        assert (self.life is not None) == (self.table.state in ("queued", "starting", "ready", "unhealthy", "stopping"))
        assert self.begun - self.ended == (self.life is not None)

    @invariant()
    def only_a_ready_server_offers_anything(self) -> None:
        assert self.offered == (self.table.state == "ready")

    @invariant()
    def whatever_ends_or_waits_is_on_its_way_somewhere(self) -> None:
        if self.table.state in ("unhealthy", "stopping"):
            assert self.ending
        if self.table.state == "backing_off":
            assert self.table.next_try is not None
            assert self.table.next_try - self.now <= 30.0

    @invariant()
    def a_server_that_is_not_wanted_never_starts(self) -> None:
        if not self.table.wanted:
            assert self.table.state in ("stopped", "stopping")

    @invariant()
    def the_window_never_holds_more_than_the_intensity(self) -> None:
        assert self.table.law.in_window(self.now) <= 3


AnySequence.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestAnySequence = pytest.mark.spec("DEC-1", "DEC-35", "R-MCP-9")(AnySequence.TestCase)
