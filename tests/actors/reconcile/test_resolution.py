"""The value chain of inputs, and what becomes of candidates that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.inputs import Definition, read_inputs
from smcp_runtime.actors.reconcile.rendering.candidates import settle
from smcp_runtime.actors.reconcile.rendering.resolution import Chain, ResolveFor, ValueRequest, resolve
from smcp_runtime.wire.errors import ConfigValidationError, InvalidSelectionError, MissingInputError

spec = pytest.mark.spec
PICK = {"type": "pickString", "options": [{"label": "One", "value": "1"}, {"label": "Two", "value": "2"}]}


def definition(**raw: Any) -> Definition:
    findings = Findings()
    (read,) = read_inputs([{"id": "i", "description": "d", **raw}], "inputs", findings)
    return read


class Source:
    """Gives one answer, or raises it, and counts how often it was asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[ValueRequest] = []

    async def find(self, request: ValueRequest) -> object | None:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def value(of: Definition, environ: dict[str, str] | None = None, **chain: Any) -> object:
    found = await resolve(["i"], {"i": of}, environ or {}, Chain(**chain), ResolveFor("b"))
    return found["i"]


@pytest.mark.anyio
class TestChain:
    @spec("R-INPUT-17")
    async def test_the_variable_with_the_server_beats_the_one_without(self) -> None:
        prompt = definition(type="promptString", default="d")
        environ = {"A2C_SMCP_i": "wide", "A2C_SMCP_i_b": "narrow"}
        assert await value(prompt, environ) == "narrow"
        assert await value(prompt, {"A2C_SMCP_i": "wide"}) == "wide"
        assert await value(prompt, {"A2C_INPUT_i": "old"}) == "d"

    async def test_sources_stand_before_and_after_the_environment_and_the_default_comes_last(self) -> None:
        prompt = definition(type="promptString", default="default")
        environ = {"A2C_SMCP_i": "environment"}
        assert await value(prompt, environ, before=[Source("hook")], after=[Source("store")]) == "hook"
        assert await value(prompt, environ, after=[Source("store")]) == "environment"
        assert await value(prompt, after=[Source(None), Source("store")]) == "store"
        assert await value(prompt, after=[Source(None)]) == "default"

    async def test_an_empty_default_is_a_value(self) -> None:
        assert await value(definition(type="promptString", default="")) == ""

    @spec("T-PICK-3", "R-INPUT-14")
    async def test_t_pick_3_a_pick_without_any_value_takes_its_default_and_then_its_first_option(self) -> None:
        assert await value(definition(**PICK, default="2")) == "2"
        assert await value(definition(**PICK)) == "1"

    @spec("T-PICK-1", "R-INPUT-1")
    async def test_t_pick_1_the_value_is_injected_and_not_the_label(self) -> None:
        assert await value(definition(**PICK), {"A2C_SMCP_i": "2"}) == "2"

    @spec("T-PICK-2", "R-INPUT-13", "W-INP-2", "R-INPUT-24")
    async def test_a_value_that_matches_no_option_is_an_error_and_never_replaced(self) -> None:
        with pytest.raises(InvalidSelectionError) as caught:
            await value(definition(**PICK, default="2"), {"A2C_SMCP_i": "Three-secret"})
        assert (caught.value.input_id, caught.value.bundle_id) == ("i", "b")
        assert "Three-secret" not in str(caught.value)

    @spec("R-INPUT-24", "T-INP-8")
    async def test_a_missing_input_names_id_kind_and_variables(self) -> None:
        with pytest.raises(MissingInputError) as caught:
            await value(definition(type="promptString", password=True))
        assert caught.value.input_id == "i"
        for word in ("'i'", "secret", "A2C_SMCP_i_b", "A2C_SMCP_i"):
            assert word in caught.value.message

    @spec("R-INPUT-11", "T-INP-8")
    async def test_a_reference_to_an_undefined_id_is_missing(self) -> None:
        with pytest.raises(MissingInputError, match="'ghost' is not defined"):
            await resolve(["ghost"], {}, {}, Chain(), ResolveFor("b"))

    @spec("R-INPUT-12")
    async def test_a_resolver_that_fails_is_not_provided_and_its_text_stays_inside(self) -> None:
        with pytest.raises(MissingInputError) as caught:
            await value(definition(type="promptString"), before=[Source(RuntimeError("vault sk-1"))])
        assert caught.value.details["reason"] == "resolver_failed"
        assert "sk-1" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"

    @spec("R-INPUT-7")
    async def test_all_problems_are_reported_together(self) -> None:
        with pytest.raises(MissingInputError) as caught:
            await resolve(["a", "i"], {"i": definition(**PICK)}, {"A2C_SMCP_i": "x"}, Chain(), ResolveFor("b"))
        assert "'a'" in caught.value.message
        assert len(caught.value.causes) == 1

    @spec("R-INPUT-12", "R-MCP-23")
    async def test_a_source_learns_for_whom_and_whether_a_person_may_be_asked(self) -> None:
        source = Source("x")
        await value(definition(type="promptString"), before=[source])
        assert (source.asked[0].bundle_id, source.asked[0].is_automatic) == ("b", True)


@spec("R-INPUT-16")
@pytest.mark.parametrize(
    ("raw", "candidate", "expected"),
    [
        ({"type": "number"}, "+7", 7),
        ({"type": "number"}, -3, -3),
        ({"type": "number", "min": 1, "max": 3}, "3", 3),
        ({"type": "bool"}, "YES", True),
        ({"type": "bool"}, "是", True),
        ({"type": "bool"}, "否", False),
        ({"type": "bool"}, False, False),
        ({"type": "filePath", "filter": ".txt"}, "/a.txt", "/a.txt"),
        ({"type": "promptString"}, " as is ", " as is "),
    ],
)
def test_a_textual_candidate_is_converted_to_its_type(raw: dict[str, Any], candidate: object, expected: object) -> None:
    assert settle(definition(**raw), candidate) == expected


@spec("R-INPUT-16", "R-INPUT-24")
@pytest.mark.parametrize(
    ("raw", "candidate"),
    [
        ({"type": "number"}, "1.5"),
        ({"type": "number"}, "٣"),
        ({"type": "number"}, True),
        ({"type": "number", "max": 3}, "4"),
        ({"type": "bool"}, "maybe"),
        ({"type": "filePath", "filter": ".txt"}, "/a.pdf"),
        ({"type": "filePath", "must_exist": True}, "/nowhere/at/all"),
        ({"type": "promptString"}, {"a": 1}),
    ],
)
def test_a_candidate_that_does_not_fit_is_refused_without_being_quoted(raw: dict[str, Any], candidate: Any) -> None:
    with pytest.raises(ConfigValidationError) as caught:
        settle(definition(**raw), candidate)
    assert caught.value.field == "inputs.i"
    assert str(candidate) not in caught.value.message
