"""Fitting the tool list into one acknowledgement: who pays, and how."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.tools.shrink import ListedEntry, fit_tools

spec = pytest.mark.spec


def entry(name: str, bundle_id: str, params: int = 0, returns: int | None = None) -> ListedEntry:
    def schema(size: int) -> msgspec.Raw:
        return msgspec.Raw(json.dumps({"d": "x" * size}).encode())

    return ListedEntry(name, bundle_id, "", schema(params), None if returns is None else schema(returns), {})


def fit(budget: int, *entries: ListedEntry) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    tools, notes = fit_tools(entries, budget)
    assert len(tools) <= budget
    return json.loads(tools), notes


def test_a_list_that_fits_is_left_alone() -> None:
    tools, notes = fit(10_000, entry("a", "s", 10, 10), entry("b", "s"))
    assert [tool["name"] for tool in tools] == ["a", "b"]
    assert notes == ()


@spec("DEC-33", "DEC-18")
def test_return_schemas_go_first_and_the_largest_before_the_others() -> None:
    tools, notes = fit(1_500, entry("a", "s", 10, 300), entry("b", "s", 10, 2_000), entry("c", "s", 10, 100))
    assert {tool["name"]: tool["return_schema"] is None for tool in tools} == {"a": False, "b": True, "c": False}
    assert notes[0].startswith("s: 1 return schema(s) and 0 tool(s)")


@spec("DEC-33")
def test_then_whole_tools_go_the_largest_first() -> None:
    tools, _ = fit(1_500, entry("a", "s", 300), entry("b", "s", 2_000), entry("c", "s", 100))
    assert [tool["name"] for tool in tools] == ["a", "c"]


@spec("DEC-33")
def test_the_server_that_causes_the_excess_pays_before_anyone_else() -> None:
    tools, notes = fit(3_000, entry("a", "small", 100, 900), entry("b", "big", 1_500), entry("c", "big", 1_600))
    assert [tool["name"] for tool in tools] == ["a", "b"]
    assert tools[0]["return_schema"] is not None
    assert [note.split(":")[0] for note in notes] == ["big"]


sizes = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 400), st.none() | st.integers(0, 400)), min_size=1, max_size=12
)


@spec("DEC-18", "DEC-33")
@given(table=sizes, budget=st.integers(2, 3_000))
def test_the_list_always_fits_and_keeps_its_order(table: list[tuple[str, int, int | None]], budget: int) -> None:
    entries = [entry(f"{number:02}", owner, params, returns) for number, (owner, params, returns) in enumerate(table)]
    tools, _ = fit(budget, *entries)
    kept = [tool["name"] for tool in tools]
    assert kept == sorted(kept)
