"""The table of calls in flight, on a clock the test moves."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.tools.calls import Call, InFlight
from smcp_runtime.actors.tools.exposure import Route

spec = pytest.mark.spec
ROUTE = Route("b__x", "b", "b (display)", "x")


def admitted(calls: InFlight, req_id: str = "r", timeout: float = 5.0) -> Call:
    call = calls.admit(req_id, timeout, now=100.0)
    assert call is not None
    return call


@spec("W-CALL-16")
def test_a_req_id_in_flight_is_not_admitted_again() -> None:
    calls = InFlight()
    admitted(calls)
    assert calls.admit("r", 5.0, now=101.0) is None


@spec("W-CALL-16")
def test_a_req_id_is_free_again_once_its_call_ended() -> None:
    calls = InFlight()
    calls.end(admitted(calls))
    assert calls.admit("r", 5.0, now=101.0) is not None


@spec("W-CALL-17")
def test_calls_with_different_ids_are_in_flight_together() -> None:
    calls = InFlight()
    admitted(calls, "one")
    admitted(calls, "two")
    assert len(calls) == 2


@spec("DEC-11")
def test_the_deadline_counts_from_admission_and_never_runs_below_zero() -> None:
    call = admitted(InFlight())
    assert [call.remaining(now) for now in (100.0, 104.0, 109.0)] == [5.0, 1.0, 0.0]


@spec("W-CALL-14")
def test_cancelling_interrupts_the_call_once() -> None:
    calls, interruptions = InFlight(), []
    call = admitted(calls)
    call.interrupt = lambda: interruptions.append(1)
    assert calls.cancel("r")
    assert calls.cancel("r")
    assert (len(interruptions), call.ended_by) == (1, "agent")


@spec("W-CALL-14")
def test_cancelling_an_unknown_call_is_no_fault() -> None:
    assert not InFlight().cancel("nobody")


@spec("DEC-10")
def test_a_call_is_not_executed_until_it_was_handed_over() -> None:
    call = admitted(InFlight())
    before = call.outcome
    call.handed_over = True
    assert (before, call.outcome) == ("not_executed", "unknown")


@spec("DEC-10", "DEC-7")
def test_a_call_that_waits_in_a_server_queue_counts_as_not_executed() -> None:
    calls = InFlight()
    call = admitted(calls)
    assert calls.assign(call, ROUTE, capacity=1)
    call.handed_over = True
    calls.note_queue("b", "r", waiting=True)
    waiting = call.outcome
    calls.note_queue("b", "r", waiting=False)
    assert (waiting, call.outcome) == ("not_executed", "unknown")


@spec("DEC-10")
def test_no_server_makes_believe_that_a_call_of_another_was_not_executed() -> None:
    calls = InFlight()
    call = admitted(calls)
    calls.note_queue("b", "r", waiting=True)
    assert calls.assign(call, ROUTE, capacity=1)
    call.handed_over = True
    calls.note_queue("another", "r", waiting=True)
    assert call.outcome == "unknown"


@spec("DEC-7", "DEC-29")
def test_a_server_takes_no_more_calls_than_its_capacity() -> None:
    calls = InFlight()
    first, second = admitted(calls, "1"), admitted(calls, "2")
    assert calls.assign(first, ROUTE, capacity=1)
    assert not calls.assign(second, ROUTE, capacity=1)
    calls.end(first)
    assert calls.assign(second, ROUTE, capacity=1)


@spec("DEC-13")
def test_a_drain_ends_what_is_left_but_not_what_its_agent_cancelled_before() -> None:
    calls = InFlight()
    one, two = admitted(calls, "1"), admitted(calls, "2")
    calls.cancel("1")
    calls.end_all()
    assert (one.ended_by, two.ended_by) == ("agent", "drain")
