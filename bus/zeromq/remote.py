"""What a node knows of the world beyond its hub. It is the gateway of the node's bus.

Between two connections there is no such world: every remote address is down, nothing is
wanted elsewhere, and what this bus announces is told at the next welcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...wire.envelope import Address, Envelope
from ...wire.messages.nodes import NodeDown, NodeUp
from ..bus import Bus
from ..mailbox import Verdict, Whereabouts
from . import frames
from .frames import Frame, printable
from .link import Arrived, Link


class Remote:
    """Addresses and interests elsewhere, and the link to the hub while there is one.

    Args:
        say: Sends a frame to the hub.
    """

    def __init__(self, bus: Bus, say: Callable[[Frame], bool]) -> None:
        self.link: Link | None = None
        self._bus = bus
        self._say = say
        self._addresses: set[Address] = set()
        self._wanted: set[str] = set()
        self._told: tuple[set[Address], set[str]] = set(), set()

    # -- connections ------------------------------------------------------------------------

    def greeting(self) -> tuple[tuple[Address, ...], tuple[str, ...]]:
        """Addresses and subjects of this bus, for the greeting of a new connection."""
        self._told = set(self._bus.addresses()), set(self._bus.subjects())
        return tuple(self._told[0]), tuple(self._told[1])

    def go_up(self, welcome: frames.Welcome, link: Link) -> None:
        """The hub took us in: what it has is reachable, and it hears what has changed here since the greeting."""
        for address in self._addresses:
            self._bus.note_down(address, None)
        self._addresses = set()
        self._add(welcome.addresses)
        self._bus.publish(NodeUp(link.name, welcome.addresses))
        # Only now, so that the fact about the hub stays at home.
        self._wanted = set(welcome.subjects)
        self.link = link
        addresses, subjects = set(self._bus.addresses()), set(self._bus.subjects())
        for kind, changed in (
            (frames.Announce, addresses - self._told[0]),
            (frames.Withdraw, self._told[0] - addresses),
            (frames.Observe, subjects - self._told[1]),
            (frames.Unobserve, self._told[1] - subjects),
        ):
            if changed:
                self._say(kind(tuple(changed)))

    def go_down(self, why: str) -> None:
        """The connection ended: everything elsewhere is down, every message carried ends."""
        link, self.link = self.link, None
        self._wanted = set()
        if link is not None:
            self.explain(f"no connection to the hub: {why}")
            link.close(why)
            self._bus.publish(NodeDown(link.name, why, tuple(self._addresses)))

    def explain(self, why: str) -> None:
        """Why what was reachable is not."""
        for address in self._addresses:
            self._bus.note_down(address, why)

    def on_control(self, header: Frame) -> None:
        """The hub says what has changed elsewhere."""
        match header:
            case frames.Announce(addresses):
                self._add(addresses)
            case frames.Withdraw(addresses, why):
                self._drop(addresses, None if why is None else printable(why))
            case frames.Observe(subjects):
                self._wanted.update(subjects)
            case frames.Unobserve(subjects):
                self._wanted.difference_update(subjects)
            case _:
                # A beat has done its work by arriving; anything else is not for a node.
                pass

    def _add(self, addresses: Iterable[str]) -> None:
        for address in map(Address, addresses):
            self._addresses.add(address)
            self._bus.note_down(address, None)

    def _drop(self, addresses: Iterable[str], why: str | None) -> None:
        for address in map(Address, addresses):
            if address in self._addresses:
                self._addresses.discard(address)
                self._bus.note_down(address, why)
                if self.link is not None:
                    self.link.forget_address(address, why)

    # -- gateway ----------------------------------------------------------------------------

    def carry(self, envelope: Envelope) -> Verdict | None:
        # What came from the hub never goes back there.
        if self.link is None or envelope.target not in self._addresses or isinstance(envelope, Arrived):
            return None
        return self.link.carry(envelope)

    def cancel(self, envelope: Envelope) -> Whereabouts | None:
        return self.link.cancel(envelope) if self.link is not None else None

    def reaches(self, address: Address) -> bool:
        return self.link is not None and address in self._addresses

    def has_left(self, envelope: Envelope) -> bool:
        return self.link is not None and self.link.holds(envelope.id)

    def wants(self, subject: str) -> bool:
        return subject in self._wanted

    def publish(self, envelope: Envelope) -> None:
        if self.link is not None:
            self.link.publish(envelope)

    def observe(self, subject: str) -> None:
        self._say_if_up(frames.Observe((subject,)))

    def unobserve(self, subject: str) -> None:
        self._say_if_up(frames.Unobserve((subject,)))

    def announce(self, address: Address) -> None:
        self._say_if_up(frames.Announce((address,)))

    def withdraw(self, address: Address, why: str | None) -> None:
        self._say_if_up(frames.Withdraw((address,), why))

    def _say_if_up(self, header: Frame) -> None:
        if self.link is not None:
            self._say(header)
