"""Exposed names, where they lead, and the bytes of the list."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.tools.exposure import Catalogue, Lost, Refused, Route, build
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.messages.tools import ServerTools, ToolPolicy

spec = pytest.mark.spec
BUDGET = 900_000


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def server(bundle_id: str, *tools: dict[str, Any], connected: bool = True, **policy: Any) -> ServerTools:
    listing = Attachment(json.dumps(tools).encode())
    return ServerTools(
        ToolPolicy(bundle_id, policy.pop("name", f"{bundle_id} (display)"), **policy), listing, connected
    )


def catalogue(*servers: ServerTools, previous: Catalogue | None = None) -> Catalogue:
    return build(servers, previous or Catalogue(), BUDGET)


def listed(of: Catalogue) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(of.tools)
    return found


def names(of: Catalogue) -> list[str]:
    return [entry["name"] for entry in listed(of)]


@spec("W-EXP-1", "R-MCP-15")
def test_every_name_carries_its_server_even_without_a_conflict() -> None:
    assert names(catalogue(server("b", tool("echo")))) == ["b__echo"]


@spec("W-EXP-2", "R-MCP-16")
def test_every_listed_name_is_routed_and_every_route_is_listed() -> None:
    built = catalogue(server("b", tool("x"), tool("y")), server("a", tool("x")))
    assert set(names(built)) == set(built.routes)


@spec("W-EXP-2")
def test_a_route_names_server_original_and_alias() -> None:
    built = catalogue(server("b", tool("echo"), name="Display", tool_meta={"echo": {"alias": "say"}}))
    route = built.find("b__say")
    assert isinstance(route, Route)
    assert (route.bundle_id, route.server_name, route.original, route.alias) == ("b", "Display", "echo", "say")
    assert built.find("b__echo") is None


@spec("W-EXP-3", "R-MCP-16")
def test_a_separator_inside_a_tool_name_does_not_mislead_the_lookup() -> None:
    built = catalogue(server("b", tool("foo__bar")), server("b__foo".replace("__", "_"), tool("bar")))
    route = built.find("b__foo__bar")
    assert isinstance(route, Route)
    assert (route.bundle_id, route.original) == ("b", "foo__bar")


@spec("T-PROJ-3", "F-46")
def test_one_tool_name_on_two_servers_gives_two_names_that_lead_to_each() -> None:
    built = catalogue(server("one", tool("echo")), server("two", tool("echo")))
    assert [built.routes[name].bundle_id for name in ("one__echo", "two__echo")] == ["one", "two"]


@spec("W-CALL-6", "R-MCP-18", "T-PROJ-2")
@pytest.mark.parametrize("entry", ["rm", "delete", "b__delete"])
def test_forbidden_matches_original_alias_and_exposed_name(entry: str) -> None:
    built = catalogue(server("b", tool("rm"), forbidden=(entry,), tool_meta={"rm": {"alias": "delete"}}))
    assert names(built) == []
    assert built.find("b__delete") == Refused("b")


@spec("W-EXP-4", "W-CALL-6")
def test_a_forbidden_name_that_was_never_listed_is_unknown() -> None:
    assert catalogue(server("b", tool("x"), forbidden=("ghost",))).find("b__ghost") is None


@spec("W-EXP-4", "W-CALL-6", "R-MCP-17")
def test_tools_of_a_disabled_server_are_refused_by_the_names_they_once_had() -> None:
    before = catalogue(server("b", tool("x")))
    after = catalogue(server("b", connected=False, disabled=True), previous=before)
    assert (names(after), after.find("b__x"), after.find("b__never")) == ([], Refused("b"), None)


@spec("W-EXP-4")
def test_a_disabled_server_that_never_ran_has_no_known_names() -> None:
    assert catalogue(server("b", connected=False, disabled=True)).find("b__x") is None


@spec("DEC-25")
def test_a_tool_of_a_lost_server_is_unlisted_but_known() -> None:
    built = catalogue(server("b", tool("x"), connected=False))
    assert (names(built), built.find("b__x")) == ([], Lost("b"))


@spec("DEC-25", "W-CALL-6")
def test_a_forbidden_tool_of_a_lost_server_is_refused_rather_than_lost() -> None:
    assert catalogue(server("b", tool("x"), connected=False, forbidden=("x",))).find("b__x") == Refused("b")


@spec("DEC-25")
def test_a_tool_that_a_connected_server_no_longer_lists_is_unknown() -> None:
    before = catalogue(server("b", tool("x"), tool("y")))
    assert catalogue(server("b", tool("y")), previous=before).find("b__x") is None


@spec("DEC-25", "T-SYNC-2")
def test_a_removed_server_leaves_nothing_behind() -> None:
    before = catalogue(server("b", tool("x"), forbidden=("x",)))
    assert catalogue(previous=before).find("b__x") is None


@spec("W-EXP-5", "R-MCP-15")
def test_of_two_tools_with_one_alias_the_first_in_the_listing_wins_and_the_other_is_reported() -> None:
    meta = {"x": {"alias": "same"}, "y": {"alias": "same"}}
    built = catalogue(server("b", tool("y"), tool("x"), tool_meta=meta))
    assert built.routes["b__same"].original == "y"
    assert any("'x' hidden" in note for note in built.notes)


@spec("W-EXP-5")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_across_servers_the_smaller_bundle_id_wins_whatever_came_first(order: tuple[int, int]) -> None:
    both = [server("a_", tool("x")), server("a", tool("_x"))]
    built = catalogue(*(both[position] for position in order))
    assert built.routes["a___x"].bundle_id == "a"
    assert len(built.notes) == 1


@spec("W-EXP-5", "DEC-25")
def test_a_lost_server_keeps_its_name_from_passing_to_another() -> None:
    built = catalogue(server("a_", tool("x")), server("a", tool("_x"), connected=False))
    assert built.find("a___x") == Lost("a")


@spec("DEC-5", "W-EXP-6")
def test_tools_are_ordered_by_exposed_name_in_code_point_order() -> None:
    built = catalogue(server("b", tool("é"), tool("z"), tool("A")), server("B", tool("q")))
    assert names(built) == ["B__q", "b__A", "b__z", "b__é"]


@spec("DEC-6", "W-META-12")
@pytest.mark.parametrize("bad", [{"name": "x"}, {"name": 1, "inputSchema": {}}, tool("x") | {"inputSchema": []}, 7])
def test_a_malformed_item_costs_itself_and_leaves_a_note(bad: Any) -> None:
    built = catalogue(server("b", tool("good"), bad))
    assert names(built) == ["b__good"]
    assert len(built.notes) == 1


@spec("DEC-6")
def test_a_listing_that_is_no_array_costs_that_server_alone() -> None:
    broken = ServerTools(ToolPolicy("a", "a"), Attachment(b"{"), True)
    built = catalogue(broken, server("b", tool("x")))
    assert names(built) == ["b__x"]


@spec("R-MCP-14", "W-META-12")
def test_malformed_declarations_give_one_note_per_server_and_keep_the_tools() -> None:
    bad = {"_meta": {"a2c_tool_meta": None}}
    built = catalogue(server("b", tool("x", **bad), tool("y", **bad)))
    assert len(names(built)) == 2
    assert len(built.notes) == 1


def test_fields_of_a_listed_tool_come_from_the_mcp_tool() -> None:
    built = catalogue(server("b", tool("x", outputSchema={"type": "object"}, description="d")))
    assert listed(built) == [
        {
            "name": "b__x",
            "bundle_id": "b",
            "description": "d",
            "params_schema": {"type": "object"},
            "return_schema": {"type": "object"},
            "meta": {},
        }
    ]


def test_a_tool_without_description_and_output_schema_has_empty_text_and_null() -> None:
    (entry,) = listed(catalogue(server("b", tool("x"))))
    assert (entry["description"], entry["return_schema"]) == ("", None)


@spec("W-META-17", "W-CALL-7")
def test_only_configuration_lets_a_tool_run_without_confirmation() -> None:
    claims = {"_meta": {"a2c_tool_meta": {"auto_apply": True, "tags": []}}}
    built = catalogue(
        server("b", tool("claims", **claims), tool("granted"), tool_meta={"granted": {"auto_apply": True}})
    )
    assert {name: route.auto_apply for name, route in built.routes.items()} == {"b__claims": False, "b__granted": True}


@spec("DEC-10")
@pytest.mark.parametrize(
    ("annotations", "repeatable"),
    [({"readOnlyHint": True}, True), ({"idempotentHint": True}, True), ({"readOnlyHint": False}, False), (None, False)],
)
def test_a_tool_is_repeatable_only_by_its_annotation(annotations: dict[str, bool] | None, repeatable: bool) -> None:
    built = catalogue(server("b", tool("x", annotations=annotations)))
    assert built.routes["b__x"].repeatable is repeatable


@spec("R-LIFE-15", "T-SYNC-3")
def test_new_metadata_changes_the_list_without_a_new_listing() -> None:
    before = catalogue(server("b", tool("x")))
    after = catalogue(server("b", tool("x"), tool_meta={"x": {"tags": ["t"]}}), previous=before)
    assert before.tools != after.tools


schemas = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=3)
tools = st.lists(st.builds(tool, st.text(min_size=1, max_size=4), description=st.text(max_size=5)), max_size=5)
servers = st.dictionaries(st.from_regex(r"[a-z]{1,3}_?", fullmatch=True), tools, max_size=4)


@spec("DEC-5", "W-EXP-2", "F-44")
@given(table=servers, seed=st.integers())
def test_the_mapping_is_total_and_the_bytes_do_not_depend_on_start_order(table: dict[str, Any], seed: int) -> None:
    slices = [server(bundle_id, *items) for bundle_id, items in table.items()]
    straight = catalogue(*slices)
    random.Random(seed).shuffle(slices)
    one_by_one = Catalogue()
    for count in range(len(slices) + 1):
        one_by_one = catalogue(*slices[:count], previous=one_by_one)
    assert one_by_one.tools == straight.tools
    assert set(names(straight)) == set(straight.routes)
    assert all(entry["bundle_id"] == straight.routes[entry["name"]].bundle_id for entry in listed(straight))
