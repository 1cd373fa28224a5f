"""Reading requests: what is accepted, what is refused, and which bytes stay untouched."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from smcp_runtime.actors.socket.requests import ToolCall, read_request
from smcp_runtime.wire.errors import InvalidPayload
from smcp_runtime.wire.events import CALLS, CLIENT_GET_TOOLS, CLIENT_TOOL_CALL

BASE = {"agent": "a", "req_id": "r1", "computer": "desk"}


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def call(**changes: Any) -> msgspec.Raw:
    return raw({**BASE, "tool_name": "s__t", "params": {"x": 1}, "timeout": 30, **changes})


@pytest.mark.spec("W-CALL-8")
def test_the_arguments_of_a_tool_call_stay_the_text_they_came_as() -> None:
    text = b'{"agent":"a","req_id":"r","computer":"d","tool_name":"t","timeout":5,"params":{ "big" : 123456789012.10 }}'
    request = read_request(CLIENT_TOOL_CALL, msgspec.Raw(text))
    assert isinstance(request, ToolCall)
    assert bytes(request.params) == b'{ "big" : 123456789012.10 }'


@pytest.mark.spec("W-CALL-4")
@pytest.mark.parametrize("timeout", [1, 30, 30.0, 3600])
def test_a_whole_number_of_seconds_in_range_is_a_timeout(timeout: float) -> None:
    request = read_request(CLIENT_TOOL_CALL, call(timeout=timeout))
    assert isinstance(request, ToolCall)
    assert request.timeout == timeout
    assert isinstance(request.timeout, int)


@pytest.mark.spec("W-CALL-4", "C-GEN-5")
@pytest.mark.parametrize("timeout", [0, -1, 3601, 1.5, "30", True, None])
def test_anything_else_is_refused_by_name(timeout: object) -> None:
    with pytest.raises(InvalidPayload) as refused:
        read_request(CLIENT_TOOL_CALL, call(timeout=timeout))
    assert refused.value.field == "timeout"


@pytest.mark.spec("W-CALL-4")
@pytest.mark.parametrize("params", [None, [], "{}", 1])
def test_arguments_that_are_no_object_are_refused(params: object) -> None:
    with pytest.raises(InvalidPayload) as refused:
        read_request(CLIENT_TOOL_CALL, call(params=params))
    assert refused.value.field == "params"


@pytest.mark.spec("W-GEN-2")
def test_unknown_fields_are_ignored() -> None:
    assert read_request(CLIENT_TOOL_CALL, call(colour="red")).req_id == "r1"


@pytest.mark.spec("W-EVT-1", "C-GEN-5")
@pytest.mark.parametrize("event", sorted(CALLS))
@pytest.mark.parametrize("data", [None, msgspec.Raw(b"[]"), msgspec.Raw(b"{"), msgspec.Raw(b'"text"')])
def test_no_event_is_read_from_something_that_is_no_object(event: str, data: msgspec.Raw | None) -> None:
    with pytest.raises(InvalidPayload):
        read_request(event, data)


@pytest.mark.spec("W-EVT-1")
@pytest.mark.parametrize("field", ["agent", "req_id", "computer"])
@pytest.mark.parametrize("event", sorted(CALLS))
def test_every_request_needs_the_three_common_fields(event: str, field: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        read_request(event, raw({name: value for name, value in BASE.items() if name != field}))
    assert refused.value.field is not None


@pytest.mark.spec("C-GEN-5")
def test_a_deeply_nested_body_is_refused_and_does_no_harm() -> None:
    with pytest.raises(InvalidPayload):
        read_request(CLIENT_GET_TOOLS, msgspec.Raw(b'{"agent":' + b"[" * 50_000 + b"]" * 50_000 + b"}"))
