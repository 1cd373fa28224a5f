"""Reading MCP resources: a wrong member costs itself, never its resource."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire import to_json, to_wire
from smcp_runtime.wire.resources import resource_from_mcp


def read(**members: Any) -> dict[str, Any]:
    resource = resource_from_mcp({"uri": "file:///x", **members})
    assert resource is not None
    return to_wire(resource)


@pytest.mark.spec("W-RES-1")
def test_a_resource_is_mapped_member_by_member() -> None:
    read_back = read(
        name="x",
        title="not mapped",
        icons=[],
        description="d",
        mimeType="text/plain",
        size=3,
        annotations={"audience": ["user"], "priority": 1, "lastModified": "2026-01-01T00:00:00Z", "more": 1},
        _meta={"fullscreen": True, "x": None},
    )
    assert read_back == {
        "uri": "file:///x",
        "name": "x",
        "description": "d",
        "mime_type": "text/plain",
        "size": 3,
        "annotations": {"audience": ("user",), "priority": 1.0, "last_modified": "2026-01-01T00:00:00Z"},
        "_meta": {"fullscreen": True, "x": None},
    }


@pytest.mark.spec("C-GEN-11")
@pytest.mark.parametrize("uri", ["window://H/%7e/../x?y#z", "x", "HTTP://Example/"])
def test_a_uri_is_kept_as_the_server_sent_it(uri: str) -> None:
    assert read(uri=uri) == {"uri": uri}


@pytest.mark.spec("C-GEN-9")
@pytest.mark.parametrize("value", [None, [], "x", {}, {"uri": None}, {"uri": 3}, {"uri": ""}, {"name": "x"}])
def test_what_has_no_uri_is_no_resource(value: Any) -> None:
    assert resource_from_mcp(value) is None


@pytest.mark.spec("C-GEN-9", "C-DESK-6")
@pytest.mark.parametrize(
    "member",
    [
        {"name": 3},
        {"description": None},
        {"mimeType": []},
        {"size": True},
        {"size": 1.5},
        {"size": "3"},
        {"size": 2**63},
        {"annotations": "x"},
        {"annotations": None},
        {"annotations": {}},
        {"annotations": {"priority": True}},
        {"annotations": {"priority": 1.5}},
        {"annotations": {"priority": -0.1}},
        {"annotations": {"priority": float("nan")}},
        {"annotations": {"priority": "high"}},
        {"annotations": {"audience": "user"}},
        {"annotations": {"lastModified": 3}},
        {"_meta": []},
    ],
)
def test_a_member_of_another_type_is_left_out(member: dict[str, Any]) -> None:
    assert read(**member) == {"uri": "file:///x"}


@pytest.mark.spec("C-GEN-9")
def test_a_bad_annotation_does_not_cost_its_neighbours() -> None:
    annotations = {"priority": 7, "audience": ["user", "robot", 3, "assistant"], "lastModified": "2026"}
    assert read(annotations=annotations)["annotations"] == {"audience": ("user", "assistant"), "last_modified": "2026"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.spec("C-GEN-9")
@given(
    st.dictionaries(
        st.sampled_from(["name", "description", "mimeType", "size", "annotations", "_meta", "other"]),
        json_values,
        max_size=7,
    )
)
def test_any_members_leave_a_resource_that_can_be_sent(members: dict[str, Any]) -> None:
    resource = resource_from_mcp(members | {"uri": "file:///x"})
    assert resource is not None
    to_json(resource)
