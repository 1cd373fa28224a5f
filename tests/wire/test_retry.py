"""Retry advice: the table of 01 §9.6, code by code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire import CODES, advise
from smcp_runtime.wire.retry import backoff_delay

NEVER = [400, 401, 403, 404, 4002, 4005, 4008, 4011, 4012, 4013, 4015, 4016, 4017, 4101, 4104, 4201, 4202, 4203, 4204]


@pytest.mark.spec("W-AGT-9", "C-DOC-25")
@pytest.mark.parametrize("code", NEVER)
def test_these_are_not_repeated(code: int) -> None:
    assert advise(code).retry == "never"


@pytest.mark.parametrize("code", [408, 500, 4003, 4004])
def test_these_may_be_repeated_with_growing_delays(code: int) -> None:
    assert advise(code).retry == "backoff"


@pytest.mark.parametrize("code", [4001, 4014])
def test_unknown_tools_and_servers_are_tried_once_more_after_a_refresh(code: int) -> None:
    assert advise(code).retry == "after_refresh"


@pytest.mark.spec("W-UP-9")
@pytest.mark.parametrize("code", [4006, 4007])
def test_after_a_missing_authorization_only_the_user_can_ask_again(code: int) -> None:
    assert advise(code).retry == "after_user"


@pytest.mark.parametrize("code", [4102, 4103])
def test_who_is_in_no_office_joins_first(code: int) -> None:
    assert advise(code).retry == "after_join"


@pytest.mark.spec("C-GEN-4", "W-ERR-7")
@pytest.mark.parametrize("code", [4017, 4018, 4019, 4999])
@pytest.mark.parametrize("reason", [None, "", "from_the_future"])
def test_an_unknown_reason_or_code_is_not_repeated(code: int, reason: str | None) -> None:
    assert advise(code, reason=reason).retry == "never"


@pytest.mark.parametrize(
    ("code", "reason", "retry"),
    [
        (403, "rate_limited", "backoff"),
        (4017, "traversal", "never"),
        (4017, "forbidden", "never"),
        (4017, "not_found", "never"),
        (4017, "too_large", "never"),
        (4018, "invalid_handle", "never"),
        (4018, "forbidden", "never"),
        (4018, "gone", "new_attempt"),
        (4018, "range", "new_attempt"),
        (4019, "invalid_declaration", "never"),
        (4019, "too_large", "never"),
        (4019, "forbidden", "never"),
        (4019, "busy", "backoff"),
        (4019, "invalid_upload", "new_attempt"),
        (4019, "range", "new_attempt"),
        (4019, "integrity", "new_attempt"),
        (4019, "io_error", "new_attempt"),
    ],
)
def test_channel_errors_are_repeated_by_their_reason(code: int, reason: str, retry: str) -> None:
    assert advise(code, reason=reason).retry == retry


@pytest.mark.spec("DEC-10")
@pytest.mark.parametrize("code", [408, 500, 4003, 4004])
def test_a_tool_call_is_repeated_only_if_it_was_not_executed_or_may_be_executed_twice(code: int) -> None:
    assert advise(code, tool_call=True).retry == "never"
    assert advise(code, tool_call=True, not_executed=True).retry == "backoff"
    assert advise(code, tool_call=True, repeatable=True).retry == "backoff"


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_of_the_table_has_advice_in_words(code: int) -> None:
    assert advise(code).hint


@given(jitter=st.floats(min_value=0, max_value=0.999))
def test_delays_double_and_stay_apart_by_less_than_a_second(jitter: float) -> None:
    assert 1 <= backoff_delay(0, jitter) < 2 <= backoff_delay(1, jitter) < 3


@pytest.mark.parametrize("attempt", [-1, 2, 3])
def test_there_is_no_fourth_attempt(attempt: int) -> None:
    with pytest.raises(ValueError, match="3 attempts"):
        backoff_delay(attempt, 0.5)
