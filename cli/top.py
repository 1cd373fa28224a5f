"""The moments `smcp bus top` shows: rates and latencies out of two views. Live on a terminal, plain lines in a pipe.

A view is what `bus.view` answers, as JSON values (`actors.ops.view`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import anyio

from ..actors.ops.view import quantile
from .output import Output, printable

Moment = Mapping[str, Any]

MESSAGES_SHOWN = 12
ERROR = "LAST ERROR"
NAMES = frozenset({"SERVER", "ACTOR", "MESSAGE", "WORKER", "HOST", "ACTORS"})
WORDS = NAMES | {"STATE", "KIND"}
"""Columns that hold no numbers."""


class Grid(NamedTuple):
    """One table."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


async def watch(output: Output, look: Callable[[], Awaitable[Moment]], every: float, moments: int) -> None:
    """Shows moments `every` seconds apart, `moments` of them, or for ever with 0."""
    before = await look()
    shown = 0
    if not output.terminal:
        while not moments or shown < moments:
            await anyio.sleep(every)
            now = await look()
            _print(output, now, before)
            before, shown = now, shown + 1
        return
    from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

    with Live(picture(before, before), auto_refresh=False, screen=not moments) as live:
        while not moments or shown < moments:
            await anyio.sleep(every)
            now = await look()
            live.update(picture(now, before), refresh=True)
            before, shown = now, shown + 1


def headline(now: Moment) -> str:
    """The Computer in one line."""
    where = f"office {now['office']}" if now["office"] else "no office"
    counts = f"up {now['uptime']:.0f} s  dead letters {now['dead_letters']['total']}"
    return f"{now['name']}  {now['state']}  {where}  link {now['link']}  {counts}"


def grids(now: Moment, before: Moment) -> tuple[Grid, ...]:
    """What changed between two moments."""
    seconds = max(now["at"] - before["at"], 0.001)
    bounds = now["bounds"]
    return (
        Grid(
            "servers",
            ("SERVER", "STATE", "CALLS/S", "P50", "P99", "IN FLIGHT", "QUEUED", "NOT OK", "RECONNECTS", ERROR),
            [_server(server, old, seconds, bounds) for server, old in _pairs(now, before, "servers", "bundle_id")],
        ),
        Grid(
            "actors",
            ("ACTOR", "STATE", "QUEUED", "MOST", "BUSY", "HANDLED/S", "LOAD", "FAILED", "RESTARTS"),
            [_actor(actor, old, seconds) for actor, old in _pairs(now, before, "actors", "address")],
        ),
        *_workers(now),
        Grid("messages", ("MESSAGE", "KIND", "PER S", "P50", "P99", "NOT OK"), _messages(now, before, seconds, bounds)),
    )


def duration(seconds: float | None, bounds: Sequence[float] = ()) -> str:
    """A duration in three digits; one in the first bucket is only known to be below its bound."""
    if seconds is None:
        return "-"
    if bounds and seconds <= bounds[0]:
        return f"<{duration(bounds[0])}"
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < size * 1000:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _server(server: Moment, old: Moment | None, seconds: float, bounds: Sequence[float]) -> tuple[str, ...]:
    times = _recent(server["durations"], old and old["durations"])
    error = server["last_error"]
    failed = sum(number for outcome, number in server["calls"].items() if outcome != "ok")
    return (
        server["bundle_id"],
        server["phase"],
        _rate(sum(times), seconds),
        duration(quantile(0.5, times, bounds), bounds),
        duration(quantile(0.99, times, bounds), bounds),
        str(server["in_flight"]),
        str(server["queued"]),
        str(failed),
        str(server["reconnects"]),
        error["reason"] if error else "",
    )


def _actor(actor: Moment, old: Moment | None, seconds: float) -> tuple[str, ...]:
    handled = _grown(actor["handled"], old["handled"] if old else None)
    busy = _grown(actor["busy_seconds"], old["busy_seconds"] if old else None)
    counts = (str(actor[name]) for name in ("queued", "high_water", "busy"))
    ends = (str(actor[name]) for name in ("failed", "restarts"))
    return (actor["address"], actor["state"], *counts, _rate(handled, seconds), f"{busy / seconds:.1%}", *ends)


def _workers(now: Moment) -> Iterable[Grid]:
    """The processes that host servers elsewhere, where there are any."""
    columns = ("WORKER", "HOST", "PID", "MEMORY", "SILENT", "IN FLIGHT", "WAITING", "ACTORS")
    rows: list[tuple[str, ...]] = [
        (
            node["name"],
            node["host"],
            str(node["pid"]),
            f"{node['rss'] / 1e6:.0f} MB",
            duration(node["silent"]),
            str(node["in_flight"]),
            str(node["waiting"]),
            " ".join(node["addresses"]),
        )
        for node in now["nodes"]
    ]
    return [Grid("workers", columns, rows)] if rows else []


def _messages(now: Moment, before: Moment, seconds: float, bounds: Sequence[float]) -> list[tuple[str, ...]]:
    lines = []
    for message, old in _pairs(now, before, "messages", "message"):
        count = _grown(message["count"], old["count"] if old else None)
        times = _recent(message["latency"], old and old["latency"])
        quantiles = (duration(quantile(share, times, bounds), bounds) for share in (0.5, 0.99))
        failed = str(sum(message["failed"].values()))
        lines.append((count, (message["message"], message["kind"], _rate(count, seconds), *quantiles, failed)))
    lines.sort(key=lambda line: -line[0])
    return [row for count, row in lines[:MESSAGES_SHOWN] if count]


def _pairs(now: Moment, before: Moment, what: str, key: str) -> Iterable[tuple[Moment, Moment | None]]:
    old = {item[key]: item for item in before[what]}
    return ((item, old.get(item[key])) for item in now[what])


def _grown(now: float, before: float | None) -> float:
    """How much a counter grew; one that is smaller than before began anew."""
    grown = now - (before or 0)
    return now if grown < 0 else grown


def _recent(now: Moment, before: Moment | None) -> list[int]:
    old = before["counts"] if before else [0] * len(now["counts"])
    grown = [count - earlier for count, earlier in zip(now["counts"], old, strict=True)]
    return list(now["counts"]) if min(grown) < 0 else grown


def _rate(count: float, seconds: float) -> str:
    return f"{count / seconds:.3g}" if count else "0"


def _print(output: Output, now: Moment, before: Moment) -> None:
    output.text(headline(now))
    for grid in grids(now, before):
        output.table(grid.columns, grid.rows, headed=True)


def picture(now: Moment, before: Moment) -> Any:
    """A moment for a terminal. Errors stand beneath their table, a line each: beside numbers there is no room."""
    from rich.console import Group  # noqa: PLC0415 - only a terminal needs it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    parts: list[Any] = [Text(printable(headline(now)), style="bold")]
    for grid in grids(now, before):
        columns = [name for name in grid.columns if name != ERROR]
        table = Table(title=grid.title, title_justify="left", title_style="dim", box=None, header_style="bold")
        table.padding, errors = (0, 1, 0, 0), []
        for column in columns:
            # What is too wide takes from names, which are cut, and not from numbers.
            table.add_column(column, justify="left" if column in WORDS else "right", no_wrap=column not in NAMES)
        for row in grid.rows:
            cells = [" ".join(printable(cell).split()) for cell in row]
            if len(cells) > len(columns) and cells[-1]:
                errors.append(Text(f"{cells[0]}: {cells[-1]}", style="red", no_wrap=True, overflow="ellipsis"))
            shown = zip(columns, cells, strict=False)
            table.add_row(*(Text(cell, STYLES.get(cell, ""), no_wrap=True, overflow="ellipsis") for _, cell in shown))
        parts += [table, *errors]
    return Group(*parts)


STYLES = {
    "ready": "green",
    "up": "green",
    "starting": "yellow",
    "queued": "yellow",
    "waiting": "yellow",
    "backing_off": "yellow",
    "unhealthy": "red",
    "parked": "red",
}
