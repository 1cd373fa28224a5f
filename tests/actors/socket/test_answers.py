"""What leaves as an acknowledgement: embedded text, flat errors, and nothing above the budget."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.actors.socket import answers
from smcp_runtime.actors.socket.answers import embed, extended, within_budget
from smcp_runtime.wire.errors import (
    ActorLost,
    BusClosed,
    DeadlineExceeded,
    HandlerFailed,
    InvalidPayload,
    NetworkError,
    Overloaded,
    PeerError,
    SmcpError,
    Undeliverable,
)
from smcp_runtime.wire.events import CLIENT_GET_TOOLS, CLIENT_TOOL_CALL

NO, MAYBE = {"executed": "no"}, {"executed": "unknown"}


def read(answer: bytes) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(answer)
    return value


@pytest.mark.spec("E-2", "W-EVT-1")
def test_a_ready_list_is_embedded_byte_for_byte_beside_the_echoed_id() -> None:
    assert embed('a"b', tools=b'[ {"x":1.0e0} ]') == b'{"tools":[ {"x":1.0e0} ],"req_id":"a\\"b"}'


@pytest.mark.spec("E-7", "W-EVT-1")
def test_a_ready_object_gets_the_echoed_id_and_stays_as_it_is_otherwise() -> None:
    assert extended(b'{"name":"x","n":1.0e0}', 'a"b') == b'{"name":"x","n":1.0e0,"req_id":"a\\"b"}'


@pytest.mark.spec("C-10", "W-CMP-2")
def test_a_malformed_tool_call_is_a_result_and_any_other_malformed_request_a_flat_error() -> None:
    fault = InvalidPayload("timeout", "integer")
    result = read(answers.malformed(CLIENT_TOOL_CALL, fault))
    assert result["isError"] is True
    assert result["meta"] == {"error_code": 400, "a2c_outcome": "not_executed"}
    flat = read(answers.malformed(CLIENT_GET_TOOLS, fault))
    assert (flat["code"], flat["details"]) == (400, {"field": "timeout", "expected": "integer"})


@pytest.mark.spec("R-LIFE-3", "DEC-26")
def test_out_of_service_a_call_is_not_executed_and_everything_else_not_found() -> None:
    assert read(answers.out_of_service(CLIENT_TOOL_CALL, "desk"))["meta"] == {
        "error_code": 4003,
        "a2c_outcome": "not_executed",
    }
    assert read(answers.out_of_service(CLIENT_GET_TOOLS, "desk"))["code"] == 404


@pytest.mark.spec("DEC-10", "DEC-35", "C-6")
@pytest.mark.parametrize(
    ("error", "meta"),
    [
        (Undeliverable("x"), {"error_code": 4003, "a2c_outcome": "not_executed"}),
        (ActorLost("x", details=NO), {"error_code": 4003, "a2c_outcome": "not_executed"}),
        (ActorLost("x", details=MAYBE), {"error_code": 4003, "a2c_outcome": "unknown"}),
        (HandlerFailed("x"), {"error_code": 4003, "a2c_outcome": "unknown"}),
        (BusClosed("x", details=NO), {"error_code": 4003, "a2c_outcome": "not_executed"}),
        (Overloaded("x", details=NO), {"error_code": 4003, "a2c_busy": True, "a2c_outcome": "not_executed"}),
        (DeadlineExceeded("x", details=MAYBE), {"error_code": 4004, "a2c_timeout": True, "a2c_outcome": "unknown"}),
        (DeadlineExceeded("x", details=NO), {"error_code": 4004, "a2c_timeout": True, "a2c_outcome": "not_executed"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_call_that_never_reached_an_answer_says_what_is_known_of_it(error: SmcpError, meta: dict[str, Any]) -> None:
    result = read(answers.failed_call(error, 30))
    assert result["isError"] is True
    assert result["meta"] == meta


@pytest.mark.spec("W-ERR-6", "R-ERR-2")
@pytest.mark.parametrize("failed", [answers.failed_request, lambda error: answers.failed_call(error, 1)])
def test_the_text_of_an_internal_error_never_reaches_an_agent(failed: Any) -> None:
    error = NetworkError("/home/me/token-123 at 10.0.0.1", details={"path": "/home/me"})
    assert b"token-123" not in failed(error)
    assert b"/home" not in failed(error)


@pytest.mark.spec("W-RES-2", "W-RES-3", "DEC-34")
@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (Undeliverable("x"), 4014, None),
        (ActorLost("x"), 4014, None),
        (DeadlineExceeded("x"), 4014, "timeout"),
        (Overloaded("x"), 4014, "upstream_error"),
    ],
    ids=str,
)
def test_a_listing_fails_with_a_code_that_passes_an_official_server(error: SmcpError, code: int, reason: str) -> None:
    flat = read(answers.failed_listing(error, "files"))
    assert (flat["code"], flat["mcp_server"]) == (code, "files")
    assert flat.get("details", {}).get("reason") == reason


@pytest.mark.spec("W-RES-2", "W-ERR-4")
def test_a_listing_keeps_the_error_payload_of_its_server() -> None:
    error = PeerError("m", payload={"code": 4015, "message": "m", "mcp_server": "s", "capability": "resources"})
    assert read(answers.failed_listing(error, "s")) == {
        "code": 4015,
        "message": "m",
        "mcp_server": "s",
        "capability": "resources",
    }


@pytest.mark.spec("DEC-18", "W-CALL-21", "C-11", "C-GEN-7")
def test_an_answer_above_the_budget_is_replaced_and_one_at_the_budget_is_not() -> None:
    assert within_budget(CLIENT_TOOL_CALL, b"x" * 100, 100) == b"x" * 100
    result = read(within_budget(CLIENT_TOOL_CALL, b"x" * 101, 100))
    assert result["isError"] is True
    assert result["meta"]["a2c_result_too_large"] is True
    assert "101 bytes" in result["content"][0]["text"]
    assert read(within_budget(CLIENT_GET_TOOLS, b"x" * 101, 100))["code"] == 500
