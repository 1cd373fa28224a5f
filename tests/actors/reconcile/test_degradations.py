"""Degradations open with a server's trouble and close with its recovery."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.commits.degradations import Degradations
from smcp_runtime.wire.messages.mcp import ServerStatus
from smcp_runtime.wire.messages.projection import Degradation
from smcp_runtime.wire.messages.skills import SkillNote

spec = pytest.mark.spec


def status(**given: Any) -> ServerStatus:
    return ServerStatus("b", **{"activation": "started", **given})


@spec("R-LIFE-24", "R-LIFE-7", "T-START-3")
def test_a_failing_server_opens_an_entry_with_category_code_and_hint() -> None:
    register = Degradations()
    assert register.follow(
        status(connection="error", category="startup", code="exited", reason="exit 1", since=5.0), 9.0
    )
    assert register.snapshot() == (
        Degradation("server", "b", "startup", "exited", 5.0, "exit 1", "inspect the diagnostics"),
    )


@spec("R-LIFE-24")
@pytest.mark.parametrize("good", [{"connection": "connected"}, {"activation": "stopped", "connection": "disconnected"}])
def test_it_closes_by_itself_when_the_server_recovers_or_is_stopped(good: dict[str, Any]) -> None:
    register = Degradations()
    register.follow(status(connection="error"), 1.0)
    assert register.follow(status(**good), 2.0)
    assert len(register) == 0


@spec("DEC-37")
def test_a_server_that_is_starting_is_no_degradation() -> None:
    register = Degradations()
    assert not register.follow(status(connection="connecting", phase="starting"), 1.0)
    assert len(register) == 0


@spec("R-LIFE-24")
def test_a_failing_server_that_tries_again_stays_open_with_its_first_moment() -> None:
    register = Degradations()
    register.follow(status(connection="error"), 1.0)
    register.follow(status(connection="connecting"), 2.0)
    register.follow(status(connection="error", code="again"), 3.0)
    assert [(entry.since, entry.code) for entry in register.snapshot()] == [(1.0, "again")]


@spec("DEC-35")
def test_a_parked_server_says_so() -> None:
    register = Degradations()
    register.follow(status(connection="error", phase="parked"), 1.0)
    assert register.snapshot()[0].code == "parked"


@spec("R-MCP-25")
def test_a_missing_authorization_is_of_category_auth() -> None:
    register = Degradations()
    register.follow(status(connection="authorization_required"), 1.0)
    assert register.snapshot()[0].category == "auth"


def note(level: Any, owner: str, place: str) -> SkillNote:
    return SkillNote(level, owner, place, "why")


@spec("R-LIFE-24")
def test_errors_of_skills_are_one_entry_for_each_source_and_warnings_are_none() -> None:
    register = Degradations()
    notes = [note("error", "user", "a"), note("error", "user", "b"), note("warning", "mcp:x", "c")]
    register.take_skills(notes, 1.0)
    (entry,) = register.snapshot()
    assert (entry.component, entry.identity, entry.reason, entry.since) == ("skill", "user", "a: why, and 1 more", 1.0)
    register.take_skills(notes[1:], 2.0)
    (entry,) = register.snapshot()
    assert (entry.reason, entry.since) == ("b: why", 1.0)
    register.take_skills((), 3.0)
    assert len(register) == 0


def test_a_change_is_told_once_and_no_change_is_not_told() -> None:
    told: list[int] = []
    register = Degradations(lambda: told.append(1))
    register.follow(status(connection="error"), 1.0)
    register.follow(status(connection="error"), 2.0)
    register.follow(status(connection="connected"), 3.0)
    register.follow(status(connection="connected"), 4.0)
    assert len(told) == 2
