"""Which actors answer for which slice, and how each is fed from the set (R-LIFE-3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ....wire.envelope import Address
from ....wire.messages.desktop import ApplyDesktop
from ....wire.messages.finder import ApplyFinder
from ....wire.messages.projection import Slice
from ....wire.messages.skills import ApplySkills, PluginSkills
from ....wire.messages.tools import ApplyTools
from ..config.policies import ServerPolicies
from ..held import Held
from .committer import SliceFeed
from .slices import resource_slice, tool_slice


def feeds(
    held: Held,
    wanted: Iterable[Slice],
    *,
    policies: Callable[[], Mapping[str, ServerPolicies]],
    order: Callable[[], Iterable[str]],
    skill_roots: Callable[[], tuple[str, ...]],
    plugin_skills: Callable[[], tuple[PluginSkills, ...]] = tuple,
) -> tuple[SliceFeed, ...]:
    """One feed for each wanted slice, in the order in which commits are applied.

    Args:
        policies: Settled policies by bundle_id, as they are when a slice is made.
        order: Servers in the order of their declaration, which documents keep (C-DOC-8).
        skill_roots: Directories of the user's own skills.
        plugin_skills: What plugins contribute, in order of installation.
    """

    def tools() -> tuple[Any, ...]:
        return tool_slice(held.servers, held.facts, policies(), held.pins)

    def by_id() -> tuple[Any, ...]:
        return resource_slice(held.servers, held.facts, sorted(held.servers), policies())

    def as_declared() -> tuple[Any, ...]:
        return resource_slice(held.servers, held.facts, order(), policies())

    def skills() -> tuple[Any, ...]:
        return (by_id(), tuple(sorted(held.servers)), skill_roots(), plugin_skills())

    every = (
        SliceFeed("tool_list", Address("tools"), tools, ApplyTools),
        SliceFeed("desktop", Address("desktop"), by_id, ApplyDesktop),
        SliceFeed(
            "skills",
            Address("skills"),
            skills,
            lambda number, made: ApplySkills(number, servers=made[0], known=made[1], roots=made[2], plugins=made[3]),
        ),
        SliceFeed("finder", Address("finder"), as_declared, ApplyFinder),
    )
    chosen = frozenset(wanted)
    return tuple(feed for feed in every if feed.slice in chosen)
