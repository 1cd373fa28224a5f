"""What the ledger makes of facts."""

from __future__ import annotations

from typing import Any

import pytest

from smcp_runtime.actors.ops.ledger import CALLS_KEPT, ROWS, Ledger
from smcp_runtime.bus import Bus
from smcp_runtime.bus.tally import OTHER
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.messages.kernel import ActorDown, ActorParked, ActorUp
from smcp_runtime.wire.messages.mcp import ServerStatus, ServerStatusChanged
from smcp_runtime.wire.messages.nodes import NodeDown, NodeUp
from smcp_runtime.wire.messages.socket import LinkChanged, LinkPhase
from smcp_runtime.wire.messages.tools import CallEnded


def call(req_id: str = "r", bundle_id: str = "s", outcome: Any = "ok", duration: float = 0.1) -> CallEnded:
    return CallEnded(req_id, "agent", "s__t", bundle_id, outcome, 1_000.0, duration)


def moved(ledger: Ledger, *phases: str, **more: Any) -> None:
    for phase in phases:
        ledger.take(ServerStatusChanged(ServerStatus("s", "started", "connecting", phase, **more)))


@pytest.mark.spec("F-72")
def test_a_call_is_found_by_its_id_alone_and_counted_under_its_server_and_outcome() -> None:
    ledger = Ledger()
    for ended in (
        call("a"),
        call("b", outcome="timeout", duration=30.0),
        call("c", bundle_id="", outcome="unknown_tool"),
    ):
        ledger.take(ended)
    found = ledger.find("b")
    assert found is not None
    assert (found.bundle_id, found.outcome, found.agent) == ("s", "timeout", "agent")
    assert ledger.find("d") is None
    assert ledger.servers["s"].calls == {"ok": 1, "timeout": 1}
    assert ledger.servers["s"].durations.total == pytest.approx(30.1)
    assert ledger.servers[""].calls == {"unknown_tool": 1}


@pytest.mark.spec("F-72")
def test_calls_are_kept_up_to_a_limit_and_all_of_them_are_counted() -> None:
    ledger = Ledger()
    for number in range(CALLS_KEPT + 10):
        ledger.take(call(f"r{number}"))
    assert len(ledger.calls) == CALLS_KEPT
    assert ledger.find("r9") is None
    assert ledger.find("r10") is not None
    assert ledger.servers["s"].calls["ok"] == CALLS_KEPT + 10


def test_a_server_that_comes_back_is_a_reconnect_and_its_last_error_stays() -> None:
    ledger = Ledger(wall_clock=lambda: 1_234.0)
    moved(ledger, "queued", "starting", "ready")
    row = ledger.servers["s"]
    assert (row.starts, row.sessions, row.reconnects, row.last_error) == (1, 1, 0, None)
    moved(ledger, "unhealthy", reason="it hangs", category="network", code="lost")
    moved(ledger, "backing_off", "queued", "starting", "ready")
    assert (row.starts, row.sessions, row.reconnects) == (2, 2, 1)
    assert row.last_error is not None
    assert (row.last_error.at, row.last_error.reason, row.last_error.code) == (1_234.0, "it hangs", "lost")


def test_a_status_that_says_the_same_phase_again_counts_for_nothing() -> None:
    ledger = Ledger()
    moved(ledger, "starting", "ready", "ready", "ready")
    assert (ledger.servers["s"].starts, ledger.servers["s"].sessions) == (1, 1)


def test_lives_after_the_first_are_restarts_and_parkings_are_counted() -> None:
    ledger = Ledger()
    for fact in (ActorUp("a", 1), ActorDown("a", 1, "killed", 0.1), ActorUp("a", 2), ActorParked("a", "killed")):
        ledger.take(fact)
    assert (ledger.actors["a"].restarts, ledger.actors["a"].parkings) == (1, 1)


def test_a_link_that_is_lost_and_found_counts_both() -> None:
    ledger = Ledger()
    phases: tuple[tuple[LinkPhase, bool], ...] = (
        ("connecting", False), ("connected", False), ("joined", False), ("connecting", False), ("connected", False),
        ("joined", True), ("offline", False),
    )  # fmt: skip
    for number, (phase, restored) in enumerate(phases):
        ledger.take(LinkChanged(number, phase, 1, None, restored))
    assert (ledger.links_lost, ledger.links_restored) == (1, 1)


def test_lost_nodes_are_counted_by_name() -> None:
    ledger = Ledger()
    for fact in (NodeUp("w"), NodeDown("w", "silent"), NodeUp("w"), NodeDown("w", "silent")):
        ledger.take(fact)
    assert ledger.nodes_lost == {"w": 2}


def test_names_without_end_are_counted_together_beyond_a_limit() -> None:
    ledger = Ledger()
    for number in range(2 * ROWS):
        ledger.take(call(bundle_id=f"s{number}"))
        ledger.take(NodeDown(f"n{number}", "gone"))
    assert len(ledger.servers) == len(ledger.nodes_lost) == ROWS + 1
    assert ledger.servers[OTHER].calls["ok"] == ledger.nodes_lost[OTHER] == ROWS


@pytest.mark.anyio
async def test_facts_are_counted_while_they_are_published_and_none_is_merged() -> None:
    ledger = Ledger()
    async with Bus() as bus:
        ledger.attach(bus)
        for number in range(50):
            bus.publish(ServerStatusChanged(ServerStatus("s", phase=("starting", "ready")[number % 2])))
        assert ledger.servers["s"].sessions == 25
        bus.spread(Envelope("fact", CallEnded.subject(), Address(""), body=b"\xc1 not msgpack"))
        assert not ledger.calls
