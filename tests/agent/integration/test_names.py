"""Names for models: a bijection, within the provider's limit, that never changes under a conversation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.agent.integration import ANTHROPIC_NAME_MAX, OPENAI_NAME_MAX, ToolKey, ToolNames

keys = st.builds(ToolKey, st.sampled_from(["pc1", "pc2", ""]), st.text(min_size=1, max_size=200))


@pytest.mark.spec("W-EXP-7", "W-AGT-7")
@given(batches=st.lists(st.lists(keys, max_size=8), max_size=4), limit=st.sampled_from([16, 64, 128]))
def test_every_tool_has_its_own_fitting_name_and_the_way_back_is_exact(
    batches: list[list[ToolKey]], limit: int
) -> None:
    names = ToolNames(limit)
    given_out: dict[ToolKey, str] = {}
    for batch in batches:
        assigned = names.assign(batch)
        assert set(assigned) == set(batch)
        for key, name in assigned.items():
            assert re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{limit}}}", name)
            assert given_out.setdefault(key, name) == name
    assert len(set(given_out.values())) == len(given_out)
    assert all(names.tool(name) == key for key, name in given_out.items())


@pytest.mark.spec("W-EXP-7")
def test_a_name_that_fits_stays_as_it_is() -> None:
    key = ToolKey("pc", "files__read-file")
    assert ToolNames().assign([key]) == {key: "files__read-file"}


@pytest.mark.spec("W-EXP-7")
@pytest.mark.parametrize("limit", [OPENAI_NAME_MAX, ANTHROPIC_NAME_MAX])
def test_long_names_that_begin_alike_stay_apart(limit: int) -> None:
    first, second = ToolKey("pc", "b__" + "x" * 200 + "1"), ToolKey("pc", "b__" + "x" * 200 + "2")
    names = ToolNames(limit).assign([first, second])
    assert names[first] != names[second]
    assert all(len(name) == limit and name.startswith("b__xxx") for name in names.values())


@pytest.mark.spec("W-EXP-7")
def test_foreign_characters_never_make_two_tools_one() -> None:
    first, second = ToolKey("pc", "b__a.b"), ToolKey("pc", "b__a b")
    names = ToolNames().assign([first, second])
    assert len(set(names.values())) == 2
    assert all(name.startswith("b__a_b_") for name in names.values())


def test_one_tool_at_two_computers_has_two_names_in_either_order() -> None:
    at_1, at_2 = ToolKey("pc1", "b__t"), ToolKey("pc2", "b__t")
    names = ToolNames().assign([at_1, at_2])
    assert names == ToolNames().assign([at_2, at_1])
    assert names[at_1] != names[at_2]


def test_a_name_given_out_stays_when_a_second_computer_brings_the_same_tool() -> None:
    names = ToolNames()
    at_1, at_2 = ToolKey("pc1", "b__t"), ToolKey("pc2", "b__t")
    assert names.assign([at_1]) == {at_1: "b__t"}
    later = names.assign([at_1, at_2])
    assert later[at_1] == "b__t"
    assert later[at_2] != "b__t"


def test_a_tool_really_called_like_a_digested_name_keeps_its_own() -> None:
    long = ToolKey("pc", "b__" + "x" * 100)
    digested = ToolNames().assign([long])[long]
    twin = ToolKey("pc", digested)
    for keys in ([long, twin], [twin, long]):
        names = ToolNames().assign(keys)
        assert names[twin] == digested
        assert names[long] != digested


def test_the_same_tools_have_the_same_names_in_every_run() -> None:
    assert ToolNames().assign([ToolKey("pc", "b__" + "x" * 100)]) == {
        ToolKey("pc", "b__" + "x" * 100): "b__" + "x" * 50 + "_" + "a06e5c06a6"
    }


def test_an_unknown_name_leads_nowhere_and_too_short_a_limit_is_refused() -> None:
    assert ToolNames().tool("nothing") is None
    with pytest.raises(ValueError, match="16"):
        ToolNames(15)
