"""Degradations open with a server's trouble and close with its recovery."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.reconcile.degradations import Degradations
from smcp_runtime.wire.messages.mcp import ServerStatus
from smcp_runtime.wire.messages.projection import Degradation

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
