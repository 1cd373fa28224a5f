"""When chunks leave, on a clock the test moves."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.socket.pace import GAP, LULL, PATIENCE, Pace


@pytest.fixture
def pace() -> Pace:
    made = Pace()
    made.left(100.0)
    return made


def test_without_calls_chunks_leave_one_right_after_another(pace: Pace) -> None:
    assert pace.wait(100.0) == 0.0


def test_beside_a_call_a_chunk_leaves_a_gap_after_the_one_before(pace: Pace) -> None:
    pace.began(100.0)
    assert pace.wait(100.005) == pytest.approx(GAP - 0.005)
    assert pace.wait(100.0 + GAP) == 0.0


def test_the_first_chunk_beside_a_call_does_not_wait() -> None:
    pace = Pace()
    pace.began(5.0)
    assert pace.wait(5.0) == 0.0


def test_between_calls_that_follow_each_other_the_gap_stays_and_ends_with_them(pace: Pace) -> None:
    pace.ended(pace.began(99.99), 100.0)
    assert pace.wait(100.001) > 0.0
    pace.left(100.0 + LULL)
    assert pace.wait(100.001 + LULL) == 0.0


def test_a_call_that_takes_its_time_is_not_given_way_to(pace: Pace) -> None:
    number = pace.began(100.0 - PATIENCE - 0.001)
    assert pace.wait(100.0) == 0.0
    pace.ended(number, 100.0)
    assert pace.wait(100.001) == 0.0


def test_a_new_call_beside_an_old_one_counts(pace: Pace) -> None:
    pace.began(90.0)
    pace.began(100.0)
    assert pace.wait(100.0) > 0.0
