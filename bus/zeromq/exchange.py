"""The exchange: which node has which address and wants which facts. It is the gateway of the hub's bus.

Messages and facts between two nodes pass through it like those of the main process; a
message is never sent back over the link it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ...wire.envelope import Address, Envelope
from ..bus import Bus
from ..mailbox import Verdict, Whereabouts
from . import frames
from .frames import encode_header, printable
from .link import Arrived, Link
from .notices import Notices
from .routes import Routes
from .session import Session

HERE = ""
"""The hub's own name in the table of observers; no node can have it."""
ADDRESS_MAX = 256

Send = Callable[[bytes, list[bytes]], bool]


class Exchange:
    """Sessions of the nodes that are connected, and the routes between them.

    Args:
        send: Sends a message to a routing id; `False` when its node is gone.
        notices: Where claims for addresses that are not free are noted.
    """

    def __init__(self, bus: Bus, send: Send, notices: Notices) -> None:
        self._bus = bus
        self._send = send
        self._notices = notices
        self._routes = Routes()
        self._by_identity: dict[bytes, Session] = {}
        self._by_name: dict[str, Session] = {}
        for subject in bus.subjects():
            self._routes.observe(subject, HERE)

    # -- sessions -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._by_name)

    def sessions(self) -> tuple[Session, ...]:
        """All of them."""
        return tuple(self._by_name.values())

    def at(self, identity: bytes) -> Session | None:
        """The session with this routing id."""
        return self._by_identity.get(identity)

    def named(self, name: str) -> Session | None:
        """The session of this node."""
        return self._by_name.get(name)

    def addresses_of(self, session: Session) -> tuple[Address, ...]:
        """What a node has."""
        return self._routes.of(session.name)

    def add(self, session: Session, subjects: Iterable[str]) -> tuple[tuple[Address, ...], tuple[str, ...]]:
        """Takes a node in; the addresses it can reach and the subjects it should publish."""
        name = session.name
        self._by_identity[session.identity] = self._by_name[name] = session
        for subject in subjects:
            self._routes.observe(subject, name)
        session.told = self._routes.wanted_elsewhere(name)
        return (*self._bus.addresses(), *self._routes.elsewhere(name)), tuple(session.told)

    def remove(self, session: Session, why: str | None) -> tuple[Address, ...]:
        """Takes a node out; the addresses it had, which are down now (with `why`: and will be back)."""
        del self._by_identity[session.identity], self._by_name[session.name]
        wanted = self._routes.wanted_elsewhere(HERE)
        addresses = self._routes.forget(session.name)
        for address in addresses:
            self._bus.note_down(address, why)
        if addresses:
            self.broadcast(frames.Withdraw(addresses, why))
        self._tell_interest(wanted)
        return addresses

    def say(self, session: Session, header: frames.Frame) -> bool:
        """Sends a frame to a node; `False` when it is gone."""
        return self._send(session.identity, [encode_header(header)])

    def broadcast(self, header: frames.Frame, but: str = HERE) -> None:
        """Sends a frame to all nodes, except one."""
        for session in self.sessions():
            if session.name != but:
                self.say(session, header)

    # -- gateway --------------------------------------------------------------------------

    def carry(self, envelope: Envelope) -> Verdict | None:
        owner = self._routes.owner(envelope.target)
        if owner is None:
            return None
        link = self._by_name[owner].link
        if isinstance(envelope, Arrived) and envelope.origin is link:
            # It came from there: the node has just lost the address.
            return None
        return link.carry(envelope)

    def cancel(self, envelope: Envelope) -> Whereabouts | None:
        link = self._holder(envelope)
        return link.cancel(envelope) if link is not None else None

    def reaches(self, address: Address) -> bool:
        return self._routes.owner(address) is not None

    def has_left(self, envelope: Envelope) -> bool:
        link = self._holder(envelope)
        return link is not None and link.holds(envelope.id)

    def wants(self, subject: str) -> bool:
        return self._routes.is_wanted_elsewhere(subject, HERE)

    def publish(self, envelope: Envelope) -> None:
        self._relay(envelope, HERE)

    def observe(self, subject: str) -> None:
        self.begin_interest((subject,), HERE)

    def unobserve(self, subject: str) -> None:
        self.end_interest((subject,), HERE)

    def announce(self, address: Address) -> None:
        self.broadcast(frames.Announce((address,)))

    def withdraw(self, address: Address, why: str | None) -> None:
        self.broadcast(frames.Withdraw((address,), why))

    # -- addresses ------------------------------------------------------------------------

    def claim(self, session: Session, addresses: Iterable[str]) -> tuple[Address, ...]:
        """Routes addresses to a node, unless somebody has them; the ones it got."""
        here = self._bus.addresses()
        got = []
        for address in map(Address, addresses):
            free = 0 < len(address) <= ADDRESS_MAX and address.isprintable() and address not in here
            if free and self._routes.claim(address, session.name):
                self._bus.note_down(address, None)
                got.append(address)
            else:
                self._notices.note("address", f"node {session.name} claims an address that is not free")
        if got:
            self.broadcast(frames.Announce(tuple(got)), but=session.name)
        return tuple(got)

    def owners(self, addresses: Iterable[str]) -> set[str]:
        """The nodes that have one of these addresses."""
        return {owner for address in addresses if (owner := self._routes.owner(Address(address))) is not None}

    def release(self, session: Session, addresses: Iterable[str], why: str | None) -> None:
        """A node withdrew addresses."""
        why = None if why is None else printable(why)
        gone = tuple(address for address in map(Address, addresses) if self._routes.release(address, session.name))
        for address in gone:
            self._bus.note_down(address, why)
            session.link.forget_address(address, why)
        if gone:
            self.broadcast(frames.Withdraw(gone, why), but=session.name)

    # -- facts ------------------------------------------------------------------------------

    def begin_interest(self, subjects: Collection[str], name: str) -> None:
        """A node wants these facts."""
        for subject in subjects:
            self._routes.observe(subject, name)
        self._tell_interest(subjects)

    def end_interest(self, subjects: Collection[str], name: str) -> None:
        """A node does not want them any more."""
        for subject in subjects:
            self._routes.unobserve(subject, name)
        self._tell_interest(subjects)

    def on_fact(self, name: str, envelope: Envelope) -> None:
        """A node published a fact."""
        self._bus.spread(envelope)
        self._relay(envelope, name)

    def _relay(self, envelope: Envelope, origin: str) -> None:
        for name in self._routes.observers(envelope.subject):
            if name not in (origin, HERE):
                self._by_name[name].link.publish(envelope)

    def _tell_interest(self, subjects: Collection[str]) -> None:
        """Tells each node which of these subjects somebody else wants, or nobody any more."""
        for session in self.sessions():
            wanted = {subject for subject in subjects if self._routes.is_wanted_elsewhere(subject, session.name)}
            new, old = wanted - session.told, session.told & (set(subjects) - wanted)
            if new:
                self.say(session, frames.Observe(tuple(new)))
            if old:
                self.say(session, frames.Unobserve(tuple(old)))
            session.told = (session.told | new) - old

    def _holder(self, envelope: Envelope) -> Link | None:
        """The link that has this envelope, out or in line; its address may have moved since."""
        for session in self.sessions():
            if session.link.holds(envelope.id):
                return session.link
        owner = self._routes.owner(envelope.target)
        return self._by_name[owner].link if owner is not None else None
