"""What a Computer and a worker, which hosts the actor of one MCP server outside its process, tell each other.

`workers` is the Computer's end; `worker/<bundle_id>` that of the worker. Everything a worker
asks is checked against the server it works for, by the hub, before anybody answers.
"""

from __future__ import annotations

from ..message import Ask, Record


class Seat(Record):
    """Whether a worker may host its server now; `why` it has to wait is for people."""

    given: bool
    why: str = ""


class TakeSeat(Ask[Seat]):
    """A worker offers itself for a server, under the name of its node.

    Answered when it gets the seat, after `wait` seconds at most. Raises `ConfigValidationError` (`unknown_server`)
    for a server no external worker is wanted for, `PolicyError` (`foreign_key`) when its name is for another one.
    """

    lane = "control"
    bundle_id: str
    node: str
    wait: float = 0.0


class Serve(Ask[None]):
    """The actor of the server is up at this worker and takes messages. `pid` and `host` are for people.

    Raises `ConflictError` (`seat_lost`) when the seat is not this node's any more: the worker ends its actor.
    """

    lane = "control"
    bundle_id: str
    node: str
    pid: int = 0
    host: str = ""


class SealedGrant(Record):
    """An authorization at a server as JSON text, `None` for none. All of it is secret."""

    text: str | None

    def __repr__(self) -> str:
        return "SealedGrant(…)"


class GetGrant(Ask[SealedGrant]):
    """The authorization a server's worker opens connections with; the Computer keeps it (R-MCP-25)."""

    bundle_id: str
    key: str


class KeepGrant(Ask[None]):
    """A worker renewed the authorization of its server, or found it lost; `None` forgets it."""

    bundle_id: str
    key: str
    text: str | None

    def __repr__(self) -> str:
        return f"KeepGrant({self.bundle_id!r}, …)"


class WorkRow(Record):
    """What a worker's actor did with one message type. `counts` per bucket of the tally, `total` in seconds."""

    message: str
    counts: tuple[int, ...]
    total: float
    failed: int
    cancelled: int


class WorkerReport(Record):
    """A worker at one moment; counters grow from its start. `rss` in bytes, 0 where the system does not say."""

    pid: int
    host: str
    queued: int = 0
    high_water: int = 0
    busy: int = 0
    capacity: int = 0
    rss: int = 0
    rows: tuple[WorkRow, ...] = ()


class GetWorkerReport(Ask[WorkerReport]):
    """How the worker is doing."""

    lane = "control"
