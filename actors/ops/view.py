"""The view: what an operator sees of a Computer at one moment, as plain data.

Counters grow from the start of the Computer; whoever shows rates or latencies keeps two
views and takes the difference. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from ...bus import DeadLetters, Tally
from ...bus.tally import BOUNDS, Spread, Traffic, Work
from ...wire.diagnostics import Diagnostics
from ...wire.messages.tools import CallEnded
from ..kernel import ChildLoad
from .ledger import LastError, Ledger

CALLS_SHOWN: Final = 50
LETTERS_SHOWN: Final = 50


class Histogram(msgspec.Struct, frozen=True):
    """Durations: how many fell into each bucket of `BOUNDS` and above, and their sum in seconds."""

    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


class ActorView(msgspec.Struct, frozen=True):
    """One actor. `busy_seconds` is the time its handlers took altogether, `busy` how many run now."""

    address: str
    state: str
    life: int
    restarts: int
    reason: str | None
    queued: int
    high_water: int
    capacity: int
    busy: int
    handled: int
    failed: int
    busy_seconds: float


class MessageView(msgspec.Struct, frozen=True):
    """One message type: how many there were, those that did not end well by code, and the latency of asks."""

    message: str
    kind: str
    count: int
    failed: Mapping[str, int]
    bytes_in: int
    bytes_out: int
    latency: Histogram


class ServerView(msgspec.Struct, frozen=True):
    """One MCP server, and the tool calls meant for it. Instants in Unix seconds."""

    bundle_id: str
    phase: str
    connection: str
    activation: str
    since: float
    in_flight: int
    queued: int
    retries: int
    reconnects: int
    starts: int
    next_try_at: float | None
    pid: int | None
    reason: str | None
    last_error: LastError | None
    calls: Mapping[str, int]
    durations: Histogram


class CallsView(msgspec.Struct, frozen=True):
    """Tool calls by outcome, and how long they took."""

    calls: Mapping[str, int]
    durations: Histogram


class NodeView(msgspec.Struct, frozen=True):
    """One worker process on the bus. `silent`: age of its last sign of life in seconds; `rss`: its memory in bytes."""

    name: str
    silent: float
    in_flight: int
    waiting: int
    addresses: tuple[str, ...]
    host: str = ""
    pid: int = 0
    rss: int = 0


class LetterView(msgspec.Struct, frozen=True):
    """One dead letter. `age` in seconds."""

    age: float
    kind: str
    subject: str
    target: str
    sender: str
    why: str


class DeadLetterView(msgspec.Struct, frozen=True):
    """The number of all dead letters, and the last of them, oldest first."""

    total: int
    recent: tuple[LetterView, ...]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one moment.

    Attributes:
        at: Unix seconds.
        uptime: Seconds since the Computer was made.
        bounds: Upper bounds of all histograms, in seconds.
        unrouted: Tool calls that no server of now answers for: unknown names, malformed calls, servers gone since.
        calls: The last tool calls, oldest first.
    """

    at: float
    uptime: float
    name: str
    state: str
    office: str | None
    protocol_version: str
    link: str
    transport: str | None
    links_restored: int
    degradations: tuple[str, ...]
    bounds: tuple[float, ...] = BOUNDS
    actors: tuple[ActorView, ...]
    messages: tuple[MessageView, ...]
    servers: tuple[ServerView, ...]
    unrouted: CallsView
    nodes: tuple[NodeView, ...]
    dead_letters: DeadLetterView
    refused: int
    facts_dropped: int
    calls: tuple[CallEnded, ...]


def compose(
    shown: Diagnostics,
    *,
    at: float,
    uptime: float,
    loads: Iterable[ChildLoad],
    tally: Tally,
    ledger: Ledger,
    nodes: Iterable[NodeView],
    letters: DeadLetterView,
) -> View:
    """Puts the view together."""
    return View(
        at=at,
        uptime=uptime,
        name=shown.name,
        state=shown.state,
        office=shown.office,
        protocol_version=shown.protocol_version,
        link=shown.link.phase,
        transport=shown.link.transport,
        links_restored=ledger.links_restored,
        degradations=tuple(f"{item.component} {item.identity}: {item.code}" for item in shown.degradations),
        actors=_actors(shown, loads, tally, ledger),
        messages=tuple(messages(tally)),
        servers=_servers(shown, ledger),
        unrouted=_unrouted(shown, ledger),
        nodes=tuple(nodes),
        dead_letters=letters,
        refused=tally.refusals.total(),
        facts_dropped=tally.dropped.total(),
        calls=tuple(ledger.calls)[-CALLS_SHOWN:],
    )


def letters_of(letters: DeadLetters, now: float) -> DeadLetterView:
    """The dead letters of a bus.

    Args:
        now: On the clock of that bus.
    """
    recent = letters.recent[-LETTERS_SHOWN:]
    return DeadLetterView(
        letters.total,
        tuple(
            LetterView(now - letter.at, letter.kind, letter.subject, letter.target, letter.sender, letter.why)
            for letter in recent
        ),
    )


def histogram(spread: Spread) -> Histogram:
    """A spread as plain data."""
    first, *rest = spread.counts
    return Histogram((first + spread.quick, *rest), spread.total)


def quantile(share: float, counts: Sequence[int], bounds: Sequence[float] = BOUNDS) -> float | None:
    """About how long `share` of them took at most, in seconds; `None` when there are none.

    Interpolates within a bucket, as Prometheus does; what lies above the last bound counts as the last bound.
    """
    wanted = share * sum(counts)
    if not wanted:
        return None
    below = 0
    for index, bound in enumerate(bounds):
        if below + counts[index] >= wanted:
            lower = bounds[index - 1] if index else 0.0
            return lower + (bound - lower) * (wanted - below) / counts[index]
        below += counts[index]
    return bounds[-1]


def messages(tally: Tally) -> Iterable[MessageView]:
    """Every message type, by name: the work of all actors and what ended otherwise, together."""
    for subject in sorted({*tally.traffic, *(subject for rows in tally.work.values() for subject in rows)}):
        rest = tally.traffic.get(subject)
        work = [rows[subject] for rows in tally.work.values() if subject in rows]
        latency = Spread()
        for row in work:
            latency.merge(row.latency)
        answered = latency.count
        if rest is not None:
            latency.merge(rest)
        yield MessageView(
            message=subject,
            kind=rest.kind if rest is not None else "ask",
            count=latency.count + (rest.delivered if rest is not None else 0),
            failed=dict(rest.failed) if rest is not None else {},
            bytes_in=_sum(work, "bytes_in") + (rest.bytes_in if rest is not None else 0),
            bytes_out=_sum(work, "bytes_out") + (rest.bytes_out if rest is not None else 0),
            latency=histogram(latency if answered or _is_ask(rest) else Spread()),
        )


def _is_ask(rest: Traffic | None) -> bool:
    return rest is not None and rest.kind == "ask"


def _sum(rows: Iterable[Work], name: str) -> int:
    return sum(getattr(row, name) for row in rows)


def _actors(shown: Diagnostics, loads: Iterable[ChildLoad], tally: Tally, ledger: Ledger) -> tuple[ActorView, ...]:
    loaded = {load.address: load for load in loads}
    views = []
    for actor in shown.actors:
        load = loaded.get(actor.address)  # type: ignore[call-overload]
        rows = tally.work.get(actor.address, {}).values()
        known = ledger.actors.get(actor.address)
        views.append(
            ActorView(
                address=actor.address,
                state=actor.state,
                life=actor.incarnation,
                restarts=known.restarts if known is not None else 0,
                reason=actor.reason,
                queued=load.queued if load is not None else 0,
                high_water=load.high_water if load is not None else 0,
                capacity=load.capacity if load is not None else 0,
                busy=load.busy if load is not None else 0,
                handled=sum(row.count for row in rows),
                failed=sum(row.failed for row in rows),
                busy_seconds=sum(row.total for row in rows),
            )
        )
    return tuple(views)


def _servers(shown: Diagnostics, ledger: Ledger) -> tuple[ServerView, ...]:
    views = []
    for status in shown.servers:
        row = ledger.servers.get(status.bundle_id)
        views.append(
            ServerView(
                bundle_id=status.bundle_id,
                phase=status.phase,
                connection=status.connection,
                activation=status.activation,
                since=status.since,
                in_flight=status.in_flight,
                queued=status.queued,
                retries=status.retries,
                reconnects=row.reconnects if row is not None else 0,
                starts=row.starts if row is not None else 0,
                next_try_at=status.next_try_at,
                pid=status.pid,
                reason=status.reason,
                last_error=row.last_error if row is not None else None,
                calls=dict(row.calls) if row is not None else {},
                durations=histogram(row.durations if row is not None else Spread()),
            )
        )
    return tuple(views)


def _unrouted(shown: Diagnostics, ledger: Ledger) -> CallsView:
    known = {status.bundle_id for status in shown.servers}
    calls: Counter[str] = Counter()
    durations = Spread()
    for bundle_id, row in ledger.servers.items():
        if bundle_id not in known:
            calls.update(row.calls)
            durations.merge(row.durations)
    return CallsView(dict(calls), histogram(durations))
