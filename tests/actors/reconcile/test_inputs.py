"""Input definitions: what is accepted, what is refused where, and what an Agent sees of them."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.inputs import (
    Definition,
    canonical,
    default_of,
    kind_of,
    project,
    read_inputs,
)

spec = pytest.mark.spec
OPTIONS = [{"label": "One", "value": "1"}, {"label": "Two", "value": "2"}]


def read(*raw: Any) -> tuple[list[Definition], Findings]:
    findings = Findings("conf")
    return read_inputs(list(raw), "inputs", findings), findings


def one(**raw: Any) -> Definition:
    definitions, findings = read({"id": "i", "description": "d", **raw})
    assert findings.faults == []
    return definitions[0]


def fault(**raw: Any) -> tuple[str, str]:
    definitions, findings = read({"id": "i", "description": "d", **raw})
    assert definitions == []
    return findings.faults[0].field, findings.faults[0].code


@pytest.mark.parametrize(
    ("written", "tag"),
    [
        ({"type": "promptString"}, "promptString"),
        ({"type": "PromptString"}, "promptString"),
        ({"type": "PickString", "options": OPTIONS}, "pickString"),
        ({"type": "Command", "command": "x"}, "command"),
        ({"type": "Number"}, "number"),
        ({"type": "boolean"}, "bool"),
        ({"type": "Bool"}, "bool"),
        ({"type": "FilePath"}, "filePath"),
    ],
)
def test_every_spelling_of_a_type_is_read(written: dict[str, Any], tag: str) -> None:
    assert canonical(one(**written))["type"] == tag


@spec("T-PICK-7", "W-INP-1")
def test_t_pick_7_options_as_plain_strings_are_refused_with_a_pointer_to_the_new_form() -> None:
    _, findings = read({"id": "i", "description": "d", "type": "pickString", "options": ["a"]})
    assert findings.faults[0].field == "inputs[0].options"
    assert "{label, value}" in findings.faults[0].reason


@spec("T-PICK-5")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ([], "inputs[0].options"),
        ([{"label": "", "value": "v"}], "inputs[0].options[0].label"),
        ([{"label": "l", "value": ""}], "inputs[0].options[0].value"),
        ([{"label": "l"}], "inputs[0].options[0].value"),
        (None, "inputs[0].options"),
    ],
)
def test_t_pick_5_empty_options_labels_and_values_are_refused(options: Any, field: str) -> None:
    assert fault(type="pickString", options=options)[0] == field


@spec("T-PICK-4")
def test_t_pick_4_a_default_must_be_a_value_of_an_option_but_may_be_null() -> None:
    assert fault(type="pickString", options=OPTIONS, default="One") == ("inputs[0].default", "bad_default")
    assert default_of(one(type="pickString", options=OPTIONS, default=None)) is None


@spec("T-PICK-6", "R-INPUT-1")
def test_equal_labels_and_values_are_accepted() -> None:
    assert len(canonical(one(type="pickString", options=OPTIONS + OPTIONS))["options"]) == 4


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"type": "noSuchType"}, ("inputs[0].type", "bad_choice")),
        ({"type": "promptString", "id": " "}, ("inputs[0].id", "empty")),
        ({"type": "promptString", "description": 1}, ("inputs[0].description", "wrong_type")),
        ({"type": "promptString", "surprise": 1}, ("inputs[0].surprise", "unknown_key")),
        ({"type": "promptString", "password": "yes"}, ("inputs[0].password", "wrong_type")),
        ({"type": "command"}, ("inputs[0].command", "missing")),
        ({"type": "command", "command": "x", "args": {"k": 1}}, ("inputs[0].args.k", "wrong_type")),
        ({"type": "number", "min": 3, "max": 1}, ("inputs[0].min", "bad_range")),
        ({"type": "number", "default": 9, "max": 1}, ("inputs[0].default", "bad_default")),
        ({"type": "number", "default": 1.5}, ("inputs[0].default", "wrong_type")),
    ],
)
def test_a_fault_names_its_place(raw: dict[str, Any], expected: tuple[str, str]) -> None:
    assert fault(**raw) == expected


@spec("R-CFG-2")
def test_of_two_definitions_with_one_id_neither_counts_and_both_places_are_named() -> None:
    twin = {"id": "i", "description": "d", "type": "promptString"}
    definitions, findings = read(twin, twin, {**twin, "id": "other"})
    assert [definition.id for definition in definitions] == ["other"]
    assert (findings.faults[0].category, findings.faults[0].code) == ("conflict", "duplicate_input_id")
    assert "inputs[0] and inputs[1]" in findings.faults[0].reason


@spec("W-CFG-3", "R-INPUT-3")
def test_a_password_default_never_travels_and_its_warning_does_not_quote_it() -> None:
    definitions, findings = read(
        {"id": "i", "description": "d", "type": "promptString", "password": True, "default": "hunter2"}
    )
    assert kind_of(definitions[0]) == "secret"
    assert project(definitions[0]) == {"id": "i", "description": "d", "type": "promptString", "password": True}
    assert "hunter2" not in findings.warnings[0].reason


@spec("R-INPUT-2")
@pytest.mark.parametrize(
    ("raw", "default"),
    [
        ({"type": "number", "default": 3}, {"default": "3"}),
        ({"type": "bool", "default": False}, {"default": "false"}),
        ({"type": "filePath", "default": "/x"}, {"default": "/x"}),
        ({"type": "number"}, {}),
    ],
)
def test_local_extensions_travel_as_a_prompt_with_a_textual_default(raw: Any, default: dict[str, str]) -> None:
    assert project(one(**raw)) == {"id": "i", "description": "d", "type": "promptString", **default}


@spec("W-GEN-3")
def test_nulls_do_not_travel() -> None:
    wire = project(one(type="promptString", default=None, password=None))
    assert wire == {"id": "i", "description": "d", "type": "promptString"}


def test_an_empty_default_is_a_default() -> None:
    assert default_of(one(type="promptString", default="")) == ""
    assert project(one(type="promptString", default=""))["default"] == ""


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "promptString", "default": "x", "password": False},
        {"type": "pickString", "options": OPTIONS, "default": "2"},
        {"type": "command", "command": "c", "args": {"k": "v"}},
        {"type": "number", "default": 3, "min": 1, "max": 5},
        {"type": "bool", "default": True, "true_label": "y", "false_label": "n"},
        {"type": "filePath", "default": "/x", "must_exist": True, "filter": ".txt"},
    ],
)
def test_the_canonical_form_reads_back_as_the_same_definition(raw: dict[str, Any]) -> None:
    definition = one(**raw)
    assert one(**canonical(definition)) == definition
