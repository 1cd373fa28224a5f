"""The metrics as a scraper reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from smcp_runtime.actors.kernel import ChildLoad, Supervisor
from smcp_runtime.actors.ops.operations import Operations
from smcp_runtime.actors.ops.view import (
    DeadLetterView,
    NodeView,
    View,
    compose,
    histogram,
    messages,
    quantile,
)
from smcp_runtime.bus import Answer, Bus, Tally
from smcp_runtime.bus.tally import BOUNDS, Spread, Work
from smcp_runtime.wire.diagnostics import ActorStatus, Diagnostics
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import SmcpError
from smcp_runtime.wire.messages.kernel import ActorUp
from smcp_runtime.wire.messages.mcp import ServerStatus, ServerStatusChanged
from smcp_runtime.wire.messages.tools import CallEnded

A = Address("tools")
FILES = Address("mcp/files")


def families(text: bytes) -> dict[str, Metric]:
    """What a scraper of Prometheus makes of the text."""
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def value(found: dict[str, Metric], metric: str, /, **labels: str) -> float:
    """One sample."""
    family = next(family for family in found.values() for sample in family.samples if sample.name == metric)
    (sample,) = [sample for sample in family.samples if sample.name == metric and sample.labels == labels]
    return float(sample.value)


def handled(tally: Tally, subject: str, took: float, latency: float, actor: Address = A) -> None:
    envelope = Envelope("ask", subject, actor, id=1, body=b"x" * 10, enqueued_at=100.0 + took - latency)
    tally.handled(actor, envelope, 100.0, 100.0 + took, Answer(b"y" * 20))


class Elsewhere:
    """One worker that hosts `mcp/files`, in which a call failed and another did not."""

    def nodes(self) -> tuple[NodeView, ...]:
        return (NodeView("worker", 0.25, 7, 1, ("mcp/files",), rss=5_000_000),)

    def work(self) -> dict[str, dict[str, Work]]:
        row = Work()
        row.add(0.1)
        row.add(0.4)
        row.failed = 1
        return {"mcp/files": {"CallTool": row}}

    async def refresh(self) -> None: ...


async def rendered(operations: Operations, shown: Diagnostics) -> dict[str, Metric]:
    async def diagnostics() -> Diagnostics:
        return shown

    operations._diagnostics = diagnostics
    return families(await operations.metrics())


def plain(**more: Any) -> Diagnostics:
    return Diagnostics(name="pc", phase="joined_office", state="degraded", sequence=3, **more)


@pytest.mark.anyio
class TestMetrics:
    @pytest.fixture
    def operations(self) -> Operations:
        async def none() -> Diagnostics:
            return plain()

        return Operations(none)

    async def test_every_family_is_read_by_a_parser_and_begins_with_our_name_or_the_process(
        self, operations: Operations
    ) -> None:
        handled(operations.tally, "RunTool", 0.002, 0.004)
        found = await rendered(operations, plain())
        assert len(found) > 30
        foreign = [name for name in found if not name.startswith(("smcp_", "process_", "python_"))]
        assert foreign == []
        assert all(family.documentation for family in found.values())

    async def test_messages_latencies_and_bytes_are_those_of_the_tally(self, operations: Operations) -> None:
        for _ in range(3):
            handled(operations.tally, "RunTool", 0.002, 0.004)
        lost = Envelope("ask", "RunTool", A, id=2, body=b"x" * 10)
        operations.tally.answered(lost, 7.0, SmcpError("late", code="deadline"))
        found = await rendered(operations, plain())
        labels = {"message": "RunTool", "kind": "ask"}
        assert value(found, "smcp_bus_messages_total", **labels, outcome="ok") == 3
        assert value(found, "smcp_bus_messages_total", **labels, outcome="deadline") == 1
        assert value(found, "smcp_bus_bytes_total", message="RunTool", direction="in") == 40
        assert value(found, "smcp_bus_bytes_total", message="RunTool", direction="out") == 60
        assert value(found, "smcp_bus_ask_seconds_count", message="RunTool") == 4
        assert value(found, "smcp_bus_ask_seconds_sum", message="RunTool") == pytest.approx(7.012)
        assert value(found, "smcp_bus_ask_seconds_bucket", message="RunTool", le="0.005") == 3
        assert value(found, "smcp_bus_ask_seconds_bucket", message="RunTool", le="+Inf") == 4
        assert value(found, "smcp_actor_handling_seconds_count", message="RunTool") == 3
        assert value(found, "smcp_actor_handled_total", actor="tools", outcome="ok") == 3
        assert value(found, "smcp_actor_busy_seconds_total", actor="tools") == pytest.approx(0.006)

    async def test_calls_servers_and_restarts_are_those_of_the_ledger(self, operations: Operations) -> None:
        for fact in (
            ActorUp("tools", 1),
            ActorUp("tools", 2),
            *(ServerStatusChanged(ServerStatus("files", phase=phase)) for phase in ("starting", "ready") * 2),
            CallEnded("r", "agent", "files__read", "files", "timeout", 1.0, 30.0),
        ):
            operations.ledger.take(fact)
        status = ServerStatus("files", "started", "connected", "ready", retries=2, in_flight=3, queued=4)
        found = await rendered(operations, plain(servers=(status,)))
        assert value(found, "smcp_actor_restarts_total", actor="tools") == 1
        assert value(found, "smcp_tool_calls_total", server="files", outcome="timeout") == 1
        assert value(found, "smcp_tool_call_seconds_sum", server="files") == 30
        assert value(found, "smcp_mcp_server_starts_total", server="files") == 2
        assert value(found, "smcp_mcp_server_reconnects_total", server="files") == 1
        assert value(found, "smcp_mcp_server_up", server="files") == 1
        assert value(found, "smcp_mcp_server_phase", server="files", phase="ready") == 1
        assert value(found, "smcp_mcp_server_phase", server="files", phase="parked") == 0
        assert value(found, "smcp_mcp_server_retries", server="files") == 2
        assert value(found, "smcp_mcp_calls_in_flight", server="files") == 3
        assert value(found, "smcp_mcp_calls_queued", server="files") == 4

    async def test_nodes_and_the_computer_itself_are_gauges(self, operations: Operations) -> None:
        operations.workers = Elsewhere()
        found = await rendered(operations, plain())
        assert value(found, "smcp_node_resident_bytes", node="worker") == 5_000_000
        assert value(found, "smcp_node_heartbeat_age_seconds", node="worker") == 0.25
        assert value(found, "smcp_node_in_flight", node="worker") == 7
        assert value(found, "smcp_computer_state", state="degraded") == 1
        assert value(found, "smcp_computer_state", state="error") == 0
        assert value(found, "smcp_computer_info", name="pc", protocol_version="0.4.0") == 1

    async def test_what_actors_did_in_workers_is_counted_with_what_was_done_here(self, operations: Operations) -> None:
        handled(operations.tally, "CallTool", 0.1, 0.1, actor=Address("mcp/files"))
        operations.workers = Elsewhere()
        found = await rendered(operations, plain())
        assert value(found, "smcp_actor_handled_total", actor="mcp/files", outcome="ok") == 2
        assert value(found, "smcp_actor_handled_total", actor="mcp/files", outcome="failed") == 1
        assert value(found, "smcp_actor_busy_seconds_total", actor="mcp/files") == pytest.approx(0.6)
        assert value(found, "smcp_bus_messages_total", message="CallTool", kind="ask", outcome="ok") == 1

    async def test_what_workers_of_a_run_did_stays_counted_in_the_next(self, operations: Operations) -> None:
        handled(operations.tally, "CallTool", 0.1, 0.1, FILES)
        operations.workers = Elsewhere()
        async with Bus() as bus, Supervisor(bus) as supervisor:
            operations.attach(bus, supervisor)
            assert operations.workers is None
            assert operations.total().work["mcp/files"]["CallTool"].count == 3
            handled(operations.tally, "CallTool", 0.1, 0.1, FILES)
            assert operations.total().work["mcp/files"]["CallTool"].count == 4

    async def test_two_computers_of_one_process_share_nothing(self, operations: Operations) -> None:
        async def other() -> Diagnostics:
            return Diagnostics(name="other", phase="started", state="started", sequence=1)

        handled(operations.tally, "RunTool", 0.1, 0.1)
        theirs = families(await Operations(other).metrics())
        assert theirs["smcp_bus_messages"].samples == []
        assert value(theirs, "smcp_computer_info", name="other", protocol_version="0.4.0") == 1

    async def test_labels_that_hold_quotes_and_line_ends_come_through_unharmed(self, operations: Operations) -> None:
        odd = 'fi"les\n\\x'
        operations.ledger.take(CallEnded("r", "a", "t", odd, "ok", 1.0, 0.1))
        found = await rendered(operations, plain())
        assert value(found, "smcp_tool_calls_total", server=odd, outcome="ok") == 1

    async def test_nothing_of_a_call_but_its_server_and_outcome_becomes_a_label(self, operations: Operations) -> None:
        operations.ledger.take(CallEnded("the-id", "the-agent", "the-tool", "", "unknown_tool", 1.0, 0.1))
        text = (await operations.metrics()).decode()
        assert "the-" not in text
        assert value(families(text.encode()), "smcp_tool_calls_total", server="", outcome="unknown_tool") == 1


class TestView:
    def view(self, tally: Tally | None = None, **more: Any) -> View:
        async def none() -> Diagnostics:
            return plain()

        return compose(
            plain(**more),
            at=1_000.0,
            uptime=5.0,
            loads=[ChildLoad(A, 3, 9, 2, 1024)],
            tally=tally or Tally(),
            ledger=Operations(none).ledger,
            nodes=(),
            letters=DeadLetterView(0, ()),
        )

    def test_an_actor_shows_its_load_beside_its_state(self) -> None:
        tally = Tally()
        handled(tally, "RunTool", 0.5, 0.5)
        up = ActorStatus("tools", "up", 1, 0)
        down = ActorStatus("mcp/files", "waiting", 2, 1, "OSError")
        shown = self.view(tally, actors=(up, down)).actors
        assert (shown[0].queued, shown[0].high_water, shown[0].busy, shown[0].handled) == (3, 9, 2, 1)
        assert shown[0].busy_seconds == pytest.approx(0.5)
        assert (shown[1].state, shown[1].reason, shown[1].queued, shown[1].handled) == ("waiting", "OSError", 0, 0)

    def test_a_message_is_one_line_whoever_handled_it(self) -> None:
        tally = Tally()
        handled(tally, "RunTool", 0.001, 0.001)
        tally.handled(Address("other"), Envelope("ask", "RunTool", A, id=1), 0.0, 0.1, Answer(b""))
        tally.delivered(Envelope("fact", "ToolsListed", Address(""), body=b"12345"))
        lines = {line.message: line for line in messages(tally)}
        assert lines["RunTool"].count == 2
        assert (lines["ToolsListed"].kind, lines["ToolsListed"].count, lines["ToolsListed"].bytes_in) == ("fact", 1, 5)


class TestQuantile:
    def counts(self, seconds: Iterable[float]) -> tuple[int, ...]:
        spread = Spread()
        for duration in seconds:
            spread.add(duration)
        return histogram(spread).counts

    def test_without_durations_there_is_none(self) -> None:
        assert quantile(0.5, self.counts([])) is None

    @pytest.mark.parametrize("share", [0.01, 0.5, 0.9, 0.99, 1.0])
    def test_it_lies_in_the_bucket_of_the_duration_it_stands_for(self, share: float) -> None:
        durations = sorted(0.0001 * 1.03**n for n in range(400))
        found = quantile(share, self.counts(durations))
        exact = durations[max(0, math.ceil(share * len(durations)) - 1)]
        assert found is not None
        bucket = next((index for index, bound in enumerate(BOUNDS) if exact <= bound), len(BOUNDS) - 1)
        assert (BOUNDS[bucket - 1] if bucket else 0.0) <= found <= BOUNDS[bucket]

    def test_what_lies_above_all_bounds_counts_as_the_last(self) -> None:
        assert quantile(0.5, self.counts([1e6, 1e6])) == BOUNDS[-1]
