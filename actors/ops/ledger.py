"""The ledger: what facts say about servers, calls, actors, nodes and the link, counted from the first start on.

It listens on the bus itself, without a mailbox that could merge or lose facts, so its counts
are exact. It outlives the actors, and the bus: counters of a Computer that was stopped and
started go on. Rows are bounded like those of the tally.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from ...bus import Bus, Verdict, Whereabouts
from ...bus.tally import OTHER, Spread
from ...wire.codec import decode_message
from ...wire.envelope import Address, Envelope
from ...wire.message import Fact, Record
from ...wire.messages.kernel import ActorDown, ActorParked, ActorUp
from ...wire.messages.mcp import ServerStatusChanged
from ...wire.messages.nodes import NodeDown, NodeUp
from ...wire.messages.socket import LinkChanged
from ...wire.messages.tools import CallEnded

T = TypeVar("T")

ROWS: Final = 512
"""Servers, actors and nodes counted one by one; further ones are counted together."""
CALLS_KEPT: Final = 1000
OBSERVED: Final[tuple[type[Fact], ...]] = (
    ActorDown, ActorParked, ActorUp, CallEnded, LinkChanged, NodeDown, NodeUp, ServerStatusChanged,
)  # fmt: skip


class LastError(Record):
    """Why a server was last not ready. `at` in Unix seconds."""

    at: float
    reason: str
    category: str | None = None
    code: str | None = None


class ServerRow:
    """One server.

    Attributes:
        starts: Attempts to start it.
        sessions: How often it became ready; all but the first are reconnects.
        last_error: Kept also after it is ready again.
        calls: Tool calls that were meant for it, by outcome, and how long they took.
    """

    def __init__(self) -> None:
        self.phase = "stopped"
        self.starts = self.sessions = 0
        self.last_error: LastError | None = None
        self.calls: Counter[str] = Counter()
        self.durations = Spread()

    @property
    def reconnects(self) -> int:
        """Sessions after the first."""
        return max(0, self.sessions - 1)


class ActorRow:
    """One actor: how often it came up again after a death, and how often it was parked."""

    def __init__(self) -> None:
        self.restarts = self.parkings = 0


class Ledger:
    """Receives facts of one bus at a time.

    Attributes:
        servers: By bundle_id; calls for no server known are counted under `""`.
        actors: By address.
        nodes_lost: By node.
        links_restored, links_lost: Changes of the connection to the Server.
        calls: The last tool calls, oldest first, by whom and with what end; never their arguments.
    """

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self.servers: dict[str, ServerRow] = {}
        self.actors: dict[str, ActorRow] = {}
        self.nodes_lost: Counter[str] = Counter()
        self.links_restored = self.links_lost = 0
        self.calls: deque[CallEnded] = deque(maxlen=CALLS_KEPT)
        self._link_phase = "offline"
        self._takes: dict[type[Fact], Callable[[Any], None]] = {
            ActorDown: lambda fact: None,
            ActorParked: self._parked,
            ActorUp: self._up,
            CallEnded: self._called,
            LinkChanged: self._link_moved,
            NodeDown: lambda fact: self.nodes_lost.update([_within(self.nodes_lost, fact.node)]),
            NodeUp: lambda fact: None,
            ServerStatusChanged: self._server_moved,
        }

    def attach(self, bus: Bus) -> None:
        """Listens until the bus closes."""
        for kind in OBSERVED:
            bus.subscribe(kind.subject(), Address("ledger"), self)

    def find(self, req_id: str) -> CallEnded | None:
        """The last call of this id."""
        return next((call for call in reversed(self.calls) if call.req_id == req_id), None)

    def take(self, fact: Fact) -> None:
        """Counts one fact."""
        self._takes[type(fact)](fact)

    # -- receiver ---------------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> Verdict:
        with suppress(msgspec.DecodeError):  # of a node that is not ours to mend; whoever publishes must not suffer
            self.take(decode_message(envelope.subject, envelope.body, envelope.attachments))  # type: ignore[arg-type]
        return Verdict.ADMITTED

    def cancel(self, envelope_id: int) -> Whereabouts | None:
        return None

    def is_serial(self, subject: str) -> bool:
        return False

    # -- what each fact means -----------------------------------------------------------------

    def _up(self, fact: ActorUp) -> None:
        row = _row(self.actors, fact.address, ActorRow)
        row.restarts += fact.incarnation > 1

    def _parked(self, fact: ActorParked) -> None:
        _row(self.actors, fact.address, ActorRow).parkings += 1

    def _link_moved(self, fact: LinkChanged) -> None:
        before, self._link_phase = self._link_phase, fact.phase
        self.links_restored += fact.restored
        self.links_lost += before in ("connected", "joined") and fact.phase == "connecting"

    def _called(self, fact: CallEnded) -> None:
        self.calls.append(fact)
        row = _row(self.servers, fact.bundle_id, ServerRow)
        row.calls[fact.outcome] += 1
        row.durations.add(fact.duration)

    def _server_moved(self, fact: ServerStatusChanged) -> None:
        status = fact.status
        row = _row(self.servers, status.bundle_id, ServerRow)
        if status.phase != row.phase:
            row.starts += status.phase == "starting"
            row.sessions += status.phase == "ready"
        row.phase = status.phase
        if status.reason is not None:
            row.last_error = LastError(self._wall_clock(), status.reason, status.category, status.code)


def _row(rows: dict[str, T], name: str, make: Callable[[], T]) -> T:
    name = _within(rows, name)
    row = rows.get(name)
    if row is None:
        row = rows[name] = make()
    return row


def _within(rows: Any, name: str) -> str:
    return name if name in rows or len(rows) < ROWS else OTHER
