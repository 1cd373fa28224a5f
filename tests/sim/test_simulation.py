"""Thousands of failure schedules hold, are repeatable, and would show a mistake.

A failing seed is a fact about the code, not about the machine: the command in the message plays it again.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import pytest

from smcp_runtime.actors.kernel.actor import Tasks
from smcp_runtime.actors.kernel.restart import History, Restart
from smcp_runtime.actors.mcp.supervision.health import Health
from smcp_runtime.actors.mcp.supervision.lifecycle import Lifecycle, Start
from smcp_runtime.actors.reconcile.running.following import Following
from smcp_runtime.actors.reconcile.running.lanes import Lanes
from smcp_runtime.bus import Mailbox
from smcp_runtime.bus.once import Once
from support.tree import ROOT

from .play import perform
from .worlds import SEEDS, WORLDS, failures, replay

LOT = 250
LOTS = [(name, first) for name, seeds in SEEDS.items() for first in range(0, seeds, LOT)]


@pytest.mark.spec("DEC-1", "DEC-2", "DEC-35", "DEC-37", "R-MCP-9", "R-MCP-21")
@pytest.mark.parametrize(("name", "first"), LOTS)
def test_every_schedule_holds(name: str, first: int) -> None:
    broken = next(failures(name, range(first, first + LOT)), None)
    if broken is not None:
        seed, error = broken
        pytest.fail("\n".join([*error.trace[-25:], str(error), f"play it again with: {replay(name, seed)}"]))


def test_ten_thousand_schedules_are_played() -> None:
    assert sum(SEEDS.values()) == 10_000
    assert SEEDS.keys() == WORLDS.keys()


@pytest.mark.parametrize("name", WORLDS)
def test_a_seed_is_one_schedule_whenever_it_is_played(name: str) -> None:
    for seed in range(3):
        assert perform(WORLDS[name], seed).trace == perform(WORLDS[name], seed).trace
    assert perform(WORLDS[name], 1).trace != perform(WORLDS[name], 2).trace


def never_parks(self: History, *, started_at: float, now: float) -> Restart:
    return Restart(0.05)


def last_comes_first(self: Mailbox) -> Any:
    lane = self._control or self._ordinary
    return lane.popitem(last=True)[1] if lane else None


def impatient(self: Health, method: str, *, heard: bool, working: bool) -> str:
    return "unhealthy"


async def forgetful(self: Lanes, bundle_id: str) -> None:
    if self._may_live(bundle_id):
        await self._bring_up(bundle_id)


async def impatient_too(self: Tasks, function: Any, *arguments: Any) -> Any:
    return await function(*arguments)


MISTAKES: dict[str, tuple[str, Any, str, Any]] = {
    "a mailbox that hands out the last message first": ("kernel", Mailbox, "take", last_comes_first),
    "a supervisor that never parks": ("supervision", History, "failed", never_parks),
    "a link that forgets what it has executed": ("line", Once, "note", lambda self, number: None),
    "a table that begins a life before the last has ended": (
        "server",
        Lifecycle,
        "_TABLE",
        {**Lifecycle._TABLE, ("stopping", Start): "_begin"},
    ),
    "a probe that does not wait for a second miss": ("health", Health, "unanswered", impatient),
    "a lane that does not wait its turn": ("reconcile", Lanes, "settle", forgetful),
    "a reconcile that does not hear of a life": ("reconcile", Following, "on_up", lambda self, fact: None),
    "a start that ends with its asker's patience": ("reconcile", Tasks, "see_through", impatient_too),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_code_breaks_a_schedule(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, attribute, wrong)
    assert next(failures(name, range(300)), None) is not None


def test_the_command_in_the_message_plays_that_schedule_again() -> None:
    words = replay("server", 7).split()
    ran = subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    *trace, verdict = ran.stdout.splitlines()
    assert verdict == "server 7: holds"
    assert trace == perform(WORLDS["server"], 7).trace


def test_many_schedules_can_be_played_from_the_command_line() -> None:
    command = [sys.executable, "-m", "tests.sim", "--world", "health", "--seeds", "0:20"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.startswith("health: 20 schedules in ")
    assert ran.stdout.rstrip().endswith("0 broken")


def test_lots_cover_all_seeds_once() -> None:
    covered = itertools.chain.from_iterable(range(first, first + LOT) for name, first in LOTS if name == "kernel")
    assert list(covered) == list(range(SEEDS["kernel"]))
