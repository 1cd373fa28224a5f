"""What probes are told."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.ops.health import Vitals, alive, ready


def vitals(phase: Any = "started", **more: Any) -> Vitals:
    return Vitals(phase=phase, state=phase, **more)


@pytest.mark.parametrize(
    ("phase", "is_alive", "is_ready"),
    [
        ("created", True, False),
        ("starting", True, False),
        ("started", True, True),
        ("connected", True, True),
        ("joined_office", True, True),
        ("syncing", True, True),
        ("disconnecting", True, False),
        ("stopped", True, False),
        ("error", False, False),
        ("shutdown", False, False),
    ],
)
def test_a_phase_says_whether_it_lives_and_serves(phase: Any, is_alive: bool, is_ready: bool) -> None:
    assert alive(vitals(phase)).ok is is_alive
    assert ready(vitals(phase)).ok is is_ready


@pytest.mark.parametrize("phase", ["started", "syncing"])
@pytest.mark.parametrize(
    ("link", "office", "reason"),
    [
        ("connecting", "lab", "the Server is being looked for"),
        ("connected", "lab", "office lab is not joined yet"),
        ("joined_office", "lab", None),
        ("connected", None, None),
        ("started", None, None),
    ],
)
def test_it_serves_once_it_is_where_it_belongs(phase: Any, link: Any, office: str | None, reason: str | None) -> None:
    assert ready(vitals(phase, link=link, office=office)).reasons == (() if reason is None else (reason,))


def test_a_server_given_up_for_good_is_a_reason() -> None:
    assert ready(vitals(failure="auth_failed")).reasons == ("the Server was given up: auth_failed",)


@pytest.mark.spec("DEC-35")
def test_an_actor_of_its_own_that_is_parked_counts_and_a_server_does_not() -> None:
    assert ready(vitals(parked=("tools", "mcp/files"))).reasons == ("actor tools is parked",)
    assert ready(vitals(parked=("mcp/files",))).ok
