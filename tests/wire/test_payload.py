"""Protocol errors: the table, the builders, recognition, and what becomes of exceptions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire import CODES, ErrorPayload, InvalidPayload, PeerError, payload
from smcp_runtime.wire.codes import message_of
from smcp_runtime.wire.errors import MissingInputError

SURVIVORS = {404, 4006, 4007, 4008, 4014, 4015, 4016, 4017, 4018, 4019}
ALL = {400, 401, 403, 404, 408, 500, 4001, 4002, 4003, 4004, 4005, 4006, 4007, 4008, 4011, 4012, 4013, 4014, 4015}
ALL |= {4016, 4017, 4018, 4019, 4101, 4102, 4103, 4104, 4201, 4202, 4203, 4204}

EXACT: list[tuple[ErrorPayload, dict[str, Any]]] = [
    (payload.bad_request(), {"code": 400, "message": "Bad Request"}),
    (
        payload.bad_request("timeout", "integer in 1…3600"),
        {"code": 400, "message": "Bad Request", "details": {"field": "timeout", "expected": "integer in 1…3600"}},
    ),
    (payload.forbidden(), {"code": 403, "message": "Forbidden"}),
    (
        payload.forbidden(reason="rate_limited"),
        {"code": 403, "message": "Forbidden", "details": {"reason": "rate_limited"}},
    ),
    (
        payload.computer_not_found("pc1"),
        {"code": 404, "message": "Computer with name 'pc1' not found", "details": {"computer_name": "pc1"}},
    ),
    (payload.server_gave_up(), {"code": 408, "message": "Computer did not answer in time"}),
    (payload.internal_error(), {"code": 500, "message": "Internal Error"}),
    (
        payload.authorization_required("git"),
        {"code": 4006, "message": "MCP Server requires authorization", "mcp_server": "git"},
    ),
    (
        payload.authorization_failed("git"),
        {"code": 4007, "message": "MCP Server refused the authorization", "mcp_server": "git"},
    ),
    (
        payload.version_mismatch("0.4.0", "0.3.0", "0.4.0", "0.4.999"),
        {
            "code": 4008,
            "message": "Protocol version mismatch",
            "server_version": "0.4.0",
            "client_version": "0.3.0",
            "min_supported": "0.4.0",
            "max_supported": "0.4.999",
        },
    ),
    (
        payload.resolver_missing("dpe://h/d"),
        {"code": 4011, "message": "DPE Resolver Not Configured", "uri": "dpe://h/d"},
    ),
    (
        payload.invalid_dpe_uri("dpe:", "invalid scheme"),
        {"code": 4012, "message": "Invalid DPE URI", "uri": "dpe:", "reason": "invalid scheme"},
    ),
    (
        payload.resolution_failed("dpe://h/d", "timeout"),
        {"code": 4013, "message": "DPE Resolution Failed", "uri": "dpe://h/d", "reason": "timeout"},
    ),
    (payload.mcp_server_not_found("git"), {"code": 4014, "message": "MCP Server not registered", "mcp_server": "git"}),
    (
        payload.mcp_server_unreachable("git", "timeout"),
        {"code": 4014, "message": "MCP Server not reachable", "mcp_server": "git", "details": {"reason": "timeout"}},
    ),
    (payload.skill_not_found("audit"), {"code": 4014, "message": "Skill not found", "details": {"name": "audit"}}),
    (
        payload.capability_missing("git"),
        {
            "code": 4015,
            "message": "MCP Server does not support 'resources' capability",
            "mcp_server": "git",
            "capability": "resources",
        },
    ),
    (payload.invalid_skill_name("A"), {"code": 4016, "message": "Invalid skill name", "details": {"name": "A"}}),
    (
        payload.skill_resource_refused("too_large", "big.bin", 9),
        {
            "code": 4017,
            "message": "Skill resource not accessible",
            "details": {"reason": "too_large", "rel_path": "big.bin", "total_size": 9},
        },
    ),
    (
        payload.skill_resource_refused("traversal", "../x"),
        {
            "code": 4017,
            "message": "Skill resource not accessible",
            "details": {"reason": "traversal", "rel_path": "../x"},
        },
    ),
    (payload.blob_refused("gone"), {"code": 4018, "message": "Blob not accessible", "details": {"reason": "gone"}}),
    (
        payload.blob_refused("range", 0),
        {"code": 4018, "message": "Blob not accessible", "details": {"reason": "range", "total_size": 0}},
    ),
    (
        payload.upload_refused("range", "u1", 3),
        {
            "code": 4019,
            "message": "Blob write failed",
            "details": {"reason": "range", "upload_id": "u1", "total_size": 3},
        },
    ),
    (payload.room_full(), {"code": 4101, "message": "Room already has an agent"}),
    (payload.room_not_found(), {"code": 4102, "message": "Room not found"}),
    (payload.not_in_room(), {"code": 4103, "message": "Not in room"}),
    (payload.cross_room(), {"code": 4104, "message": "Cross room access denied"}),
    (
        payload.document_not_found("dpe://h/d", "d"),
        {"code": 4201, "message": "Document Not Found", "uri": "dpe://h/d", "doc_ref": "d"},
    ),
    (
        payload.page_out_of_range("dpe://h/d/pages/9", "d", 9, 0),
        {
            "code": 4202,
            "message": "Page Out of Range",
            "uri": "dpe://h/d/pages/9",
            "doc_ref": "d",
            "page": 9,
            "page_count": 0,
        },
    ),
    (
        payload.element_not_found("dpe://h/d/elements/e", "d", "e"),
        {
            "code": 4203,
            "message": "Element Not Found",
            "uri": "dpe://h/d/elements/e",
            "doc_ref": "d",
            "element_id": "e",
        },
    ),
    (
        payload.invalid_finder_uri("x", "invalid scheme"),
        {"code": 4204, "message": "Invalid DPE URI", "uri": "x", "reason": "invalid scheme"},
    ),
]


@pytest.mark.spec("W-ERR-1", "C-GEN-3", "C-GEN-17")
@pytest.mark.parametrize(("built", "wire"), EXACT, ids=lambda part: str(part["code"]) if isinstance(part, dict) else "")
def test_a_builder_puts_each_field_where_readers_look_for_it(built: ErrorPayload, wire: dict[str, Any]) -> None:
    assert built.to_wire() == wire


@pytest.mark.spec("W-ERR-7")
@pytest.mark.parametrize(("built", "wire"), EXACT, ids=lambda part: str(part["code"]) if isinstance(part, dict) else "")
def test_a_builder_uses_only_the_fields_of_its_row(built: ErrorPayload, wire: dict[str, Any]) -> None:
    row = CODES[built.code]
    assert set(wire) - {"code", "message", "details"} <= set(row.extras)
    assert set(wire.get("details", {})) <= set(row.details)


@pytest.mark.spec("W-REL-3")
def test_the_table_has_every_code_and_knows_which_survive_an_official_server() -> None:
    assert set(CODES) == ALL
    assert {code for code, row in CODES.items() if row.survives} == SURVIVORS


@pytest.mark.spec("W-HS-25")
def test_the_close_code_is_no_error_code() -> None:
    assert 4900 not in CODES


@pytest.mark.spec("W-ERR-2")
@pytest.mark.parametrize(
    ("carrier", "codes"),
    [
        ("http", {400, 4008}),
        ("connect_error", {401}),
        ("a2", {400, 403, 500, 4101, 4102, 4103, 4104}),
        ("meta", {400, 4001, 4002, 4003, 4004, 4005, 4006, 4007}),
        ("local", {4204}),
    ],
)
def test_each_carrier_carries_its_codes(carrier: str, codes: set[int]) -> None:
    assert {code for code, row in CODES.items() if carrier in row.carriers} == codes


def test_a_slug_belongs_to_one_code_but_for_the_local_form_of_the_uri_fault() -> None:
    slugs = [row.slug for code, row in CODES.items() if code != 4204]
    assert len(set(slugs)) == len(slugs)
    assert CODES[4204].slug == CODES[4012].slug


def test_a_code_outside_the_table_still_has_a_text() -> None:
    assert message_of(4999) == "Error 4999"


@pytest.mark.spec("W-ERR-3")
@pytest.mark.parametrize(
    "ack",
    [
        {"code": 4014, "message": "x"},
        {"code": 7, "message": ""},
        {"code": 0, "message": "x", "content": [], "isError": True},
        {"code": -1, "message": "x", "details": None},
    ],
)
def test_an_integer_code_and_a_text_make_an_error(ack: dict[str, Any]) -> None:
    assert payload.recognise(ack) == ack


@pytest.mark.spec("W-GEN-5")
def test_neither_text_nor_key_order_decides_what_an_error_is() -> None:
    usual = payload.to_error({"code": 4014, "message": "MCP Server not registered", "mcp_server": "git"})
    other = payload.to_error({"mcp_server": "git", "message": "[4101] no", "code": 4014})
    assert (usual.wire_code, usual.code, usual.retryable) == (other.wire_code, other.code, other.retryable)


@pytest.mark.spec("W-ERR-3")
@pytest.mark.parametrize(
    "ack",
    [
        None,
        {},
        [],
        "x",
        {"code": "4014", "message": "x"},
        {"code": True, "message": "x"},
        {"code": 4014.0, "message": "x"},
        {"code": 4014},
        {"code": 4014, "message": None},
        {"message": "x"},
        {"content": [], "isError": True, "meta": {"error_code": 4001}},
        {"error": "x"},
        {"error": {"code": "x", "message": "y"}},
        {"error": {"code": 1, "message": "y"}, "content": []},
    ],
)
def test_nothing_else_is_an_error(ack: Any) -> None:
    assert payload.recognise(ack) is None
    payload.raise_for_error(ack)


@pytest.mark.spec("W-ERR-1", "W-D-30")
def test_the_nested_form_of_an_early_draft_is_unwrapped() -> None:
    assert payload.recognise({"error": {"code": 404, "message": "x"}}) == {"code": 404, "message": "x"}


@pytest.mark.spec("W-ERR-3", "W-AGT-9")
def test_a_peer_error_keeps_the_payload_whole_and_its_details_out_of_the_text() -> None:
    ack = {"code": 4018, "message": "Blob not accessible", "details": {"reason": "gone", "path": "/etc"}, "later": 1}
    with pytest.raises(PeerError) as caught:
        payload.raise_for_error(ack, event="client:get_blob")
    error = caught.value
    assert error.payload == ack
    assert (error.wire_code, error.code, str(error)) == (4018, "blob_not_accessible", "Blob not accessible")
    assert error.details == {"event": "client:get_blob"}
    assert (error.retryable, error.retry_hint) == (True, "fetch a new handle from its channel")


@pytest.mark.parametrize(
    ("code", "reason", "retryable"),
    [
        (400, None, False),
        (403, None, False),
        (403, "rate_limited", True),
        (404, None, False),
        (408, None, True),
        (4006, None, False),
        (4014, None, True),
        (4017, "not_found", False),
        (4018, "from_the_future", False),
        (4019, "busy", True),
        (4999, None, False),
    ],
)
def test_whether_a_peer_error_may_be_retried_follows_its_code_and_reason(
    code: int, reason: str | None, retryable: bool
) -> None:
    details = {} if reason is None else {"details": {"reason": reason}}
    assert payload.to_error({"code": code, "message": "m", **details}).retryable is retryable


def test_an_unknown_code_has_no_slug_of_its_own() -> None:
    assert payload.to_error({"code": 4999, "message": "m"}).code == "peer_error"


@pytest.mark.spec("R-ERR-2")
def test_the_answer_to_a_peer_error_is_its_payload() -> None:
    refused = payload.capability_missing("git")
    assert payload.from_error(refused.to_error()) == refused


@pytest.mark.spec("C-GEN-5", "R-ERR-2")
def test_the_answer_to_a_request_of_the_wrong_shape_names_the_place() -> None:
    answer = payload.from_error(InvalidPayload("timeout", "integer in 1…3600")).to_wire()
    assert answer == {
        "code": 400,
        "message": "Bad Request",
        "details": {"field": "timeout", "expected": "integer in 1…3600"},
    }


@pytest.mark.spec("R-ERR-2", "W-ERR-6")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("/home/u/.ssh on 10.0.0.7:5432, password hunter2"),
        MissingInputError("no value for api_key", input_id="api_key", details={"path": "/home/u"}),
        OSError(2, "No such file", "/home/u/secret"),
        BaseExceptionGroup("several", [KeyboardInterrupt()]),
    ],
)
def test_the_answer_to_anything_else_says_nothing_about_it(error: BaseException) -> None:
    assert payload.from_error(error).to_wire() == {"code": 500, "message": "Internal Error"}


def test_fields_of_the_wrong_type_are_left_out_of_a_payload_that_is_passed_on() -> None:
    read = payload.read_payload({"code": 4014, "message": "m", "mcp_server": 3, "details": [], "uri": None, "later": 1})
    assert read.to_wire() == {"code": 4014, "message": "m"}


@pytest.mark.spec("W-CALL-3")
@pytest.mark.parametrize(
    "built", [payload.not_in_room(), payload.cross_room(), payload.server_gave_up(), payload.bad_request()]
)
def test_a_refused_tool_call_is_readable_as_a_result_too(built: ErrorPayload) -> None:
    wire = payload.for_tool_call(built)
    assert payload.recognise(wire) is not None
    assert wire["isError"] is True
    assert wire["content"] == [{"type": "text", "text": f"[{built.code}] {built.message}"}]
    assert wire["meta"] == {"error_code": built.code}
    assert {name: wire[name] for name in built.to_wire()} == built.to_wire()


@pytest.mark.spec("W-CALL-3", "W-CALL-2", "C-12")
def test_a_vanished_computer_is_answered_with_the_exact_bytes_of_an_official_server() -> None:
    assert payload.for_tool_call(payload.computer_not_found("pc1")) == {
        "code": 404,
        "message": "Computer with name 'pc1' not found",
        "details": {"computer_name": "pc1"},
    }


@pytest.mark.spec("W-ROOM-4")
@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("[4101] Room already has an agent", (4101, "Room already has an agent")),
        ("[403]", (403, "")),
        ("[403]x", (403, "x")),
        ("[400] two\nlines", (400, "two\nlines")),
        ("Internal server error: Agent already in room", (None, "Internal server error: Agent already in room")),
        ("", (None, "")),
        (None, (None, "")),
        ("[] x", (None, "[] x")),
        ("[x] y", (None, "[x] y")),
        (" [403] y", (None, " [403] y")),
        ("[４０３] y", (None, "[４０３] y")),
        ("[99999999999] y", (None, "[99999999999] y")),
    ],
)
def test_a_leading_code_is_read_and_its_absence_is_no_problem(text: str | None, parsed: tuple[int | None, str]) -> None:
    assert payload.parse_refusal(text) == parsed


@pytest.mark.spec("W-ROOM-4")
@given(code=st.integers(min_value=0, max_value=999_999_999), text=st.text(min_size=1, max_size=30))
def test_a_refusal_comes_back_as_it_was_written(code: int, text: str) -> None:
    assert payload.parse_refusal(payload.format_refusal(code, text)) == (code, text)


@pytest.mark.spec("W-ROOM-4", "W-ROOM-15")
def test_a_refusal_without_a_text_of_its_own_has_the_default() -> None:
    assert payload.format_refusal(4101) == "[4101] Room already has an agent"
