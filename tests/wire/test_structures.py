"""Every structure of 01 §6: what it must have, what absence and null mean, and that it stays open."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from smcp_runtime import wire
from smcp_runtime.wire import InvalidPayload, decode_payload, to_json, to_wire
from smcp_runtime.wire.base import Structure
from smcp_runtime.wire.rooms import member_notification
from support.wire_tables import COMMON_DEFAULTS, ROOMS, SSE, STDIO, STREAMABLE, STRUCTURES, TO_COMPUTER, Row


def plain(structure: Structure) -> Any:
    return json.loads(to_json(structure))


every_structure = pytest.mark.parametrize("row", STRUCTURES, ids=str)


def keys_of(row: Row) -> list[str]:
    return [key for key in row.example if key != "type"]


every_required_key = pytest.mark.parametrize(
    ("row", "key"), [(row, key) for row in STRUCTURES for key in keys_of(row) if key in row.required], ids=str
)
every_optional_key = pytest.mark.parametrize(
    ("row", "key"), [(row, key) for row in STRUCTURES for key in keys_of(row) if key not in row.required], ids=str
)


@pytest.mark.spec("W-GEN-1")
@every_structure
def test_a_complete_structure_survives_decoding_and_encoding(row: Row) -> None:
    assert plain(decode_payload(row.structure, row.example)) == row.example


@every_structure
def test_json_text_decodes_like_the_values_it_stands_for(row: Row) -> None:
    assert decode_payload(row.structure, json.dumps(row.example).encode()) == decode_payload(row.structure, row.example)


@pytest.mark.spec("W-GEN-2")
@every_structure
def test_fields_nobody_knows_are_ignored(row: Row) -> None:
    opened = row.example | {"x_future": {"deep": [1, None]}}
    assert plain(decode_payload(row.structure, opened)) == row.example


@pytest.mark.spec("C-GEN-5")
@every_required_key
def test_a_missing_required_key_is_named(row: Row, key: str) -> None:
    example = {name: value for name, value in row.example.items() if name != key}
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(row.structure, example)
    assert caught.value.field == key
    assert caught.value.details["field"] == key


@pytest.mark.spec("W-GEN-3")
@every_required_key
def test_null_in_a_required_key_counts_as_missing(row: Row, key: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(row.structure, row.example | {key: None})
    assert caught.value.field == key


@pytest.mark.spec("W-GEN-3")
@every_optional_key
def test_an_absent_optional_key_takes_its_default_or_stays_off_the_wire(row: Row, key: str) -> None:
    example = {name: value for name, value in row.example.items() if name != key}
    expected = example | ({key: row.defaults[key]} if key in row.defaults else {})
    assert plain(decode_payload(row.structure, example)) == expected


@pytest.mark.spec("W-GEN-3")
@every_optional_key
def test_null_in_an_optional_key_means_absence(row: Row, key: str) -> None:
    decoded = plain(decode_payload(row.structure, row.example | {key: None}))
    nullable = key in decoded and decoded[key] is None
    assert nullable or decoded == plain(
        decode_payload(row.structure, {name: value for name, value in row.example.items() if name != key})
    )


@pytest.mark.spec("C-GEN-5")
@every_structure
def test_a_payload_that_is_no_object_is_refused_as_a_whole(row: Row) -> None:
    for value in ([], "text", 3, True, None):
        with pytest.raises(InvalidPayload) as caught:
            decode_payload(row.structure, value)
        assert (caught.value.field, caught.value.expected) == ("$", "object")


@every_structure
def test_a_decoded_structure_does_not_change(row: Row) -> None:
    decoded = decode_payload(row.structure, row.example)
    with pytest.raises(AttributeError, match="immutable"):
        setattr(decoded, msgspec.structs.fields(decoded)[0].name, None)


@pytest.mark.spec("C-GEN-5")
@pytest.mark.parametrize(
    ("structure", "change", "field", "expected"),
    [
        (wire.ToolCallReq, {"tool_name": 3}, "tool_name", "string"),
        (wire.ToolCallReq, {"params": []}, "params", "object"),
        (wire.ToolCallReq, {"timeout": "30"}, "timeout", "integer in 1…3600"),
        (wire.ToolCallReq, {"timeout": True}, "timeout", "integer in 1…3600"),
        (wire.EnterOfficeReq, {"role": "admin"}, "role", "one of agent, computer"),
        (wire.EnterOfficeReq, {"name": ""}, "name", "non-empty string"),
        (wire.GetDeskTopReq, {"desktop_size": True}, "desktop_size", "integer"),
        (wire.GetDeskTopReq, {"desktop_size": 2.0}, "desktop_size", "integer"),
        (wire.GetDeskTopReq, {"desktop_size": 2**63}, "desktop_size", "integer"),
        (wire.GetDeskTopReq, {"desktop_size": -(2**63) - 1}, "desktop_size", "integer"),
        (wire.ListFinderReq, {"limit": -1}, "limit", "integer >= 0"),
        (wire.ListFinderReq, {"tags": ["a", 1]}, "tags[1]", "string"),
        (wire.GetDpeReq, {"timeout": 0}, "timeout", "number > 0"),
        (wire.GetDpeReq, {"timeout": True}, "timeout", "number > 0"),
        (wire.GetDpeReq, {"timeout": float("nan")}, "timeout", "number > 0"),
        (wire.ListRoomRet, {"sessions": [{}]}, "sessions[0].sid", "string"),
        (wire.GetResourcesRet, {"resources": [{"uri": "u", "annotations": {"priority": 2}}]}, None, "number in 0…1"),
        (wire.GetComputerConfigRet, {"inputs": [{"type": "number"}]}, "inputs[0].type", None),
        (wire.GetComputerConfigRet, {"servers": {"a": {**STDIO, "disabled": 1}}}, "servers[...].disabled", "boolean"),
        (wire.GetToolsRet, {"tools": {}}, "tools", "array"),
        (wire.PickStringInput, {"options": []}, "options", "array"),
    ],
)
def test_a_wrong_type_names_its_path_and_what_belongs_there(
    structure: type[Structure], change: dict[str, Any], field: str | None, expected: str | None
) -> None:
    example = next(row.example for row in STRUCTURES if row.structure is structure)
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(structure, copy.deepcopy(example) | change)
    if field is not None:
        assert caught.value.field == field
    if expected is not None:
        assert caught.value.details["expected"] == expected


@pytest.mark.spec("W-CALL-4")
@pytest.mark.parametrize(("given", "read"), [(30, 30), (30.0, 30), (1, 1), (3600.0, 3600)])
def test_a_tool_timeout_may_be_a_whole_number_written_as_a_float(given: float, read: int) -> None:
    request = decode_payload(wire.ToolCallReq, {**TO_COMPUTER, "tool_name": "t", "params": {}, "timeout": given})
    assert request.timeout == read
    assert type(request.timeout) is int


@pytest.mark.spec("W-CALL-4")
@pytest.mark.parametrize(
    "timeout", [0, -1, 0.5, 30.5, 3601, 3601.0, "30", True, None, float("nan"), float("inf"), [30]]
)
def test_a_tool_timeout_outside_its_range_or_of_another_type_is_refused(timeout: Any) -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(wire.ToolCallReq, {**TO_COMPUTER, "tool_name": "t", "params": {}, "timeout": timeout})
    assert caught.value.field == "timeout"


@pytest.mark.spec("W-ROOM-34")
@pytest.mark.parametrize(("role", "other"), [("computer", "agent"), ("agent", "computer")])
def test_a_member_is_announced_under_its_role_and_no_other_key(role: wire.Role, other: str) -> None:
    assert member_notification(role, "pc1", "r1") == {"office_id": "r1", role: "pc1"}
    read = decode_payload(wire.EnterOfficeNotification, {"office_id": "r1", role: "pc1", other: None})
    assert read.role == role


@pytest.mark.spec("W-ROOM-34")
@pytest.mark.parametrize("members", [{}, {"agent": "a", "computer": "c"}])
def test_a_notification_that_names_nobody_or_both_has_no_role(members: dict[str, str]) -> None:
    assert decode_payload(wire.LeaveOfficeNotification, {"office_id": "r1", **members}).role is None


@pytest.mark.spec("W-CFG-5", "W-REL-2")
@pytest.mark.parametrize(
    ("structure", "kind", "parameters", "filled"),
    [
        (
            wire.StdioServer,
            "stdio",
            {"command": "x"},
            {
                "command": "x",
                "args": [],
                "env": None,
                "cwd": None,
                "encoding": "utf-8",
                "encoding_error_handler": "strict",
            },
        ),
        (
            wire.StreamableServer,
            "streamable",
            {"url": "u"},
            {
                "url": "u",
                "headers": None,
                "timeout": "PT30S",
                "sse_read_timeout": "PT5M",
                "terminate_on_close": True,
            },
        ),
        (
            wire.SseServer,
            "sse",
            {"url": "u"},
            {"url": "u", "headers": None, "timeout": 5.0, "sse_read_timeout": 300.0},
        ),
    ],
)
def test_a_server_is_sent_with_every_field_even_when_only_the_necessary_ones_were_given(
    structure: type[Structure], kind: str, parameters: dict[str, Any], filled: dict[str, Any]
) -> None:
    decoded = decode_payload(structure, {"type": kind, "name": "n", "server_parameters": parameters})
    assert plain(decoded) == {"type": kind, "name": "n", **COMMON_DEFAULTS, "server_parameters": filled}


@pytest.mark.spec("W-REL-2")
def test_a_tool_without_description_or_schema_still_sends_the_keys_an_official_server_wants() -> None:
    tool = wire.SMCPTool(name="b__t", bundle_id="b", params_schema={})
    assert plain(tool) == {
        "name": "b__t",
        "bundle_id": "b",
        "description": "",
        "params_schema": {},
        "return_schema": None,
        "meta": {},
    }


@pytest.mark.spec("C-DOC-9")
@pytest.mark.parametrize(("limit", "size"), [(0, 0), (5, 5), (100, 100), (101, 100), (2**40, 100)])
def test_a_finder_page_is_clamped_to_its_maximum(limit: int, size: int) -> None:
    assert wire.ListFinderReq(**TO_COMPUTER, limit=limit).page_size == size


@pytest.mark.spec("C-DOC-24")
@pytest.mark.parametrize(("timeout", "effective"), [(0.5, 0.5), (60, 60), (300, 300), (301, 300), (float("inf"), 300)])
def test_a_document_timeout_is_capped(timeout: float, effective: float) -> None:
    assert (
        decode_payload(wire.GetDpeReq, {**TO_COMPUTER, "uri": "u", "timeout": timeout}).effective_timeout == effective
    )


@pytest.mark.spec("C-UP-1", "C-BLOB-9")
@pytest.mark.parametrize("odd", [True, 1.5, "x", [], {}, -1])
def test_fields_whose_faults_have_codes_of_their_own_arrive_unjudged(odd: Any) -> None:
    fields = ("upload_id", "chunk_offset", "eof", "total_size", "sha256", "name_hint", "blob")
    request = decode_payload(wire.PutBlobReq, TO_COMPUTER | dict.fromkeys(fields, odd))
    assert [getattr(request, field) for field in fields] == [odd] * len(fields)
    assert decode_payload(wire.GetBlobReq, {**TO_COMPUTER, "blob_handle": "h", "chunk_offset": odd}).chunk_offset == odd


def test_an_upload_chunk_of_ours_never_carries_null() -> None:
    chunk = wire.PutBlobChunk(**TO_COMPUTER, chunk_offset=0, eof=False, blob="")
    assert set(to_wire(chunk)) == {*TO_COMPUTER, "chunk_offset", "eof", "blob"}


@pytest.mark.parametrize("entry", [STDIO, STREAMABLE, SSE], ids=lambda entry: entry["type"])
def test_the_transport_of_a_server_is_its_tag(entry: dict[str, Any]) -> None:
    decoded = decode_payload(wire.GetComputerConfigRet, {"servers": {"git": entry}})
    assert decoded.servers["git"].transport == entry["type"]


def test_the_table_has_every_structure_that_is_public() -> None:
    public = {
        value
        for name in wire.__all__
        if isinstance(value := getattr(wire, name), type) and issubclass(value, Structure) and value is not Structure
    }
    # An upload as received is unjudged by design; its fields are tested above.
    assert public - {row.structure for row in STRUCTURES} == {wire.PutBlobReq}
    assert len(ROOMS) == 14
