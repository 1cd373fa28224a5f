"""What crosses a boundary of a trace, and that nothing is paid where nobody traces."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire import tracing

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        (GOOD, True),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", True),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", False),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", False),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", False),
        (GOOD + "\n", False),
        (GOOD + "-more", False),
        ("", False),
        (None, False),
        (7, False),
    ],
)
def test_a_traceparent_is_what_the_recommendation_says(value: object, valid: bool) -> None:
    assert tracing.is_traceparent(value) is valid


@pytest.mark.spec("W-GEN-2")
def test_a_request_carries_it_as_one_more_member_and_is_otherwise_unchanged() -> None:
    request = b'{"agent":"a","params":{"x":1}}'
    stamped = tracing.stamped(request, GOOD)
    assert json.loads(stamped) == {**json.loads(request), "traceparent": GOOD}
    assert tracing.traceparent_of(stamped) == GOOD
    assert tracing.stamped(request, "") is request


@pytest.mark.parametrize(
    "request_text",
    [
        b"{}",
        b"",
        b'{"params":{"traceparent":"%b"}}' % GOOD.encode(),
        b'{"traceparent":7}',
        b'{"traceparent":null}',
        b'{"traceparent":"00-nonsense"}',
        b'["traceparent"]',
        b'{"traceparent":',
        b'{"traceparent":"\xff"}',
    ],
)
def test_what_is_no_traceparent_of_the_request_itself_counts_for_nothing(request_text: bytes) -> None:
    assert tracing.traceparent_of(request_text) == ""
    assert tracing.traceparent_of(msgspec.Raw(request_text)) == ""
    assert tracing.traceparent_of(None) == ""


@given(st.binary(max_size=200))
def test_no_bytes_make_reading_it_fail(noise: bytes) -> None:
    found = tracing.traceparent_of(noise + b'"traceparent"' + noise)
    assert found == "" or tracing.is_traceparent(found)


def test_where_nobody_traces_a_span_passes_on_what_came_in() -> None:
    with tracing.span("work", "server", GOOD, smcp__req_id="r") as span:
        assert span.traceparent == GOOD
    with tracing.span("work", "client") as span:
        assert span.traceparent == ""


def test_an_agent_does_not_load_opentelemetry_to_find_out_that_nobody_traces() -> None:
    script = (
        "import sys, smcp_runtime.agent, smcp_runtime.server\n"
        "from smcp_runtime.wire import tracing\n"
        "assert not tracing.is_on()\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert ran.stdout.strip() == "[]"
