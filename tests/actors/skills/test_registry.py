"""The registry, the list made of it, and what Agents are told of its changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.skills import registry as registry_module
from smcp_runtime.actors.skills.listing import encode_list
from smcp_runtime.actors.skills.projection import LastList, Projection
from smcp_runtime.actors.skills.registry import Registry
from smcp_runtime.wire.skills import A2CSkillRef

spec = pytest.mark.spec


def ref(name: str, path: str = "", **more: Any) -> A2CSkillRef:
    fields = {"source": "user", "description": "d", **more}
    return A2CSkillRef(name=name, path=path or f"/skills/{name}", **fields)


def put(registry: Registry, name: str, rank: int = 0, *, owner: str = "user", **more: Any) -> str | None:
    return registry.put(ref(name, **more), owner, (0, rank, name), "user")


def names(registry: Registry) -> list[str]:
    return [found.name for found in registry.active()]


class TestRegistration:
    @spec("C-SKILL-55")
    @pytest.mark.parametrize(
        "bad",
        [
            ref("Bad"),
            ref("a:b"),
            ref("../x"),
            ref("a", path="relative"),
            ref("a", description=""),
            ref("a", source=""),
            ref("a", description="\ud800"),
            ref("a", skill_metadata={"n": object()}),
        ],
    )
    def test_what_is_not_fit_to_be_registered_is_refused(self, bad: A2CSkillRef) -> None:
        registry = Registry()
        assert registry.put(bad, "user", (0,), "user")
        assert registry.entries() == []

    @spec("C-SKILL-55")
    def test_a_source_can_only_register_names_of_its_own_kind(self) -> None:
        registry = Registry()
        assert registry.put(ref("mcp:other:x"), "mcp:s", (2,), "user")
        assert registry.put(ref("p:x"), "mcp:s", (2,), "mcp")
        assert registry.put(ref("mcp:s:x"), "mcp:s", (2,), "mcp") is None

    @spec("C-SKILL-55", "C-SKILL-3")
    def test_a_name_belongs_to_the_first_package_as_long_as_that_is_active(self) -> None:
        registry = Registry()
        assert put(registry, "a", path="/one") is None
        assert put(registry, "a", path="/two", owner="other")
        assert put(registry, "a", path="/one", description="new") is None
        assert [found.description for found in registry.active()] == ["new"]
        assert put(registry, "a", path="/moved") is None
        assert [found.path for found in registry.active()] == ["/moved"]
        registry.orphan("user")
        assert put(registry, "a", path="/two", owner="other") is None
        assert [found.path for found in registry.active()] == ["/two"]

    @spec("C-SKILL-56", "C-SKILL-50")
    def test_what_a_source_no_longer_declares_is_orphaned_and_comes_back_to_life(self) -> None:
        registry = Registry()
        put(registry, "a", 1)
        put(registry, "b", 2)
        put(registry, "c", 3, owner="other")
        registry.settle("user", {"b": (0, 2, "b")})
        assert names(registry) == ["b", "c"]
        entry = registry.get("a")
        assert entry is not None
        assert entry.orphan
        put(registry, "a", 1)
        assert names(registry) == ["a", "b", "c"]

    @spec("C-SKILL-56")
    def test_unregistering_a_source_leaves_nothing_of_it(self) -> None:
        registry = Registry()
        put(registry, "a")
        put(registry, "b", owner="other")
        registry.unregister("user")
        assert registry.get("a") is None
        assert names(registry) == ["b"]

    @spec("C-SKILL-57")
    def test_the_order_is_that_of_the_sources_whoever_came_first(self) -> None:
        registry = Registry()
        registry.put(ref("mcp:b:x"), "mcp:b", (2, "b", 0), "mcp")
        registry.put(ref("mcp:a:z"), "mcp:a", (2, "a", 0), "mcp")
        registry.put(ref("mcp:a:y"), "mcp:a", (2, "a", 1), "mcp")
        registry.put(ref("p:x"), "plugin:p", (1, 0, 1, "x"), "marketplace")
        put(registry, "b", 1)
        put(registry, "a", 1)
        assert names(registry) == ["a", "b", "p:x", "mcp:a:z", "mcp:a:y", "mcp:b:x"]

    @spec("C-SKILL-55")
    def test_the_position_follows_the_source_without_a_new_registration(self) -> None:
        registry = Registry()
        put(registry, "a", 1)
        put(registry, "b", 2)
        revision = registry.revision
        registry.settle("user", {"a": (0, 2, "a"), "b": (0, 1, "b")})
        assert names(registry) == ["b", "a"]
        assert registry.revision > revision

    @spec("R-PROJ-5")
    def test_the_revision_counts_only_what_is_visible(self) -> None:
        registry = Registry()
        put(registry, "a")
        revision = registry.revision
        put(registry, "a")
        registry.settle("user", {"a": (0, 0, "a")})
        registry.settle("other", {})
        assert registry.revision == revision
        registry.orphan("user")
        after = registry.revision
        assert after > revision
        registry.orphan("user")
        registry.unregister("user")
        assert registry.revision == after

    @spec("C-SKILL-56")
    def test_a_source_that_renames_its_skills_for_ever_does_not_fill_the_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry_module, "ORPHANS_KEPT", 3)
        registry = Registry()
        for n in range(20):
            put(registry, f"s{n}")
            registry.settle("user", {f"s{n}": (0, 0, "")})
        assert [entry.ref.name for entry in registry.entries() if entry.orphan] == ["s16", "s17", "s18"]


class TestList:
    @spec("C-SKILL-7", "C-SKILL-57")
    def test_a_list_within_the_budget_holds_everything_and_absent_fields_are_missing(self) -> None:
        listing = encode_list([ref("a", tags=(), skill_metadata={"k": 1}), ref("b")], 10_000)
        assert listing.note is None
        assert json.loads(listing.skills) == [
            {
                "name": "a",
                "source": "user",
                "path": "/skills/a",
                "description": "d",
                "tags": [],
                "skill_metadata": {"k": 1},
            },
            {"name": "b", "source": "user", "path": "/skills/b", "description": "d"},
        ]
        assert encode_list([], 10).skills == b"[]"

    @spec("C-SKILL-58", "C-GEN-7")
    def test_overflow_costs_metadata_first_then_long_descriptions_then_the_last_entries(self) -> None:
        refs = [ref(f"s{n}", description="é" * 2_000, skill_metadata={"k": "v" * 3_000}) for n in range(10)]
        whole = encode_list(refs, 100_000)
        assert whole.note is None

        lean = encode_list(refs, 50_000)
        found = json.loads(lean.skills)
        assert "skill_metadata" in (lean.note or "")
        assert [("skill_metadata" in skill, len(skill["description"])) for skill in found] == [(False, 2_000)] * 10

        short = encode_list(refs, 25_000)
        assert [len(skill["description"]) for skill in json.loads(short.skills)] == [1_024] * 10
        assert short.note

        few = encode_list(refs, 10_000)
        kept = json.loads(few.skills)
        assert [skill["name"] for skill in kept] == ["s0", "s1", "s2", "s3"]
        assert "last 6" in (few.note or "")

    @spec("C-SKILL-58", "C-SEC-3")
    @given(
        sizes=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 500)), max_size=20),
        budget=st.integers(2, 30_000),
    )
    def test_no_list_exceeds_its_budget_and_what_is_kept_is_a_beginning(self, sizes: Any, budget: int) -> None:
        refs = [
            ref(f"s{n}", description="d" * (long + 1), skill_metadata={"k": "v" * meta})
            for n, (long, meta) in enumerate(sizes)
        ]
        listing = encode_list(refs, budget)
        assert len(listing.skills) <= budget
        found = json.loads(listing.skills)
        assert [skill["name"] for skill in found] == [known.name for known in refs[: len(found)]]
        assert (listing.note is None) == (len(found) == len(refs) and all("skill_metadata" in skill for skill in found))

    @spec("C-SEC-3", "C-SKILL-58")
    def test_five_thousand_skills_fit_the_acknowledgement(self) -> None:
        refs = [ref(f"skill-{n}", description="d" * 900, skill_metadata={"k": "v" * 100}) for n in range(5_000)]
        assert len(encode_list(refs, 890_000).skills) <= 890_000


class TestTelling:
    def make(self, last: LastList | None = None) -> tuple[Registry, Projection]:
        registry = Registry()
        return registry, Projection(registry, 10_000, last or LastList())

    @spec("R-PROJ-5")
    def test_an_unchanged_list_is_no_news_and_a_changed_one_is_news_once(self) -> None:
        registry, projection = self.make()
        assert not projection.is_news()
        put(registry, "a")
        assert projection.is_news()
        assert not projection.is_news()
        registry.content_changed()
        assert projection.is_news()
        assert not projection.is_news()

    @spec("R-PROJ-3")
    def test_what_a_commit_tells_is_no_news_afterwards_but_changed_content_is(self) -> None:
        registry, projection = self.make()
        put(registry, "a")
        registry.content_changed()
        assert projection.committed()
        assert not projection.committed()
        assert projection.is_news()

    @spec("DEC-27")
    def test_the_signature_is_empty_for_an_empty_list_and_the_same_in_another_life(self) -> None:
        registry, projection = self.make()
        assert projection.signature() == ""
        put(registry, "a")
        other, again = self.make()
        put(other, "a")
        assert projection.signature() == again.signature() != ""

    @spec("C-GEN-15")
    def test_the_list_of_the_former_life_is_shown_until_the_sources_have_been_read(self) -> None:
        last = LastList()
        registry, projection = self.make(last)
        put(registry, "a")
        shown = projection.shown()
        reborn, again = self.make(last)
        assert again.rebuilding
        assert again.shown() == shown
        put(reborn, "b")
        reborn.content_changed()
        assert again.shown() == shown
        assert not again.committed()
        assert not again.is_news()
        again.rebuilt()
        assert b'"b"' in again.shown()
        assert again.is_news()

    @spec("C-GEN-15")
    def test_a_rebuild_that_ends_where_it_began_is_no_news(self) -> None:
        last = LastList()
        registry, projection = self.make(last)
        put(registry, "a")
        projection.shown()
        reborn, again = self.make(last)
        put(reborn, "a")
        reborn.content_changed()
        again.rebuilt()
        assert not again.is_news()
