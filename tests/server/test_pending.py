"""Waiting calls and limits as data (server/pending.py, server/limits.py, server/security_log.py)."""

from __future__ import annotations

import logging
import math

import pytest

from smcp_runtime.server.limits import AddressBook, Allowance
from smcp_runtime.server.pending import PendingCalls
from smcp_runtime.server.security_log import Record, identify, render, write
from smcp_runtime.server.session import Call, Incoming, Session


def session(sid: str) -> Session:
    return Session(sid, version=None, address="", user_agent="", allowance=None)


def call(origin: Session, target: Session) -> Call:
    return Call(Incoming(origin, "client:x", None, "[]", 1, 0.0), target, "pc")


@pytest.mark.spec("W-CALL-12")
def test_answered_calls_leave_no_trace_even_after_many_thousand() -> None:
    pending, agent, computer = PendingCalls(), session("ag"), session("pc")
    for _ in range(20_000):
        waiting = call(agent, computer)
        pending.add(waiting, 60.0)
        assert pending.answered(computer, waiting.relay_id) is waiting
    assert (len(pending), agent.open_calls, len(computer.calls)) == (0, 0, 0)
    assert len(pending._heap) <= 1_025
    assert pending.next_deadline() == math.inf


@pytest.mark.spec("W-CALL-12", "W-ERR-30")
def test_a_call_ends_exactly_once() -> None:
    pending, agent, computer = PendingCalls(), session("ag"), session("pc")
    waiting = call(agent, computer)
    pending.add(waiting, 60.0)
    assert pending.due(60.0) == [waiting]
    assert pending.due(61.0) == []
    assert pending.lost(computer) == []
    assert pending.answered(computer, waiting.relay_id) is None
    assert agent.open_calls == 0


def test_rebuilding_the_heap_loses_no_deadline() -> None:
    pending, agent, computer = PendingCalls(), session("ag"), session("pc")
    kept = call(agent, computer)
    pending.add(kept, 5.0)
    for _ in range(5_000):
        waiting = call(agent, computer)
        pending.add(waiting, 60.0)
        pending.answered(computer, waiting.relay_id)
    assert pending.next_deadline() == 5.0
    assert pending.due(5.0) == [kept]


@pytest.mark.spec("W-SRV-5")
def test_an_allowance_holds_one_second_of_requests_and_refills_steadily() -> None:
    allowance = Allowance(10.0, now=0.0)
    assert sum(allowance.take(0.0) for _ in range(20)) == 10
    assert sum(allowance.take(0.5) for _ in range(20)) == 5
    assert sum(allowance.take(100.0) for _ in range(20)) == 10


@pytest.mark.spec("W-SRV-5")
def test_a_rate_below_one_still_lets_a_request_through_now_and_then() -> None:
    allowance = Allowance(0.5, now=0.0)
    assert [allowance.take(at) for at in (0.0, 1.0, 2.0, 3.0)] == [True, False, True, False]


@pytest.mark.spec("W-SRV-5")
def test_connections_of_one_address_are_counted_apart_and_released() -> None:
    book = AddressBook(2)
    assert [book.admit("a"), book.admit("a"), book.admit("a"), book.admit("b")] == [True, True, False, True]
    book.release("a")
    assert book.admit("a")


@pytest.mark.spec("DEC-28")
def test_without_a_limit_every_connection_is_admitted() -> None:
    book = AddressBook(None)
    assert all(book.admit("a") for _ in range(1_000))


@pytest.mark.spec("W-SRV-7")
def test_a_log_line_has_its_fields_and_cannot_be_forged() -> None:
    record = Record(
        level="warning",
        action="refused",
        who=identify(address="192.0.2.1", user_agent='x"\nWARNING forged', sid="s"),
        office="o\r\n",
        event="e" * 500,
        code=4104,
    )
    line = render(record)
    assert line.startswith('refused address="192.0.2.1" user_agent="x\\"\\nWARNING forged" sid="s" office="o\\r\\n"')
    assert line.endswith("code=4104")
    assert "\n" not in line
    assert len(line) < 400


@pytest.mark.spec("W-SRV-7")
@pytest.mark.parametrize(("level", "number"), [("warning", logging.WARNING), ("info", logging.INFO)])
def test_records_go_to_the_security_logger_at_their_level(
    level: str, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "smcp_runtime.server.security"):
        write(Record(level=level, action="refused"))  # type: ignore[arg-type]
    assert caplog.record_tuples == [("smcp_runtime.server.security", number, "refused")]
