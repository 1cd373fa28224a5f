"""The site: what all servers that are hosted elsewhere share, for as long as a Computer runs.

The hub behind it comes and goes with the actor that keeps it (`hub.py`); seats, passes and
records stay. It listens for lost nodes on the bus itself, without a mailbox: whoever waits
for a worker must hear of its end also when that actor has just died.
"""

from __future__ import annotations

import socket
from pathlib import Path

import anyio
import msgspec

from ...bus import Bus, Verdict, Whereabouts
from ...bus.zeromq import AllowList, KeyPair, ZmqHub, load
from ...wire.codec import decode
from ...wire.envelope import Address, Envelope
from ...wire.errors import ConfigValidationError
from ...wire.messages.nodes import NodeDown
from ..kernel import Perished
from ..mcp.transports.process_record import ProcessRecords
from .roster import Roster

HUB = "hub"
"""Name of the hub's own key pair."""


class BusPlace(msgspec.Struct, frozen=True):
    """Where the hub listens and who may come.

    Attributes:
        endpoint: `None` for nowhere: workers of ours need none.
        keys: Directory of the hub's pair and of the public keys of external workers; `None` for none.
    """

    endpoint: str | None = None
    keys: Path | None = None


class Site:
    """Made for each run of a Computer.

    Args:
        records: Where worker processes are recorded for the next start (DEC-8).
        logs: Where servers' stderr goes.
        stop_within: Seconds a worker's handlers get at a graceful end.

    Attributes:
        roster: The seats.
        keys: The hub's own pair, `None` where peers need none.
        hub: While it is open.
    """

    def __init__(self, place: BusPlace, records: ProcessRecords, logs: Path, *, stop_within: float) -> None:
        self.place = place
        self.records = records
        self.logs = logs
        self.stop_within = stop_within
        self.roster = Roster()
        self.keys = _hub_keys(place.keys) if place.keys is not None else None
        self._allowed = AllowList(place.keys) if place.keys is not None else None
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
        if self._opened.is_set():
            # Whoever waits already, waits for the next time; it must not wait for an event nobody has.
            self._opened = anyio.Event()

    async def until_open(self) -> None:
        """Waits until the hub is open."""
        while self.hub is None:
            await self._opened.wait()

    def name_of(self, public: bytes) -> str | None:
        """The external worker a key belongs to, `None` for a stranger's. The hub itself is no worker."""
        name = self._allowed.name_of(public) if self._allowed is not None else None
        return None if name == HUB else name

    def adopt(self, sock: socket.socket, node: str) -> None:
        """Lets a spawned worker in. Takes the socket over.

        Raises:
            Perished: The hub has just died.
        """
        if self.hub is None:
            sock.close()
            raise Perished("the bus is not open")
        self.hub.adopt(sock, node)

    def dismiss(self, node: str | None, why: str, *, is_planned: bool = False) -> None:
        """Ends a node's connection: what it hosts is over."""
        if self.hub is not None and node is not None:
            self.hub.dismiss(node, why, is_planned=is_planned)

    # -- receiver --------------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> Verdict:
        fact: NodeDown = decode(NodeDown, envelope.body, envelope.attachments)
        self.roster.left(fact.node, fact.reason)
        return Verdict.ADMITTED

    def cancel(self, envelope_id: int) -> Whereabouts | None:
        return None

    def is_serial(self, subject: str) -> bool:
        return False


def _hub_keys(folder: Path) -> KeyPair:
    try:
        return load(folder, HUB)
    except ConfigValidationError as error:
        text = f"{error.message}; `smcp bus keygen {HUB} --keys {folder}` makes a pair"
        raise ConfigValidationError(text, field="bus_keys", code=error.code) from None
