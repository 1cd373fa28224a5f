"""The set: layers, verdicts, and the plan from one set to the next."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.reconcile.config.declaration import Declaration
from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.inputs import read_inputs
from smcp_runtime.actors.reconcile.config.server_entry import ServerEntry, read_entry
from smcp_runtime.actors.reconcile.running.plan import Plan, plan
from smcp_runtime.actors.reconcile.server_set import (
    PRECEDENCE,
    Judgement,
    Layer,
    SetEntry,
    resolve_inputs,
    resolve_servers,
)

spec = pytest.mark.spec


def entry(name: str = "s", **raw: Any) -> ServerEntry:
    read = read_entry({"name": name, "command": "c", **raw}, "e", Findings())
    assert read is not None
    return read


def layer(origin: Any, *entries: ServerEntry, label: str | None = None) -> Layer:
    return Layer(origin, Declaration(label or origin, entries))


def only(*entries: ServerEntry) -> dict[str, SetEntry]:
    return resolve_servers([layer("embed", *entries)])


class TestLayers:
    @spec("R-SCOPE-1", "R-SCOPE-7", "T-SCOPE-1")
    def test_the_whole_entry_of_the_highest_layer_wins_and_removing_it_exposes_the_next(self) -> None:
        layers = [layer(origin, entry(command=origin)) for origin in PRECEDENCE]
        seen = []
        while layers:
            random.Random(len(layers)).shuffle(layers)
            member = resolve_servers(layers)["s"]
            seen.append((member.origin, member.entry.parameters["command"]))
            layers = [one for one in layers if one.origin != member.origin]
        assert seen == [(origin, origin) for origin in reversed(PRECEDENCE)]

    @spec("R-SCOPE-7")
    def test_entries_are_never_merged_field_by_field(self) -> None:
        layers = [layer("user", entry(env={"A": "1"}, forbidden_tools=["x"])), layer("flag", entry())]
        winner = resolve_servers(layers)["s"].entry
        assert (winner.parameters["env"], winner.forbidden_tools) == (None, ())

    @spec("R-SCOPE-3")
    def test_of_two_flag_files_the_later_wins(self) -> None:
        layers = [layer("flag", entry(command="one"), label="1"), layer("flag", entry(command="two"), label="2")]
        member = resolve_servers(layers)["s"]
        assert (member.entry.parameters["command"], member.shadowed) == ("two", ("1",))

    @spec("W-ID-21", "F-109")
    def test_a_shadowed_declaration_is_shown_by_the_winner(self) -> None:
        layers = [layer("user", entry()), layer("embed", entry()), layer("flag", entry())]
        assert resolve_servers(layers)["s"].shadowed == ("embed", "user")

    @spec("DEC-5")
    def test_the_set_is_ordered_by_bundle_id(self) -> None:
        assert list(only(entry("b"), entry("B"), entry("a"))) == ["B", "a", "b"]

    @spec("R-GATE-7")
    def test_a_verdict_keeps_an_entry_in_the_set_but_out_of_sight(self) -> None:
        judged = resolve_servers([layer("project", entry())], lambda _: Judgement("PENDING", 7, "not approved"))["s"]
        assert (judged.verdict, judged.may_run, judged.is_projected) == ("PENDING", False, False)

    def test_inputs_merge_by_id_with_the_highest_layer_winning(self) -> None:
        def declared(text: str) -> Declaration:
            raw = [{"id": "i", "description": text, "type": "promptString"}]
            return Declaration(text, (), tuple(read_inputs(raw, "inputs", Findings())))

        merged = resolve_inputs([Layer("flag", declared("flag")), Layer("user", declared("user"))])
        assert merged["i"].description == "flag"


class TestPlan:
    @spec("R-LIFE-18", "T-SYNC-6")
    def test_equal_sets_need_nothing(self) -> None:
        assert plan(only(entry(env={"A": "1"})), only(entry(env={"A": "1"}))).is_empty

    @spec("R-LIFE-15", "T-SYNC-1", "T-SYNC-2")
    def test_new_servers_start_and_removed_ones_stop(self) -> None:
        assert plan(only(entry("a"), entry("b")), only(entry("b"), entry("c"))) == Plan(start=("c",), stop=("a",))

    @spec("R-LIFE-15", "T-SYNC-2")
    def test_disabling_stops_and_enabling_starts(self) -> None:
        off = only(entry(disabled=True))
        assert plan(only(entry()), off) == Plan(stop=("s",))
        assert plan(off, only(entry())) == Plan(start=("s",))

    @spec("R-LIFE-15")
    @pytest.mark.parametrize(
        "changed",
        [
            {"command": "d"},
            {"args": ["x"]},
            {"env": {"A": "1"}},
            {"envFile": ".env"},
            {"health_check": {"interval_secs": 1}},
            {"reconnect": {"max_retries": 1}},
        ],
    )
    def test_what_a_process_is_made_from_restarts_it(self, changed: dict[str, Any]) -> None:
        assert plan(only(entry()), only(entry(**changed))) == Plan(restart=("s",))

    @spec("R-LIFE-15", "T-SYNC-3", "R-MCP-9")
    @pytest.mark.parametrize(
        "changed",
        [
            {"forbidden_tools": ["x"]},
            {"tool_meta": {"x": {"tags": []}}},
            {"default_tool_meta": {"auto_apply": True}},
            {"vrl": ".a = 1"},
            {"bundle_id": "s"},
        ],
    )
    def test_metadata_alone_does_not_restart(self, changed: dict[str, Any]) -> None:
        assert plan(only(entry()), only(entry(**changed))) == Plan(remeta=("s",))

    @spec("R-MCP-9", "W-ID-22")
    def test_a_new_name_with_the_same_identity_is_metadata(self) -> None:
        assert plan(only(entry("old", bundle_id="s")), only(entry("new", bundle_id="s"))) == Plan(remeta=("s",))

    def test_a_change_of_a_disabled_server_starts_nothing(self) -> None:
        before, after = only(entry(disabled=True)), only(entry(disabled=True, command="d"))
        assert plan(before, after) == Plan(remeta=("s",))

    names = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["c", "d"]), max_size=4)

    @spec("R-LIFE-15")
    @given(before=names, after=names)
    def test_every_server_is_in_at_most_one_list_and_carrying_the_plan_out_leaves_nothing(
        self, before: dict[str, str], after: dict[str, str]
    ) -> None:
        old, new = (only(*(entry(name, command=cmd) for name, cmd in table.items())) for table in (before, after))
        made = plan(old, new)
        touched = [*made.start, *made.stop, *made.restart, *made.remeta]
        assert len(touched) == len(set(touched))
        assert set(before) - set(made.stop) | set(made.start) == set(after)
        assert set(made.restart) == {name for name in before.keys() & after.keys() if before[name] != after[name]}
