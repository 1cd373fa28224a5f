"""Prometheus metrics: the counts of tally and ledger in the text form a scraper reads.

Nothing is counted here. The numbers are turned into samples when somebody scrapes, on a
registry that belongs to one Computer. Every name below is listed in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol, TypeVar, get_args

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from ...bus import Tally
from ...bus.tally import BOUNDS, Spread
from ...wire.lifecycle import Phase
from ...wire.messages.socket import LinkPhase
from .ledger import Ledger
from .view import ActorView, Histogram, NodeView, ServerView, View, histogram, messages

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
PHASES: Final = (
    "stopped", "idle", "queued", "starting", "ready", "unhealthy", "backing_off", "parked", "stopping",
)  # fmt: skip
STATES: Final = (*get_args(Phase), "degraded")
LINK_PHASES: Final = get_args(LinkPhase)


T = TypeVar("T")
Gauges = tuple[tuple[str, str, Callable[[T], float]], ...]
"""Name, help and value of gauges over things of one kind."""


class Source(Protocol):
    """What is rendered."""

    ledger: Ledger

    def total(self) -> Tally: ...


class Exposition(Collector):
    """The metrics of one Computer.

    Args:
        source: Its counters.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._view: View | None = None
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def render(self, view: View) -> bytes:
        """All metrics as text; `view` is the moment that gauges show."""
        self._view = view
        return generate_latest(self.registry)

    def samples(self, view: View) -> list[dict[str, Any]]:
        """All samples of ours as plain values: `name`, `labels`, `value`."""
        self._view = view
        return [
            {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
            for family in self.collect()
            for sample in family.samples
        ]

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: registering must not collect."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every family of ours."""
        yield from _bus(self._source.total())
        yield from _calls(self._source.ledger)
        if self._view is not None:
            yield from _actors(self._view)
            yield from _servers(self._view)
            yield from _computer(self._view)


def _bus(tally: Tally) -> Iterator[Metric]:
    counts = CounterMetricFamily(
        "smcp_bus_messages", "Messages by type and how they ended.", labels=("message", "kind", "outcome")
    )
    sizes = CounterMetricFamily("smcp_bus_bytes", "Bytes of messages and replies.", labels=("message", "direction"))
    latency = HistogramMetricFamily("smcp_bus_ask_seconds", "From sending an ask to its end.", labels=("message",))
    for row in messages(tally):
        counts.add_metric((row.message, row.kind, "ok"), row.count - sum(row.failed.values()))
        for code, number in row.failed.items():
            counts.add_metric((row.message, row.kind, code), number)
        sizes.add_metric((row.message, "in"), row.bytes_in)
        sizes.add_metric((row.message, "out"), row.bytes_out)
        if row.kind == "ask":
            _add(latency, (row.message,), row.latency)
    yield from (counts, sizes, latency)

    handling = HistogramMetricFamily("smcp_actor_handling_seconds", "Time handlers took.", labels=("message",))
    handled = CounterMetricFamily("smcp_actor_handled", "Messages handled.", labels=("actor", "outcome"))
    busy = CounterMetricFamily("smcp_actor_busy_seconds", "Time all handlers of an actor took.", labels=("actor",))
    by_message: dict[str, Spread] = {}
    for actor, rows in tally.work.items():
        works = rows.values()
        handled.add_metric((actor, "ok"), sum(row.count - row.failed - row.cancelled for row in works))
        handled.add_metric((actor, "failed"), sum(row.failed for row in works))
        handled.add_metric((actor, "cancelled"), sum(row.cancelled for row in works))
        busy.add_metric((actor,), sum(row.total for row in works))
        for message, work in rows.items():
            by_message.setdefault(message, Spread()).merge(work)
    for message, spread in sorted(by_message.items()):
        _add(handling, (message,), histogram(spread))
    yield from (handling, handled, busy)

    for name, help_text, label, counter in (
        ("smcp_bus_refused", "Envelopes that were not accepted.", "reason", tally.refusals),
        ("smcp_bus_facts_dropped", "Facts a slow observer lost.", "message", tally.dropped),
        ("smcp_bus_facts_coalesced", "Facts that took the place of an older one.", "message", tally.coalesced),
        ("smcp_bus_dead_letters", "Messages to nobody.", "message", tally.dead),
    ):
        yield _counter(name, help_text, label, counter)


def _calls(ledger: Ledger) -> Iterator[Metric]:
    calls = CounterMetricFamily("smcp_tool_calls", "Tool calls of Agents.", labels=("server", "outcome"))
    durations = HistogramMetricFamily("smcp_tool_call_seconds", "Time tool calls took.", labels=("server",))
    starts = CounterMetricFamily("smcp_mcp_server_starts", "Attempts to start a server.", labels=("server",))
    reconnects = CounterMetricFamily(
        "smcp_mcp_server_reconnects", "Sessions after the first of a server.", labels=("server",)
    )
    for server, row in sorted(ledger.servers.items()):
        for outcome, number in sorted(row.calls.items()):
            calls.add_metric((server, outcome), number)
        _add(durations, (server,), histogram(row.durations))
        if server:
            starts.add_metric((server,), row.starts)
            reconnects.add_metric((server,), row.reconnects)
    yield from (calls, durations, starts, reconnects)
    yield _counter(
        "smcp_actor_restarts", "Lives of an actor after the first.", "actor",
        {address: row.restarts for address, row in ledger.actors.items()},
    )  # fmt: skip
    yield _counter(
        "smcp_actor_parkings", "Times an actor was given up for a while.", "actor",
        {address: row.parkings for address, row in ledger.actors.items()},
    )  # fmt: skip
    yield _counter("smcp_nodes_lost", "Times a node was lost.", "node", ledger.nodes_lost)
    yield CounterMetricFamily("smcp_link_losses", "Times the Server was lost.", value=ledger.links_lost)
    yield CounterMetricFamily("smcp_link_reconnects", "Times it was found again.", value=ledger.links_restored)


def _actors(view: View) -> Iterator[Metric]:
    of_actors: Gauges[ActorView] = (
        ("smcp_actor_up", "Whether an actor takes messages.", lambda actor: actor.state == "up"),
        ("smcp_actor_parked", "Whether an actor is given up for now.", lambda actor: actor.state == "parked"),
        ("smcp_actor_mailbox_depth", "Messages that wait for an actor.", lambda actor: actor.queued),
        ("smcp_actor_mailbox_high_water", "The most it held in this life.", lambda actor: actor.high_water),
        ("smcp_actor_mailbox_capacity", "Messages the mailbox holds.", lambda actor: actor.capacity),
        ("smcp_actor_in_work", "Handlers at work.", lambda actor: actor.busy),
    )
    for name, help_text, value in of_actors:
        yield _gauges(name, help_text, "actor", ((actor.address, value(actor)) for actor in view.actors))
    of_nodes: Gauges[NodeView] = (
        ("smcp_node_heartbeat_age_seconds", "Since the last sign of life.", lambda node: node.silent),
        ("smcp_node_in_flight", "Messages a node holds unanswered.", lambda node: node.in_flight),
        ("smcp_node_waiting", "Messages that wait for a node.", lambda node: node.waiting),
        ("smcp_node_resident_bytes", "Memory of a node, 0 where it is not known.", lambda node: node.rss),
    )
    for name, help_text, node_value in of_nodes:
        yield _gauges(name, help_text, "node", ((node.name, node_value(node)) for node in view.nodes))


def _servers(view: View) -> Iterator[Metric]:
    of_servers: Gauges[ServerView] = (
        ("smcp_mcp_server_up", "Whether a server is ready.", lambda server: server.phase == "ready"),
        ("smcp_mcp_server_wanted", "Whether it is meant to run.", lambda server: server.activation == "started"),
        ("smcp_mcp_server_retries", "Tries since it was last stable.", lambda server: server.retries),
        ("smcp_mcp_calls_in_flight", "Calls at a server.", lambda server: server.in_flight),
        ("smcp_mcp_calls_queued", "Calls that wait for a place.", lambda server: server.queued),
    )
    for name, help_text, value in of_servers:
        yield _gauges(name, help_text, "server", ((server.bundle_id, value(server)) for server in view.servers))
    phases = GaugeMetricFamily("smcp_mcp_server_phase", "1 for the phase a server is in.", labels=("server", "phase"))
    for server in view.servers:
        for phase in PHASES:
            phases.add_metric((server.bundle_id, phase), server.phase == phase)
    yield phases


def _computer(view: View) -> Iterator[Metric]:
    info = GaugeMetricFamily("smcp_computer_info", "Always 1.", labels=("name", "protocol_version"))
    info.add_metric((view.name, view.protocol_version), 1)
    yield info
    yield _gauges("smcp_computer_state", "1 for its state.", "state", ((s, s == view.state) for s in STATES))
    yield _gauges(
        "smcp_link_phase", "1 for the phase of the link.", "phase", ((p, p == view.link) for p in LINK_PHASES)
    )
    yield GaugeMetricFamily("smcp_computer_degradations", "Open degradations.", value=len(view.degradations))
    yield GaugeMetricFamily("smcp_computer_uptime_seconds", "Since the Computer was made.", value=view.uptime)


def _counter(name: str, help_text: str, label: str, counts: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=(label,))
    for value, number in sorted(counts.items()):
        family.add_metric((value,), number)
    return family


def _gauges(name: str, help_text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=(label,))
    for value, number in values:
        family.add_metric((value,), float(number))
    return family


def _add(family: HistogramMetricFamily, labels: Sequence[str], shown: Histogram) -> None:
    bounds = [*map(str, BOUNDS), "+Inf"]
    family.add_metric(labels, buckets=list(zip(bounds, accumulate(shown.counts), strict=True)), sum_value=shown.total)
