"""Tool results: each outcome, what the Computer alone may say, and reading whatever a peer sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire import CODES, error_code, failure_kind, read_result, results
from smcp_runtime.wire.results import OWN_META_KEYS, item_meta, own_meta, result_meta, seal

NOT_EXECUTED = {"a2c_outcome": "not_executed"}
UNKNOWN = {"a2c_outcome": "unknown"}


def text_of(result: dict[str, Any]) -> str:
    (item,) = result["content"]
    assert item["type"] == "text"
    return str(item["text"])


OUTCOMES: list[Any] = [
    pytest.param(
        results.unknown_tool("x__y"), {"error_code": 4001, **NOT_EXECUTED}, marks=pytest.mark.spec("C-3"), id="C-3"
    ),
    pytest.param(
        results.disabled_tool("x__y", "x"),
        {"error_code": 4002, "mcp_server": "x", **NOT_EXECUTED},
        marks=pytest.mark.spec("C-4"),
        id="C-4",
    ),
    pytest.param(
        results.unconfirmed("x__y", "denied"),
        {"error_code": 4005, **NOT_EXECUTED},
        marks=pytest.mark.spec("C-5"),
        id="C-5",
    ),
    pytest.param(
        results.failed("the server closed its pipe", "x"),
        {"error_code": 4003, "mcp_server": "x", **UNKNOWN},
        marks=pytest.mark.spec("C-6"),
        id="C-6",
    ),
    pytest.param(
        results.timed_out(3, "x"),
        {"a2c_timeout": True, "error_code": 4004, "mcp_server": "x", **UNKNOWN},
        marks=pytest.mark.spec("C-7"),
        id="C-7",
    ),
    pytest.param(
        results.cancelled(),
        {"a2c_cancelled": True, "a2c_cancel_reason": "agent_requested", **UNKNOWN},
        marks=pytest.mark.spec("C-8", "W-CALL-15"),
        id="C-8",
    ),
    pytest.param(
        results.malformed_request(field="params"),
        {"error_code": 400, **NOT_EXECUTED},
        marks=pytest.mark.spec("C-10"),
        id="C-10",
    ),
    pytest.param(
        results.too_large(2_000_000, 900_000),
        {"error_code": 4003, "a2c_result_too_large": True},
        marks=pytest.mark.spec("C-11", "W-CALL-21"),
        id="C-11",
    ),
    pytest.param(
        results.busy("the queue is full", "x"),
        {"error_code": 4003, "a2c_busy": True, "mcp_server": "x", **NOT_EXECUTED},
        marks=pytest.mark.spec("C-13", "DEC-29"),
        id="C-13",
    ),
    pytest.param(
        results.not_connected("restarting", "x"),
        {"error_code": 4003, "mcp_server": "x", **NOT_EXECUTED},
        marks=pytest.mark.spec("C-14", "DEC-25"),
        id="C-14",
    ),
    pytest.param(
        results.timed_out_locally(5),
        {"a2c_timeout": True, **UNKNOWN},
        marks=pytest.mark.spec("W-CALL-11"),
        id="Agent",
    ),
]


@pytest.mark.parametrize(("result", "meta"), OUTCOMES)
def test_an_outcome_is_an_error_with_one_text_and_exactly_its_metadata(
    result: dict[str, Any], meta: dict[str, Any]
) -> None:
    assert result["isError"] is True
    assert text_of(result)
    assert result["meta"] == meta
    assert set(result) == {"content", "isError", "meta"}
    json.dumps(result)


@pytest.mark.spec("W-CALL-18")
@pytest.mark.parametrize(("result", "meta"), OUTCOMES)
def test_an_outcome_uses_only_names_and_codes_of_the_tables(result: dict[str, Any], meta: dict[str, Any]) -> None:
    assert set(meta) <= OWN_META_KEYS
    code = error_code(result)
    assert code is None or "meta" in CODES[code].carriers


@pytest.mark.spec("C-9", "W-UP-2", "W-UP-3")
@pytest.mark.parametrize(("code", "action"), [(4006, "user_authorization_required"), (4007, "token_refresh_required")])
def test_a_missing_authorization_names_server_and_remedy(code: Any, action: str) -> None:
    result = results.unauthorized(code, "git")
    meta = result["meta"]
    assert (meta["error_code"], meta["mcp_server"]) == (code, "git")
    assert set(meta) == {"error_code", "mcp_server", "auth_hint"}
    assert meta["auth_hint"]["action"] == action
    assert meta["auth_hint"]["message"] == text_of(result)


@pytest.mark.spec("W-UP-8")
@pytest.mark.parametrize("code", [4006, 4007])
def test_an_authorization_hint_has_no_credential_and_no_address(code: Any) -> None:
    hint = json.dumps(results.unauthorized(code, "git")["meta"]["auth_hint"])
    for forbidden in ("http", "access_token", "refresh_token", "client_id", "code_verifier", 'state"', "nonce", "?"):
        assert forbidden not in hint


@pytest.mark.spec("W-CALL-21")
def test_a_result_that_is_too_large_names_size_and_limit() -> None:
    assert "2000000" in text_of(results.too_large(2_000_000, 900_000))
    assert "900000" in text_of(results.too_large(2_000_000, 900_000))


def test_metadata_that_is_not_known_is_left_out() -> None:
    assert "mcp_server" not in results.failed("x")["meta"]
    assert "meta" not in results.error_result("x", mcp_server=None)
    assert results.timed_out(1, outcome="not_executed")["meta"]["a2c_outcome"] == "not_executed"


def sealed(result: Any, **ours: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(seal(json.dumps(result).encode(), ours))
    return read


@pytest.mark.spec("C-1", "W-CALL-18")
def test_a_success_passes_with_its_content_structure_and_unknown_members() -> None:
    result = {"content": [{"type": "text", "text": "ü"}], "structuredContent": {"a": [1.0, None]}, "resultType": "x"}
    assert sealed(result) == result | {"isError": False}


@pytest.mark.spec("C-2")
def test_an_error_of_the_tool_itself_gets_no_code() -> None:
    result = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
    assert sealed(result) == result


@pytest.mark.spec("W-CALL-19")
def test_result_metadata_moves_to_meta_and_item_metadata_to_underscore_meta() -> None:
    result = {
        "_meta": {"k": 1},
        "content": [
            {"type": "text", "text": "x", "meta": {"i": 1}},
            {"type": "resource", "resource": {"uri": "u", "text": "t", "meta": None, "_meta": {"r": 1}}},
        ],
    }
    assert sealed(result) == {
        "isError": False,
        "meta": {"k": 1},
        "content": [
            {"type": "text", "text": "x", "_meta": {"i": 1}},
            {"type": "resource", "resource": {"uri": "u", "text": "t", "_meta": {"r": 1}}},
        ],
    }


@pytest.mark.spec("C-BLOB-20", "C-SEC-24")
@pytest.mark.parametrize("spelling", ["meta", "_meta"])
def test_names_of_the_computer_written_by_a_server_are_removed_at_every_level(spelling: str) -> None:
    planted = dict.fromkeys(OWN_META_KEYS, "planted") | {"a2c_blob_handle": "b1.x.y", "a2c_future": 1, "kept": True}
    inner = {name: value for name, value in planted.items() if name.startswith("a2c_")} | {"kept": True}
    result = {
        spelling: planted,
        "content": [
            {"type": "image", "data": "", "mimeType": "image/png", spelling: inner},
            {"type": "resource", "resource": {"uri": "u", "blob": "", spelling: inner}},
        ],
    }
    clean = sealed(result)
    assert clean["meta"] == {"kept": True}
    assert clean["content"][0]["_meta"] == {"kept": True}
    assert clean["content"][1]["resource"]["_meta"] == {"kept": True}
    assert "planted" not in json.dumps(clean)


@pytest.mark.spec("C-SEC-24")
def test_an_escaped_spelling_of_such_a_name_is_found_too() -> None:
    item = rb'{"type":"text","text":"x","\u005fmeta":{"\u0061\u0032c_blob_handle":"h"}}'
    clean = json.loads(seal(rb'{"content":[' + item + rb'],"\u005fmeta":{"a2\u0063_x":1}}'))
    assert clean == {"content": [{"type": "text", "text": "x"}], "isError": False}


@pytest.mark.spec("W-CALL-18")
def test_what_the_computer_says_wins_over_the_same_name_of_the_server() -> None:
    clean = sealed(
        {"content": [], "_meta": {"a2c_tool_meta": "forged", "mcp_server": "x"}},
        a2c_tool_meta={"tags": []},
        a2c_attempts=None,
    )
    assert clean["meta"] == {"a2c_tool_meta": {"tags": []}}
    assert own_meta({"error_code": 1, "z": 2}, {"z": 3, "y": None}) == {"z": 3}


@pytest.mark.spec("C-BLOB-22")
def test_content_without_metadata_keeps_its_bytes() -> None:
    content = b'[ {"type" : "text", "text":"1e2 \\n 1.50"} ]'
    assert content in seal(b'{"content":' + content + b',"structuredContent": {"n": 1.50}}')
    assert b'{"n": 1.50}' in seal(b'{"content":[],"structuredContent": {"n": 1.50}}')


@pytest.mark.spec("W-CALL-18")
@pytest.mark.parametrize(
    ("result", "clean"),
    [
        ({}, {"content": [], "isError": False}),
        (
            {"content": None, "isError": None, "structuredContent": None, "_meta": None},
            {"content": [], "isError": False},
        ),
        ({"content": [3, None, "x"]}, {"content": [3, None, "x"], "isError": False}),
        ({"content": [], "isError": 1}, {"content": [], "isError": False}),
    ],
)
def test_members_that_are_missing_or_null_have_their_defaults(result: Any, clean: Any) -> None:
    assert sealed(result) == clean


@pytest.mark.parametrize("result", [b"", b"[]", b"null", b"{", b'{"content":{}}', b'{"content":"x"}', b"\xff"])
def test_what_is_no_result_is_refused(result: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON object|not a list"):
        seal(result)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["meta", "_meta", "resource", "a2c_x", "k"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.spec("C-BLOB-20", "W-CALL-19")
@given(content=st.lists(json_values, max_size=3), meta=json_values)
def test_no_sealed_result_holds_a_name_of_ours_where_metadata_is_read(content: list[Any], meta: Any) -> None:
    clean = json.loads(seal(json.dumps({"content": content, "meta": meta, "_meta": meta}, ensure_ascii=False).encode()))
    holders = [item for item in clean["content"] if isinstance(item, dict)]
    holders += [item["resource"] for item in holders if isinstance(item.get("resource"), dict)]
    assert all("meta" not in holder for holder in holders)
    assert not any(name.startswith("a2c_") for holder in holders for name in item_meta(holder))
    assert not any(name.startswith("a2c_") for name in clean.get("meta", {}))
    assert seal(json.dumps(clean).encode()) == seal(seal(json.dumps(clean).encode()))


@pytest.mark.spec("W-CALL-20")
@pytest.mark.parametrize(
    ("members", "meta"),
    [
        ({"meta": {"a": 1}}, {"a": 1}),
        ({"_meta": {"a": 1}}, {"a": 1}),
        ({"meta": {"a": 1}, "_meta": {"b": 2}}, {"a": 1}),
        ({"meta": None, "_meta": {"b": 2}}, {"b": 2}),
        ({"meta": "x", "_meta": {"b": 2}}, {"b": 2}),
        ({}, {}),
        ({"meta": None}, {}),
    ],
)
def test_result_metadata_is_read_under_both_spellings(members: dict[str, Any], meta: dict[str, Any]) -> None:
    assert result_meta(members) == meta


@pytest.mark.spec("W-CALL-20", "W-D-14")
def test_item_metadata_is_read_under_both_spellings_with_the_other_preference() -> None:
    assert item_meta({"meta": None, "_meta": {"a2c_blob_handle": "h"}}) == {"a2c_blob_handle": "h"}
    assert item_meta({"meta": {"a": 1}, "_meta": {"b": 2}}) == {"b": 2}
    assert item_meta({"meta": {"a": 1}, "_meta": None}) == {"a": 1}


@pytest.mark.spec("W-CALL-18", "W-CALL-20")
def test_a_result_of_an_official_computer_is_read_in_our_spelling() -> None:
    ack = {
        "content": [
            {"type": "text", "text": "x", "annotations": None, "meta": None, "_meta": None},
            {
                "type": "resource",
                "meta": None,
                "_meta": {"a2c_blob_handle": "h"},
                "resource": {"uri": "u", "meta": {"r": 1}},
            },
            "odd",
        ],
        "structuredContent": None,
        "isError": False,
        "meta": None,
        "_meta": {"k": 1},
        "later": 2,
    }
    assert read_result(ack) == {
        "content": [
            {"type": "text", "text": "x"},
            {"type": "resource", "_meta": {"a2c_blob_handle": "h"}, "resource": {"uri": "u", "_meta": {"r": 1}}},
            "odd",
        ],
        "isError": False,
        "meta": {"k": 1},
        "later": 2,
    }


@pytest.mark.spec("W-CALL-18")
@pytest.mark.parametrize("ack", [{}, {"content": None}, {"content": "x"}, {"isError": None}])
def test_a_result_with_gaps_is_an_empty_success(ack: dict[str, Any]) -> None:
    assert read_result(ack) == {"content": [], "isError": False}


@pytest.mark.spec("W-CALL-27")
def test_an_error_without_content_takes_its_text_from_the_structure() -> None:
    ack = {"content": [], "structuredContent": {"error": "Unknown tool", "error_type": "ValueError"}, "isError": True}
    assert text_of(read_result(ack)) == "Unknown tool"
    assert read_result(ack | {"isError": False})["content"] == []
    assert read_result(ack | {"structuredContent": {"error": 3}})["content"] == []


@pytest.mark.spec("W-AGT-5", "W-D-30")
@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (results.cancelled(), "cancelled"),
        (results.timed_out(1), "timed_out"),
        (results.failed("x"), "other"),
        ({"isError": True, "_meta": {"a2c_cancelled": True}}, "cancelled"),
        ({"isError": True, "meta": {"timeout": True}}, "timed_out"),
        ({"isError": True}, "other"),
        ({"isError": False, "meta": {"a2c_cancelled": True}}, None),
        ({}, None),
    ],
)
def test_the_three_kinds_of_failure_are_told_apart(result: dict[str, Any], kind: str | None) -> None:
    assert failure_kind(result) == kind


@pytest.mark.parametrize(
    ("meta", "code"),
    [({"error_code": 4003}, 4003), ({"error_code": True}, None), ({"error_code": "4003"}, None), (None, None)],
)
def test_an_error_code_is_an_integer_or_none(meta: Any, code: int | None) -> None:
    assert error_code({"isError": True, "meta": meta}) == code
