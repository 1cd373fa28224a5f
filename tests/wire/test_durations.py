"""ISO-8601 durations: the canonical forms, and what is no duration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire.durations import format_duration, parse_duration


@pytest.mark.spec("W-CFG-12")
@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (10, "PT10S"),
        (90.5, "PT1M30.5S"),
        (26 * 3600, "P1DT2H"),
        (0, "PT0S"),
        (30, "PT30S"),
        (300, "PT5M"),
        (86400, "P1D"),
        (3661, "PT1H1M1S"),
        (0.000001, "PT0.000001S"),
        (100, "PT1M40S"),
        (36000, "PT10H"),
    ],
)
def test_canonical_forms_are_written_and_read_back(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == seconds


@pytest.mark.spec("W-CFG-12")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [(5, 5.0), (0.25, 0.25), ("PT90S", 90.0), ("P0D", 0.0), ("PT1.50S", 1.5), ("P1DT0H", 86400.0), ("PT26H", 93600.0)],
)
def test_numbers_and_forms_that_are_not_canonical_are_read(value: Any, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.spec("W-CFG-12")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "10",
        "10s",
        "T10S",
        "PT-1S",
        "-PT1S",
        "PT1S2M",
        "P1Y",
        "P1M",
        "P1W",
        "PT.5S",
        "PT1.S",
        "PT1,5S",
        "pt1s",
        "PT1S ",
        "PT1S\n",
        "PT１S",
        "P" + "9" * 80 + "D",
        "PT9999999999999S",
        True,
        None,
        -1,
        float("nan"),
        float("inf"),
        10**400,
        [],
        b"PT1S",
    ],
)
def test_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(value)


@pytest.mark.spec("W-CFG-12")
@given(micros=st.integers(min_value=0, max_value=10**15))
def test_every_duration_to_the_microsecond_comes_back(micros: int) -> None:
    seconds = micros / 1e6
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, abs=1e-6, rel=1e-12)


@given(seconds=st.floats(min_value=0, max_value=1e12))
def test_the_written_form_is_a_fixed_point(seconds: float) -> None:
    text = format_duration(seconds)
    assert format_duration(parse_duration(text)) == text
