"""Decoding: any JSON gives a structure or one typed fault, and no fault repeats what was found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcp_runtime import wire
from smcp_runtime.wire import InvalidPayload, decode_payload, to_json
from smcp_runtime.wire.base import Structure, convert, parse_json
from support.wire_tables import STRUCTURES, TO_COMPUTER, Row

CANARY = "s3cret-canary"

ANY_FLOAT = st.floats()

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8).map(lambda text: CANARY + text)


def json_values(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars | numbers,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    )


@st.composite
def damaged(draw: st.DrawFn, numbers: st.SearchStrategy[float] = ANY_FLOAT) -> tuple[Row, Any]:
    """A complete example with some of its keys replaced, dropped or added, at two depths."""
    row = draw(st.sampled_from(STRUCTURES))
    documents = json_values(numbers)
    value = json.loads(json.dumps(row.example))
    for key in draw(st.lists(st.sampled_from(sorted(value)), max_size=3, unique=True)):
        inner = value[key]
        if isinstance(inner, dict) and inner and draw(st.booleans()):
            inner[draw(st.sampled_from(sorted(inner)))] = draw(documents)
        elif draw(st.booleans()):
            value[key] = draw(documents)
        else:
            del value[key]
    return row, value


def decoded_or_fault(structure: type[Structure], value: Any) -> Structure | InvalidPayload:
    try:
        return decode_payload(structure, value)
    except InvalidPayload as fault:
        return fault


def tells_nothing(fault: InvalidPayload) -> bool:
    return CANARY not in f"{fault} {fault!r} {fault.field} {fault.details} {fault.__cause__}"


@pytest.mark.spec("C-GEN-5", "W-GEN-2")
@given(case=damaged())
@settings(max_examples=300)
def test_damaged_payloads_are_decoded_or_refused_by_place_and_type_without_their_values(case: tuple[Row, Any]) -> None:
    row, value = case
    outcome = decoded_or_fault(row.structure, value)
    if isinstance(outcome, InvalidPayload):
        assert outcome.details == {"field": outcome.field, "expected": outcome.expected}
        assert outcome.field
        assert tells_nothing(outcome)
    else:
        assert isinstance(outcome, row.structure)
        to_json(outcome)


@given(case=damaged(st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=200)
def test_text_and_values_have_the_same_outcome(case: tuple[Row, Any]) -> None:
    row, value = case
    text = json.dumps(value).encode()
    from_text, from_values = decoded_or_fault(row.structure, text), decoded_or_fault(row.structure, value)
    if isinstance(from_values, InvalidPayload):
        assert isinstance(from_text, InvalidPayload)
        assert from_text.details == from_values.details
    else:
        assert from_text == from_values


@given(structure=st.sampled_from([row.structure for row in STRUCTURES]), value=json_values(ANY_FLOAT))
@settings(max_examples=100)
def test_any_json_value_decodes_or_is_refused(structure: type[Structure], value: Any) -> None:
    outcome = decoded_or_fault(structure, value)
    assert tells_nothing(outcome) if isinstance(outcome, InvalidPayload) else isinstance(outcome, structure)


@given(text=st.binary(max_size=64))
def test_any_bytes_decode_or_are_refused(text: bytes) -> None:
    assert isinstance(decoded_or_fault(wire.GetToolsReq, text), wire.GetToolsReq | InvalidPayload)


@pytest.mark.parametrize("text", [b"", b"{", b"[1,", b"\xff\xfe", b'{"a":1e999}', b"nul", b'{"agent":"\\ud800"}'])
def test_text_that_is_no_json_is_refused_as_a_whole(text: bytes) -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(wire.GetToolsReq, text)
    assert (caught.value.field, caught.value.expected) == ("$", "JSON")


@pytest.mark.parametrize(
    "value", ["\ud800", {"agent": "a", "req_id": "r", "computer": "c", "tool_name": "t", "params": "\ud800"}]
)
def test_half_a_character_where_an_object_belongs_is_refused(value: Any) -> None:
    with pytest.raises(InvalidPayload):
        decode_payload(wire.ToolCallReq, value)


def test_nesting_beyond_the_stack_is_refused_and_does_not_crash() -> None:
    with pytest.raises(InvalidPayload):
        parse_json(b"[" * 100_000)
    deep: Any = {}
    for _ in range(100_000):
        deep = {"x": deep}
    with pytest.raises(InvalidPayload):
        decode_payload(wire.GetToolsReq, {"agent": deep})


def test_a_key_that_is_no_string_is_refused() -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(wire.GetToolsReq, {**TO_COMPUTER, 3: "x"})
    assert caught.value.expected == "object with string keys"


def test_nulls_inside_free_objects_are_kept() -> None:
    request = decode_payload(
        wire.ToolCallReq, {**TO_COMPUTER, "tool_name": "t", "params": {"a": None, "b": [None]}, "timeout": 1.0}
    )
    assert request.params == {"a": None, "b": [None]}


@pytest.mark.spec("W-GEN-3")
def test_nulls_that_mean_absence_are_dropped_at_every_depth() -> None:
    page = {
        "req_id": "r",
        "next_cursor": None,
        "resources": [{"uri": "u", "size": None, "annotations": {"priority": None}}],
    }
    decoded = decode_payload(wire.GetResourcesRet, page)
    assert json.loads(to_json(decoded)) == {"req_id": "r", "resources": [{"uri": "u", "annotations": {}}]}


@pytest.mark.spec("W-GEN-3")
def test_nulls_are_dropped_inside_the_right_member_of_a_union() -> None:
    entry = {"type": "streamable", "name": "n", "disabled": None, "server_parameters": {"url": "u", "timeout": None}}
    decoded = decode_payload(wire.GetComputerConfigRet, {"servers": {"n": entry}})
    server = decoded.servers["n"]
    assert isinstance(server, wire.StreamableServer)
    assert (server.disabled, server.server_parameters.timeout) == (False, "PT30S")


@pytest.mark.parametrize(
    ("tp", "value", "expected"),
    [
        (dict[str, int], [], "object"),
        (list[str], {}, "array"),
        (bool, 1, "boolean"),
        (float, "x", "number"),
        (int | None, "x", "integer or null"),
        (tuple[str, ...] | None, 3, "array or null"),
    ],
)
def test_expected_types_have_the_names_of_json(tp: Any, value: Any, expected: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        convert(tp, value)
    assert caught.value.expected == expected


def test_a_decoded_request_can_be_sent_again_unchanged() -> None:
    request = wire.GetResourcesReq(**TO_COMPUTER, mcp_server="b")
    assert json.loads(to_json(request)) == {**TO_COMPUTER, "mcp_server": "b"}
