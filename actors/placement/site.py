"""The site: what all servers that are hosted elsewhere share, for as long as a Computer runs.

The hub behind it comes and goes with the actor that keeps it (`hub.py`); seats, passes and
records stay. It listens for lost nodes on the bus itself, without a mailbox: whoever waits
for a worker must hear of its end also when that actor has just died.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import anyio
import msgspec

from ...bus import Bus, Verdict, Whereabouts
from ...bus.zeromq import NodeKeys, ZmqHub
from ...wire.codec import decode
from ...wire.envelope import Address, Envelope
from ...wire.messages.nodes import NodeDown
from ..mcp.process_record import ProcessRecords
from .passes import Passes
from .roster import Roster


class BusPlace(msgspec.Struct, frozen=True):
    """Where the hub listens and who may come.

    Attributes:
        endpoint: `None` for a new private Unix socket.
        keys: Directory of the hub's pair and of the public keys of external workers. Without one there are none: a
            private socket lets spawned workers in, each by its own pass, and a given `ipc://` whoever may open it.
    """

    endpoint: str | None = None
    keys: Path | None = None

    @property
    def has_keys(self) -> bool:
        """Whether peers authenticate by keys."""
        return self.endpoint is None or self.keys is not None


class Site:
    """Made for each run of a Computer.

    Args:
        records: Where worker processes are recorded for the next start (DEC-8).
        logs: Where servers' stderr goes.
        stop_within: Seconds a worker's handlers get at a graceful end.

    Attributes:
        roster: The seats.
        hub: While it is open.
    """

    def __init__(self, place: BusPlace, records: ProcessRecords, logs: Path, *, stop_within: float) -> None:
        self.place = place
        self.records = records
        self.logs = logs
        self.stop_within = stop_within
        self.roster = Roster()
        self.passes = Passes(place.keys) if place.has_keys else None
        self.hub: ZmqHub | None = None
        self._opened = anyio.Event()

    def attach(self, bus: Bus) -> None:
        """Hears of lost nodes until the bus closes."""
        bus.subscribe(NodeDown.subject(), Address("site"), self)

    # -- the hub ---------------------------------------------------------------------------

    def opened(self, hub: ZmqHub) -> None:
        """The hub listens."""
        self.hub = hub
        self._opened.set()

    def closed(self) -> None:
        """The hub is gone, for now or for good."""
        self.hub = None
        self._opened = anyio.Event()

    async def endpoint(self) -> str:
        """Where the hub listens; waits until it does."""
        while self.hub is None:
            await self._opened.wait()
        return self.hub.endpoint

    def dismiss(self, node: str | None, why: str) -> None:
        """Ends a node's connection: what it hosts is over."""
        if self.hub is not None and node is not None:
            self.hub.dismiss(node, why)

    # -- spawned workers ---------------------------------------------------------------------

    def pass_for(self, node: str) -> AbstractContextManager[NodeKeys | None]:
        """What lets a node in until the end of the block."""
        return self.passes.issue(node) if self.passes is not None else nullcontext()

    # -- receiver --------------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> Verdict:
        fact: NodeDown = decode(NodeDown, envelope.body, envelope.attachments)
        self.roster.left(fact.node, fact.reason)
        return Verdict.ADMITTED

    def cancel(self, envelope_id: int) -> Whereabouts | None:
        return None

    def is_serial(self, subject: str) -> bool:
        return False
