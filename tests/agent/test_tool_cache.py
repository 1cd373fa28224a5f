"""The tool cache: what is fetched, when, and which answers count."""

from __future__ import annotations

import pytest

from smcp_runtime.agent.tool_cache import FetchTools, ListRoom, ToolCache
from smcp_runtime.wire.tools import SMCPTool


def tools(*names: str) -> tuple[SMCPTool, ...]:
    return tuple(SMCPTool(name=name, bundle_id="b", params_schema={}) for name in names)


def in_office(*computers: str) -> tuple[ToolCache, list[FetchTools]]:
    cache = ToolCache()
    (listing,) = cache.joined()
    assert isinstance(listing, ListRoom)
    orders = cache.listed(listing.epoch, computers)
    return cache, [order for order in orders if isinstance(order, FetchTools)]


@pytest.mark.spec("W-AGT-1")
def test_joining_lists_the_room_and_then_fetches_everybody_present() -> None:
    _cache, orders = in_office("pc2", "pc1")
    assert [order.computer for order in orders] == ["pc2", "pc1"]


def test_fetched_tools_are_offered_in_a_stable_order() -> None:
    cache, orders = in_office("pc2", "pc1")
    for order in orders:
        cache.fetched(order, tools(f"b__{order.computer}"))
    assert [(computer, tool.name) for computer, tool in cache] == [("pc1", "b__pc1"), ("pc2", "b__pc2")]
    assert cache.settled


@pytest.mark.spec("E-20")
def test_a_computer_that_enters_is_fetched() -> None:
    cache, _orders = in_office()
    assert [order.computer for order in cache.entered("pc") if isinstance(order, FetchTools)] == ["pc"]


@pytest.mark.spec("E-21", "W-AGT-2")
def test_a_computer_that_leaves_takes_its_tools_and_its_late_answer_with_it() -> None:
    cache, (order,) = in_office("pc")
    cache.left("pc")
    assert cache.fetched(order, tools("b__x")) == []
    assert cache.computers == ()
    assert cache.of("pc") == ()


@pytest.mark.spec("W-AGT-2")
def test_an_answer_of_a_former_computer_of_that_name_does_not_count() -> None:
    cache, (old,) = in_office("pc")
    cache.left("pc")
    (new,) = cache.entered("pc")
    assert isinstance(new, FetchTools)
    cache.fetched(old, tools("b__old"))
    assert cache.freshness("pc") == "refreshing"
    cache.fetched(new, tools("b__new"))
    assert [tool.name for tool in cache.of("pc")] == ["b__new"]


@pytest.mark.spec("E-23")
def test_a_changed_tool_list_clears_the_tools_before_they_are_fetched_again() -> None:
    cache, (order,) = in_office("pc")
    cache.fetched(order, tools("b__x"))
    assert len(cache.changed("pc", tools=True)) == 1
    assert cache.of("pc") == ()
    assert not cache.settled


@pytest.mark.spec("E-22")
def test_a_changed_configuration_refreshes_the_tools_but_keeps_them_meanwhile() -> None:
    cache, (order,) = in_office("pc")
    cache.fetched(order, tools("b__x"))
    assert len(cache.changed("pc", tools=False)) == 1
    assert [tool.name for tool in cache.of("pc")] == ["b__x"]


@pytest.mark.spec("W-AGT-2")
def test_changes_during_a_fetch_cause_exactly_one_more_and_the_overtaken_answer_is_dropped() -> None:
    cache, (order,) = in_office("pc")
    assert cache.changed("pc", tools=True) == []
    assert cache.changed("pc", tools=True) == []
    (again,) = cache.fetched(order, tools("b__old"))
    assert cache.of("pc") == ()
    assert isinstance(again, FetchTools)
    assert cache.fetched(again, tools("b__new")) == []
    assert [tool.name for tool in cache.of("pc")] == ["b__new"]


@pytest.mark.spec("W-AGT-10", "W-ROOM-27")
def test_joining_again_voids_everything_known_and_under_way() -> None:
    cache, (order,) = in_office("pc")
    cache.outside()
    (listing,) = cache.joined()
    assert cache.fetched(order, tools("b__x")) == []
    assert isinstance(listing, ListRoom)
    assert cache.listed(listing.epoch - 1, ["pc"]) == []
    assert [o.computer for o in cache.listed(listing.epoch, ["pc"]) if isinstance(o, FetchTools)] == ["pc"]


def test_who_left_while_the_room_was_listed_does_not_come_back_with_the_list() -> None:
    cache = ToolCache()
    (listing,) = cache.joined()
    assert isinstance(listing, ListRoom)
    cache.left("pc")
    assert cache.listed(listing.epoch, ["pc"]) == []


def test_who_entered_while_the_room_was_listed_is_fetched_once() -> None:
    cache = ToolCache()
    (listing,) = cache.joined()
    assert isinstance(listing, ListRoom)
    cache.left("pc")
    assert len(cache.entered("pc")) == 1
    assert cache.listed(listing.epoch, ["pc"]) == []


def test_an_update_before_the_list_is_not_lost() -> None:
    cache = ToolCache()
    cache.joined()
    assert len(cache.changed("pc", tools=True)) == 1


def test_an_update_of_a_computer_elsewhere_is_nothing_to_us() -> None:
    cache, _orders = in_office()
    assert cache.changed("stranger", tools=True) == []


def test_when_the_room_cannot_be_listed_an_update_still_shows_a_computer() -> None:
    cache = ToolCache()
    (listing,) = cache.joined()
    assert isinstance(listing, ListRoom)
    assert cache.listed(listing.epoch, None) == []
    assert cache.settled
    assert len(cache.changed("pc", tools=False)) == 1


def test_a_failed_fetch_says_why_and_a_change_starts_another() -> None:
    cache, (order,) = in_office("pc")
    assert cache.failed(order, "no answer") == []
    assert (cache.freshness("pc"), cache.error("pc")) == ("failed", "no answer")
    (again,) = cache.changed("pc", tools=True)
    assert isinstance(again, FetchTools)
    cache.fetched(again, tools("b__x"))
    assert (cache.freshness("pc"), cache.error("pc")) == ("fresh", None)


def test_a_change_during_a_fetch_that_fails_starts_another() -> None:
    cache, (order,) = in_office("pc")
    cache.changed("pc", tools=True)
    assert len(cache.failed(order, "no answer")) == 1


def test_a_tool_name_leads_to_every_computer_that_offers_it() -> None:
    cache, orders = in_office("pc1", "pc2", "pc3")
    for order, names in zip(orders, (["b__x"], ["b__x", "b__y"], ["b__y"]), strict=True):
        cache.fetched(order, tools(*names))
    assert cache.find("b__x") == ("pc1", "pc2")
    assert cache.find("b__z") == ()
