"""What of a server is staged when: nothing twice, nothing forgotten, and failures again after a while."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smcp_runtime.actors.skills.manifest import Manifest
from smcp_runtime.actors.skills.plan import Copy, StagingPlan
from smcp_runtime.actors.skills.roots import Root, Selection, select_roots

from .conftest import resource

spec = pytest.mark.spec


def listing(**roots: Any) -> Selection:
    """Skills by the last part of their URI, with their metadata."""
    items = [resource(f"skill://h/{name}", source="mounted", **meta) for name, meta in roots.items()]
    return select_roots("mcp:s", json.dumps(items).encode())


def uri(name: str) -> str:
    return f"skill://h/{name}"


def due(plan: StagingPlan) -> list[tuple[str, str]]:
    return [(item.root.uri.rpartition("/")[2], item.cause) for item in plan.take()]


def copy_of(root: Root, name: str = "mcp:s:a") -> Copy:
    files = tuple(file.uri for file in root.files)
    return Copy(root.fingerprint, name, "/x", Manifest("d"), root.mode, root.etag, files, b"")


def stage(plan: StagingPlan, name: str, skill: str = "") -> None:
    root = next(root for root in plan.selection.roots if root.uri == uri(name))
    plan.staged(root.uri, copy_of(root, skill or f"mcp:s:{name}"))


@pytest.fixture
def plan() -> StagingPlan:
    made = StagingPlan()
    made.listed(1, listing(a={}, b={"etag": "1"}))
    made.take()
    stage(made, "a")
    stage(made, "b")
    return made


@spec("C-SKILL-20", "C-SKILL-56")
def test_a_first_listing_makes_everything_due_in_its_order() -> None:
    plan = StagingPlan()
    assert plan.listed(1, listing(b={}, a={}))
    assert due(plan) == [("b", "listed"), ("a", "listed")]
    assert due(plan) == []


@spec("C-SKILL-75")
def test_an_equal_listing_is_skipped(plan: StagingPlan) -> None:
    assert not plan.listed(1, listing(b={"etag": "1"}, a={}))
    assert due(plan) == []
    assert plan.names() == {"mcp:s:b": 0, "mcp:s:a": 1}


@spec("C-SKILL-20")
def test_after_a_list_change_only_new_and_changed_roots_are_due(plan: StagingPlan) -> None:
    assert plan.listed(1, listing(a={}, b={"etag": "2"}, c={}))
    assert due(plan) == [("b", "listed"), ("c", "listed")]


@spec("C-SKILL-19")
def test_a_root_that_is_gone_leaves_something_to_do_but_nothing_to_stage(plan: StagingPlan) -> None:
    assert plan.listed(1, listing(a={}))
    assert due(plan) == []
    assert plan.names() == {"mcp:s:a": 0}


@spec("C-SKILL-56")
def test_a_new_session_makes_everything_due_again(plan: StagingPlan) -> None:
    assert plan.listed(2, listing(a={}, b={"etag": "1"}))
    assert due(plan) == [("a", "listed"), ("b", "listed")]


@spec("C-SKILL-56", "R-PROJ-10")
def test_a_lost_server_has_nothing_due_and_no_names_until_it_is_listed_again(plan: StagingPlan) -> None:
    plan.updated(uri("a"))
    plan.lost()
    assert (due(plan), plan.names(), plan.is_live) == ([], {}, False)
    assert not plan.updated(uri("a"))
    plan.refresh()
    assert due(plan) == []
    plan.listed(1, listing(a={}, b={"etag": "1"}))
    assert due(plan) == [("a", "listed"), ("b", "listed")]


@spec("C-SKILL-20", "C-SKILL-75")
def test_an_update_makes_the_root_due_that_equals_or_covers_its_uri(plan: StagingPlan) -> None:
    assert plan.updated(uri("a") + "/docs/x.md")
    assert not plan.updated(uri("none"))
    assert due(plan) == [("a", "updated")]


@spec("C-SKILL-20")
def test_an_update_is_not_weakened_by_a_listing_that_comes_before_it_is_staged(plan: StagingPlan) -> None:
    plan.updated(uri("b"))
    plan.listed(1, listing(a={}, b={"etag": "2"}))
    assert due(plan) == [("b", "updated")]


@spec("C-SKILL-30")
def test_a_refresh_makes_everything_due(plan: StagingPlan) -> None:
    plan.refresh()
    assert due(plan) == [("a", "updated"), ("b", "updated")]


class TestFailures:
    @spec("C-SKILL-18")
    def test_a_failed_transfer_is_tried_again_twice_and_then_at_the_next_trigger(self, plan: StagingPlan) -> None:
        assert plan.failed(uri("a"), transfer=True) == (5.0, 1)
        assert plan.names() == {"mcp:s:b": 1}
        assert plan.retry(uri("a"), 1)
        assert due(plan) == [("a", "retry")]
        assert plan.failed(uri("a"), transfer=True) == (30.0, 2)
        assert plan.retry(uri("a"), 2)
        plan.take()
        assert plan.failed(uri("a"), transfer=True) is None
        assert not plan.retry(uri("a"), 2)
        plan.updated(uri("a"))
        assert due(plan) == [("a", "updated")]
        assert plan.failed(uri("a"), transfer=True) == (5.0, 1)

    @spec("C-SKILL-18")
    def test_a_package_that_is_wrong_is_not_tried_again(self, plan: StagingPlan) -> None:
        assert plan.failed(uri("a"), transfer=False) is None
        assert plan.names() == {"mcp:s:b": 1}

    @spec("C-SKILL-18")
    @pytest.mark.parametrize("event", ["staged", "updated", "gone", "lost"])
    def test_a_retry_is_dropped_when_something_else_happened_to_the_root(self, plan: StagingPlan, event: str) -> None:
        delay = plan.failed(uri("a"), transfer=True)
        assert delay == (5.0, 1)
        match event:
            case "staged":
                stage(plan, "a")
            case "updated":
                plan.updated(uri("a"))
            case "gone":
                plan.listed(1, listing(b={"etag": "1"}))
            case "lost":
                plan.lost()
                plan.listed(2, listing(a={}))
                plan.take()
        assert not plan.retry(uri("a"), 1)


@spec("C-SKILL-21")
def test_a_copy_stands_for_a_root_only_with_an_equal_etag_mode_and_set_of_files() -> None:
    root = listing(a={"etag": "1"}).roots[0]
    copy = copy_of(root)
    assert copy.stands_for(root)
    assert copy.stands_for(listing(a={"etag": "1", "version": "2"}).roots[0])
    assert not copy.stands_for(listing(a={"etag": "2"}).roots[0])
    plain = listing(a={}).roots[0]
    assert not copy_of(plain).stands_for(plain)
    items = [resource("skill://h/a", source="resources", etag="1"), resource("skill://h/a/x")]
    by_files = select_roots("mcp:s", json.dumps(items).encode()).roots[0]
    assert copy_of(by_files).stands_for(by_files)
    assert not copy.stands_for(by_files)
    fewer = select_roots("mcp:s", json.dumps(items[:1]).encode()).roots[0]
    assert not copy_of(by_files).stands_for(fewer)


@spec("C-SKILL-17")
def test_a_name_belongs_to_the_listed_root_that_was_staged_with_it(plan: StagingPlan) -> None:
    assert plan.owner_of("mcp:s:a", besides=uri("b")) == uri("a")
    assert plan.owner_of("mcp:s:a", besides=uri("a")) is None
    plan.listed(1, listing(b={"etag": "1"}))
    assert plan.owner_of("mcp:s:a", besides=uri("b")) is None
