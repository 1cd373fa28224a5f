"""Joining: what an acknowledgement means, and how long a lost membership is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.errors import AuthError, ConflictError, MalformedReplyError, NetworkError, PolicyError, SmcpError
from smcp_runtime.wire.rejoin import Rejoin, is_transient, refused, unanswered


def plain(backoff: Backoff, retries: int) -> float:
    return min(backoff.initial * backoff.factor**retries, backoff.longest)


@pytest.mark.spec("W-ROOM-4")
@pytest.mark.parametrize("arguments", [[True, None], [True], [True, "welcome"]])
def test_true_is_success_whatever_stands_beside_it(arguments: list[Any]) -> None:
    assert refused(arguments) is None


@pytest.mark.spec("W-ROOM-4", "R-LIFE-12")
@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        ([False, "[403] Name already in use"], ConflictError, 403),
        ([False, "[4101] Room already has an agent"], ConflictError, 4101),
        ([False, "Internal server error: Agent already in room"], ConflictError, None),
        ([False, None], ConflictError, None),
        ([False], ConflictError, None),
        ([False, "[4102] Room not found"], PolicyError, 4102),
        ([False, "[500] oops"], PolicyError, 500),
        ([False, {"code": 403}], ConflictError, None),
    ],
)
def test_a_refusal_is_classified_by_its_leading_code(
    arguments: list[Any], kind: type[SmcpError], code: int | None
) -> None:
    error = refused(arguments)
    assert type(error) is kind
    assert error.details.get("code") == code
    assert error.code == "join_failed"


@pytest.mark.spec("W-ROOM-15", "R-LIFE-12")
def test_a_second_agent_is_told_that_an_office_has_one_at_a_time() -> None:
    second, taken = refused([False, "[4101] Room already has an agent"]), refused([False, "[403] Name already in use"])
    assert second is not None
    assert taken is not None
    assert "one Agent at a time" in str(second.retry_hint)
    assert taken.retry_hint == ConflictError.default_hint


@pytest.mark.parametrize("arguments", [[], [None], ["true", None], [1, None], [{"ok": True}]])
def test_what_is_no_success_flag_is_malformed(arguments: list[Any]) -> None:
    assert isinstance(refused(arguments), MalformedReplyError)


@pytest.mark.spec("R-LIFE-12")
def test_the_servers_text_is_kept_without_its_control_characters() -> None:
    assert "the Server refused: Name in use" in str(refused([False, "[403] Name\nin use"]))


@pytest.mark.spec("DEC-17")
@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (refused([False, "[403] x"]), True),
        (refused([False, "[4101] x"]), True),
        (refused([False, "[500] x"]), True),
        (refused([False, "x"]), True),
        (unanswered(30), True),
        (refused([False, "[400] x"]), False),
        (refused([False, "[4102] x"]), False),
        (refused([False, "[4104] x"]), False),
        (refused([]), False),
        (AuthError("x"), False),
    ],
)
def test_only_refusals_our_own_ghost_can_cause_are_transient(error: SmcpError, transient: bool) -> None:
    assert is_transient(error) is transient


@pytest.mark.spec("DEC-17", "R-MCP-21")
def test_waits_grow_and_the_last_attempt_falls_on_the_end_of_the_budget() -> None:
    error = unanswered(30)
    rejoin = Rejoin(10.0, Backoff(initial=1.0, longest=30.0), now=100.0)
    assert rejoin.wait_after(error, 100.0, plain) == 1.0
    assert rejoin.wait_after(error, 101.0, plain) == 2.0
    assert rejoin.wait_after(error, 103.0, plain) == 4.0
    assert rejoin.wait_after(error, 107.0, plain) == 3.0
    assert rejoin.wait_after(error, 110.0, plain) is None


@pytest.mark.spec("DEC-17")
def test_a_lasting_refusal_ends_the_wish_at_once() -> None:
    rejoin = Rejoin(10.0, Backoff(), now=0.0)
    assert rejoin.wait_after(PolicyError("x", details={"code": 4102}), 0.0) is None


def test_network_trouble_is_transient() -> None:
    assert is_transient(NetworkError("gone"))
