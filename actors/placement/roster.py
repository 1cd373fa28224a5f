"""The roster: which node of the bus hosts which server, and what became of it.

A seat is open for as long as one life of a server's actor is to be lived elsewhere. The
Computer names the node that takes the seat of a spawned worker; for an external one the
first allowed node to ask gets it, and further ones stand by. No I/O, no clock.
"""

from __future__ import annotations

import anyio
import msgspec

from ...wire.errors import ConfigValidationError, ConflictError, PolicyError


class Arrival(msgspec.Struct, frozen=True):
    """The actor of a server takes messages at its worker; `pid` and `host` are for people."""

    pid: int
    host: str


class Place:
    """A seat.

    Attributes:
        node: Who has it, `None` while an external one is free.
        arrival: Set once the actor is up there.
        lost: Why it is over: its node left or was lost after it had arrived.
    """

    def __init__(self, bundle_id: str, node: str | None) -> None:
        self.bundle_id = bundle_id
        self.node = node
        self.is_free_for_all = node is None
        self.arrival: Arrival | None = None
        self.lost: str | None = None
        self._moved = anyio.Event()

    def ring(self) -> None:
        """Something is new: whoever waits looks again."""
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def moves(self) -> None:
        """Waits until something is new."""
        await self._moved.wait()


class Roster:
    """All seats of one Computer."""

    def __init__(self) -> None:
        self._places: dict[str, Place] = {}
        self._changed = anyio.Event()

    # -- by those whose lives are lived there ------------------------------------------------

    def open(self, bundle_id: str, node: str | None) -> Place:
        """Opens the seat of a server, for one node or for whichever external one asks first."""
        place = self._places[bundle_id] = Place(bundle_id, node)
        self._announce()
        return place

    def close(self, place: Place) -> None:
        """The life is over, and with it what its node may say."""
        if self._places.get(place.bundle_id) is place:
            del self._places[place.bundle_id]

    # -- by workers ----------------------------------------------------------------------------

    def take(self, bundle_id: str, node: str) -> bool:
        """A node asks for the seat of a server; whether it has it now.

        A node that asks although its actor had arrived has lost it, so that life is over and the next one is to come.

        Raises:
            PolicyError: Its name, which is that of its key, is for another server.
            ConfigValidationError: No external worker is wanted for a server of this id.
        """
        place = self._places.get(bundle_id)
        if place is not None and place.node == node:
            if place.arrival is not None and place.lost is None:
                place.lost = "its actor went down there"
                place.ring()
            return place.lost is None
        if not serves(node, bundle_id):
            raise PolicyError(f"the name {node} is not for the server {bundle_id}", code="foreign_key")
        if place is None or not place.is_free_for_all:
            raise ConfigValidationError(f"no server {bundle_id} waits for a worker", code="unknown_server")
        if place.node is not None:
            return False
        place.node = node
        return True

    def arrived(self, bundle_id: str, node: str, arrival: Arrival) -> None:
        """The actor is up at this node.

        Raises:
            ConflictError: The seat is somebody else's, or gone.
        """
        place = self._places.get(bundle_id)
        if place is None or place.node != node:
            raise ConflictError(f"{node} does not have the seat of {bundle_id}", code="seat_lost")
        place.arrival = arrival
        place.ring()

    def left(self, node: str, why: str) -> None:
        """A node is not there any more."""
        for place in self._places.values():
            if place.node != node:
                continue
            if place.is_free_for_all and place.arrival is None:
                place.node = None
                self._announce()
            else:
                place.lost = why
                place.ring()

    async def changes(self) -> None:
        """Waits until a seat may have become free."""
        await self._changed.wait()

    # -- to look at ------------------------------------------------------------------------------

    def bundle_of(self, node: str) -> str | None:
        """The server this node hosts."""
        return next((place.bundle_id for place in self._places.values() if place.node == node), None)

    def arrival_at(self, bundle_id: str) -> Arrival | None:
        """Where a server is hosted."""
        place = self._places.get(bundle_id)
        return place.arrival if place is not None else None

    def _announce(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


def serves(node: str, bundle_id: str) -> bool:
    """Whether a node's name, which is that of its key, lets it host a server: `files`, or `files.` and more."""
    return node.partition(".")[0] == bundle_id
