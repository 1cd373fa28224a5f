"""Tool metadata: the four known members, the rest passed on, and the two forms in which it is stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.wire import InvalidPayload, ToolMeta
from smcp_runtime.wire.tools import read_meta_member


@pytest.mark.spec("R-MCP-12", "W-META-2")
def test_metadata_is_written_with_its_null_members_first_and_extras_after() -> None:
    meta = ToolMeta.read({"x_team": {"a": None}, "tags": ["a"], "alias": None})
    assert list(meta.to_dict().items()) == [
        ("auto_apply", None),
        ("alias", None),
        ("tags", ["a"]),
        ("ret_object_mapper", None),
        ("x_team", {"a": None}),
    ]


@pytest.mark.spec("R-MCP-12")
def test_metadata_without_extras_has_four_members_and_an_empty_tag_list_is_a_value() -> None:
    assert set(ToolMeta.read({}).to_dict()) == {"auto_apply", "alias", "tags", "ret_object_mapper"}
    assert ToolMeta.read({"tags": []}).to_dict()["tags"] == []


@pytest.mark.spec("R-MCP-12")
def test_an_extra_that_is_called_extra_is_an_extra() -> None:
    assert ToolMeta.read({"extra": 1}).to_dict()["extra"] == 1


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"auto_apply": "yes"}, "auto_apply"),
        ({"auto_apply": 1}, "auto_apply"),
        ({"alias": 3}, "alias"),
        ({"tags": "x"}, "tags"),
        ({"tags": [1]}, "tags[0]"),
        ({"ret_object_mapper": []}, "ret_object_mapper"),
        ([], "$"),
        (None, "$"),
    ],
)
def test_a_member_of_another_type_is_named(value: Any, field: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        ToolMeta.read(value)
    assert caught.value.field == field


@pytest.mark.spec("W-META-5")
@pytest.mark.parametrize("stored", [json.dumps({"tags": ["a"]}), {"tags": ["a"]}])
def test_stored_metadata_is_read_from_a_string_and_from_an_object(stored: Any) -> None:
    assert read_meta_member({"a2c_tool_meta": stored}, "a2c_tool_meta") == {"tags": ["a"]}


@pytest.mark.spec("W-META-5")
@pytest.mark.parametrize("stored", [None, "", "{", "[]", "null", 3, [], "[" * 100_000])
def test_what_is_no_object_is_no_metadata(stored: Any) -> None:
    assert read_meta_member({"a2c_tool_meta": stored}, "a2c_tool_meta") is None


@pytest.mark.parametrize("meta", [None, {}, {"other": "{}"}])
def test_absent_metadata_is_none(meta: dict[str, Any] | None) -> None:
    assert read_meta_member(meta, "a2c_tool_meta") is None
