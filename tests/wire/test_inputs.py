"""Input definitions and the environment variables that supply them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.wire import CommandInput, InvalidPayload, PickStringInput, PromptStringInput, decode_payload, env_name
from smcp_runtime.wire.base import convert
from smcp_runtime.wire.inputs import InputDefinition, env_segment, uses_old_options


@pytest.mark.spec("W-INP-3", "W-INP-4", "R-INPUT-17", "T-ENV-1")
@pytest.mark.parametrize(
    ("parts", "variable"),
    [
        (("api_key",), "A2C_SMCP_api_key"),
        (("api_key", "feishu-mcp"), "A2C_SMCP_api_key_feishu_mcp"),
        (("token", "MyServer", "auth"), "A2C_SMCP_token_MyServer_auth"),
        (("frontend@team/figma_token",), "A2C_SMCP_frontend_team_figma_token"),
        (("_lead_",), "A2C_SMCP__lead_"),
        (("a__b",), "A2C_SMCP_a__b"),
        (("Figma-Token",), "A2C_SMCP_Figma_Token"),
        (("-x-",), "A2C_SMCP__x_"),
        (("令牌",), "A2C_SMCP___"),
        (("k😀",), "A2C_SMCP_k_"),
        (("token", None, "auth"), "A2C_SMCP_token_auth"),
    ],
)
def test_t_env_1_environment_names_are_equal_byte_for_byte(parts: tuple[str | None, ...], variable: str) -> None:
    assert env_name(*parts) == variable  # type: ignore[arg-type]


@pytest.mark.spec("W-INP-3", "R-INPUT-17")
@given(text=st.text(max_size=20))
def test_a_segment_has_one_character_for_each_code_point(text: str) -> None:
    segment = env_segment(text)
    assert len(segment) == len(text)
    assert segment.isascii()
    assert env_segment(segment) == segment


@pytest.mark.spec("W-INP-1")
@pytest.mark.parametrize(
    ("definition", "old"),
    [
        ({"options": ["a", "b"]}, True),
        ({"options": [{"label": "A", "value": "a"}, "b"]}, True),
        ({"options": [{"label": "A", "value": "a"}]}, False),
        ({"options": []}, False),
        ({"options": "ab"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_the_former_form_of_options_is_recognised(definition: Any, old: bool) -> None:
    assert uses_old_options(definition) is old


@pytest.mark.spec("W-INP-1")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        (["a", "b"], "options[0]"),
        ([{"label": "", "value": "a"}], "options[0].label"),
        ([{"label": "A", "value": ""}], "options[0].value"),
        ([{"label": "A"}], "options[0].value"),
        ([], "options"),
    ],
)
def test_options_are_never_converted(options: list[Any], field: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        decode_payload(PickStringInput, {"type": "pickString", "id": "p", "description": "d", "options": options})
    assert caught.value.field == field


@pytest.mark.spec("W-INP-2")
def test_label_and_value_stay_apart_and_duplicates_are_allowed() -> None:
    option = {"label": "One", "value": "1"}
    read = decode_payload(
        PickStringInput, {"type": "pickString", "id": "p", "description": "d", "options": [option, option]}
    )
    assert [(item.label, item.value) for item in read.options] == [("One", "1"), ("One", "1")]


@pytest.mark.parametrize(
    ("kind", "extra", "structure"),
    [
        ("promptString", {}, PromptStringInput),
        ("pickString", {"options": [{"label": "A", "value": "a"}]}, PickStringInput),
        ("command", {"command": "x"}, CommandInput),
    ],
)
def test_the_type_chooses_the_structure(kind: str, extra: dict[str, Any], structure: type) -> None:
    assert isinstance(convert(InputDefinition, {"type": kind, "id": "i", "description": "d", **extra}), structure)


def test_an_unknown_type_is_named_by_its_place_not_by_its_value() -> None:
    with pytest.raises(InvalidPayload) as caught:
        convert(InputDefinition, {"type": "s3cret", "id": "i", "description": "d"})
    assert caught.value.field == "type"
    assert caught.value.expected == "one of promptString, pickString, command"
