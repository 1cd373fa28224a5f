"""What probes are told."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.ops.health import alive, ready
from smcp_runtime.wire.diagnostics import ActorStatus, Diagnostics
from smcp_runtime.wire.errors import Failure
from smcp_runtime.wire.messages.mcp import ServerStatus
from smcp_runtime.wire.messages.socket import LinkStatus


def shown(phase: Any = "started", **more: Any) -> Diagnostics:
    return Diagnostics(name="pc", phase=phase, state=phase, sequence=1, **more)


@pytest.mark.parametrize(
    ("phase", "is_alive", "is_ready"),
    [
        ("created", True, False),
        ("starting", True, False),
        ("started", True, True),
        ("connected", True, True),
        ("joined_office", True, True),
        ("syncing", True, False),
        ("stopped", True, False),
        ("error", False, False),
        ("shutdown", False, False),
    ],
)
def test_a_phase_says_whether_it_lives_and_serves(phase: Any, is_alive: bool, is_ready: bool) -> None:
    assert alive(shown(phase)).ok is is_alive
    assert ready(shown(phase)).ok is is_ready


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        (LinkStatus("connecting", office="lab"), "the Server is being looked for"),
        (LinkStatus("connected", office="lab"), "office lab is not joined yet"),
        (LinkStatus("joined", office="lab"), None),
        (LinkStatus("connected"), None),
        (LinkStatus("offline"), None),
    ],
)
def test_it_serves_once_it_is_where_it_belongs(link: LinkStatus, reason: str | None) -> None:
    assert ready(shown(link=link)).reasons == (() if reason is None else (reason,))


def test_a_server_given_up_for_good_is_a_reason() -> None:
    failure = Failure("AuthError", "no", "auth_failed")
    assert ready(shown(link_failure=failure)).reasons == ("the Server was given up: auth_failed",)


@pytest.mark.spec("DEC-35")
def test_an_actor_of_its_own_that_is_parked_counts_and_a_server_does_not() -> None:
    parked = ActorStatus("tools", "parked", 6, 5, "OSError")
    server = ActorStatus("mcp/files", "parked", 6, 5, "OSError")
    assert ready(shown(actors=(parked, server))).reasons == ("actor tools is parked",)
    assert ready(shown(servers=(ServerStatus("files", phase="parked"),))).ok
