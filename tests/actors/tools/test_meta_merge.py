"""Three layers of tool metadata, and the flat form they take on the wire."""

from __future__ import annotations

import json

import pytest

from smcp_runtime.actors.tools.meta_merge import Declared, configured, declared, merged, wire_meta

spec = pytest.mark.spec


@spec("W-META-10", "W-META-13", "R-MCP-13")
def test_the_specific_layer_wins_field_by_field_over_the_default_layer() -> None:
    config = configured({"auto_apply": False}, {"tags": ["browser"], "auto_apply": True})
    assert config is not None
    assert (config["auto_apply"], config["tags"]) == (False, ["browser"])


@spec("W-META-13")
def test_a_null_member_does_not_hide_the_layer_below() -> None:
    config = configured({"tags": None}, {"tags": ["x"]})
    assert config is not None
    assert config["tags"] == ["x"]


@spec("W-META-13")
def test_merging_is_shallow_at_root_level() -> None:
    config = configured({"ret_object_mapper": {"a": "b"}}, {"ret_object_mapper": {"c": "d"}})
    assert config is not None
    assert config["ret_object_mapper"] == {"a": "b"}


@spec("W-META-14", "DEC-22", "R-MCP-15")
def test_an_alias_in_the_default_layer_is_ignored() -> None:
    config = configured(None, {"alias": "all_the_same"})
    assert config is not None
    assert config["alias"] is None


@spec("W-META-14")
def test_an_alias_of_the_specific_layer_is_taken() -> None:
    config = configured({"alias": "short"}, {"alias": "all_the_same"})
    assert config is not None
    assert config["alias"] == "short"


@spec("R-MCP-12")
def test_extra_fields_pass_through_after_the_known_ones() -> None:
    config = configured({"zone": 1}, {"area": 2})
    assert config is not None
    assert list(config) == ["auto_apply", "alias", "tags", "ret_object_mapper", "area", "zone"]


@spec("W-META-11", "R-MCP-13")
def test_a_server_declares_tags_and_nothing_else() -> None:
    assert declared({"a2c_tool_meta": {"tags": ["t"], "auto_apply": True}}) == Declared(tags=("t",), present=True)


@spec("W-META-12", "R-MCP-14")
@pytest.mark.parametrize("declaration", [None, [], "tags", 1, {"tags": "t"}, {"tags": [1]}, {"tags": {"a": 1}}])
def test_a_declaration_of_another_shape_is_malformed(declaration: object) -> None:
    assert declared({"a2c_tool_meta": declaration}).malformed


@spec("W-META-12", "R-MCP-14")
def test_absence_of_the_key_is_no_declaration_and_no_fault() -> None:
    assert declared({"other": 1}) == Declared()


@spec("W-META-12")
def test_null_tags_are_a_valid_declaration() -> None:
    assert declared({"a2c_tool_meta": {"tags": None}}) == Declared(present=True)


@spec("W-META-15", "T-PROJ-11")
def test_t_proj_11_declared_tags_fill_in_for_a_configuration_without_tags() -> None:
    both = merged(configured({"auto_apply": True}, None), Declared(tags=("t",), present=True))
    assert both is not None
    assert (both["tags"], both["auto_apply"]) == (["t"], True)


@spec("W-META-15", "T-PROJ-11", "R-MCP-13")
def test_t_proj_11_an_empty_list_of_configured_tags_clears_the_declared_ones() -> None:
    both = merged(configured({"tags": []}, None), Declared(tags=("t",), present=True))
    assert both is not None
    assert both["tags"] == []


@spec("W-META-16")
def test_a_declaration_alone_gives_an_object_with_only_tags_filled() -> None:
    assert merged(None, Declared(tags=("t",), present=True)) == {
        "auto_apply": None,
        "alias": None,
        "tags": ["t"],
        "ret_object_mapper": None,
    }


@spec("W-META-16", "R-MCP-13")
@pytest.mark.parametrize("declaration", [Declared(), Declared(malformed=True)])
def test_neither_configuration_nor_valid_declaration_gives_no_key(declaration: Declared) -> None:
    assert "a2c_tool_meta" not in wire_meta({}, None, merged(None, declaration))


@spec("W-META-2", "T-PROJ-2")
def test_tool_meta_is_a_json_string_with_its_null_members() -> None:
    meta = wire_meta({}, None, merged(configured({"tags": ["read"]}, None), Declared()))
    text = '{"auto_apply":null,"alias":null,"tags":["read"],"ret_object_mapper":null}'
    assert meta == {"a2c_tool_meta": text}


@spec("W-META-3")
def test_annotations_are_a_json_string_with_all_five_hints() -> None:
    meta = wire_meta({}, {"readOnlyHint": True}, None)
    assert json.loads(meta["MCP_TOOL_ANNOTATION"]) == {
        "title": None,
        "readOnlyHint": True,
        "destructiveHint": None,
        "idempotentHint": None,
        "openWorldHint": None,
    }


@spec("W-META-3")
def test_without_annotations_there_is_no_annotation_key() -> None:
    assert wire_meta({}, None, None) == {}


@spec("W-META-1", "W-META-4")
@pytest.mark.parametrize("value", ["x", True, 3, 2.5, ["a", "b"], [1, 2.5], [True], []])
def test_scalars_and_lists_of_one_kind_pass_unchanged(value: object) -> None:
    assert wire_meta({"k": value}, None, None) == {"k": value}


@spec("W-META-1")
@pytest.mark.parametrize("value", [{"a": 1}, ["a", 1], [True, 1], [[1]], [None]])
def test_objects_and_mixed_lists_become_json_text(value: object) -> None:
    meta = wire_meta({"k": value}, None, None)
    assert isinstance(meta["k"], str)
    assert json.loads(meta["k"]) == value


@spec("W-META-1")
def test_a_null_value_is_left_out() -> None:
    assert wire_meta({"k": None}, None, None) == {}


@spec("W-META-4")
def test_a_server_cannot_write_our_two_keys() -> None:
    assert wire_meta({"a2c_tool_meta": {"auto_apply": True}, "MCP_TOOL_ANNOTATION": "{}"}, None, None) == {}


@spec("DEC-5")
def test_the_order_of_native_keys_does_not_show() -> None:
    first, second = wire_meta({"b": 1, "a": 2}, None, None), wire_meta({"a": 2, "b": 1}, None, None)
    assert list(first) == list(second)


@spec("W-META-10")
def test_the_worked_example_of_the_specification_holds() -> None:
    default = {"tags": ["browser"], "auto_apply": True}
    specific = {"navigate": {"auto_apply": False}, "shot": {"tags": ["browser", "capture"]}}
    rows = {name: configured(specific.get(name), default) or {} for name in ("navigate", "shot", "other")}
    assert {name: (row["tags"], row["auto_apply"]) for name, row in rows.items()} == {
        "navigate": (["browser"], False),
        "shot": (["browser", "capture"], True),
        "other": (["browser"], True),
    }
