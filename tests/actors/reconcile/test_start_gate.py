"""Start caps on a clock the test moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.reconcile.running.start_gate import StartGate, launcher_of

spec = pytest.mark.spec


@spec("DEC-3")
def test_no_more_than_the_cap_start_at_once_and_the_rest_follow_in_order() -> None:
    gate = StartGate(most=2)
    admitted = [gate.request(name, "", 0.0) for name in "abcd"]
    assert admitted == [("a",), ("b",), (), ()]
    assert gate.release("a", 1.0) == ("c",)
    assert gate.release("b", 1.0) == ("d",)


@spec("DEC-3")
def test_each_launcher_has_a_cap_of_its_own() -> None:
    gate = StartGate(most=8, most_per_launcher=1)
    assert gate.request("a", "npx", 0.0) == ("a",)
    assert gate.request("b", "npx", 0.0) == ()
    assert gate.request("c", "uvx", 0.0) == ("c",)


@spec("DEC-3", "DEC-4")
def test_a_full_launcher_does_not_hold_up_servers_that_need_none() -> None:
    gate = StartGate(most=3, most_per_launcher=1)
    gate.request("a", "npx", 0.0)
    gate.request("b", "npx", 0.0)
    assert gate.request("c", "", 0.0) == ("c",)
    assert gate.release("a", 1.0) == ("b",)


@spec("DEC-3")
def test_a_start_that_outlives_its_budget_gives_its_place_back() -> None:
    gate = StartGate(most=1, budget=30.0)
    gate.request("hangs", "", 0.0)
    gate.request("next", "", 5.0)
    assert gate.next_expiry() == 30.0
    assert gate.expire(29.9) == ()
    assert gate.expire(30.0) == ("next",)


@spec("DEC-3")
def test_the_budget_counts_from_the_place_and_not_from_the_queue() -> None:
    gate = StartGate(most=1, budget=30.0)
    gate.request("first", "", 0.0)
    gate.request("second", "", 0.0)
    gate.release("first", 20.0)
    assert gate.next_expiry() == 50.0


@spec("DEC-3", "DEC-13")
def test_what_is_queued_at_shutdown_ends_at_once_and_nobody_gets_in() -> None:
    gate = StartGate(most=1)
    gate.request("a", "", 0.0)
    gate.request("b", "", 0.0)
    assert gate.close() == ("b",)
    assert gate.release("a", 1.0) == ()
    assert gate.request("c", "", 1.0) == ()
    assert gate.is_closed


def test_who_leaves_the_queue_does_not_get_a_place() -> None:
    gate = StartGate(most=1)
    for name in "abc":
        gate.request(name, "", 0.0)
    gate.release("b", 0.0)
    assert gate.release("a", 0.0) == ("c",)


def test_asking_twice_takes_one_place() -> None:
    gate = StartGate(most=2)
    gate.request("a", "", 0.0)
    gate.request("a", "", 1.0)
    assert gate.starting == ("a",)


@spec("DEC-3")
@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("npx", "npx"),
        ("/usr/bin/uvx", "uvx"),
        ("C:\\node\\npx.cmd", "npx"),
        ("docker.exe", "docker"),
        ("python3.11", ""),
        ("mynpx", ""),
        ("", ""),
    ],
)
def test_a_launcher_is_known_by_its_file_name(command: str, launcher: str) -> None:
    assert launcher_of(command) == launcher


moves = st.lists(
    st.tuples(
        st.sampled_from(["request", "release", "expire"]), st.integers(0, 9), st.sampled_from(["", "npx", "uvx"])
    ),
    max_size=60,
)


@spec("DEC-3")
@given(moves)
def test_the_caps_hold_whatever_happens(steps: list[tuple[str, int, str]]) -> None:
    gate, launchers, now = StartGate(most=3, most_per_launcher=1, budget=5.0), {}, 0.0
    for kind, number, launcher in steps:
        now += 1.0
        name = f"s{number}"
        if kind == "request":
            if name not in gate.starting:
                launchers[name] = launcher
            gate.request(name, launcher, now)
        elif kind == "release":
            gate.release(name, now)
        else:
            gate.expire(now)
        used = [launchers[holder] for holder in gate.starting if launchers[holder]]
        assert len(gate.starting) <= 3
        assert len(used) == len(set(used))
        assert not set(gate.starting) & set(gate.queued)
        assert len(gate.starting) == 3 or all(launchers[waiting] in used for waiting in gate.queued)
