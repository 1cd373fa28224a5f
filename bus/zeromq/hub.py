"""The hub: the bus of the main process as the meeting point of worker nodes.

It greets nodes, keeps the routing table, relays between nodes, passes facts to whoever
observes them, and takes down what a lost node had. Messages to a node and facts share one
ROUTER socket: an address is announced before the fact that mentions it, each peer has a
window of its own, and one authentication guards both (see docs/bus.md).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup

from ...wire.envelope import Address, Envelope
from ...wire.messages.nodes import NodeDown, NodeUp
from ..bus import Bus
from ..mailbox import Verdict, Whereabouts
from . import frames
from .endpoint import Place, to_bind
from .flow import LINE, WINDOW
from .frames import encode_header
from .hello import Terms, contract
from .keys import KeyPair
from .link import Arrived, Link
from .monitor import Change
from .notices import Notices
from .pulse import Pulse, Watch
from .routes import Routes
from .session import NodeStatus, Session
from .transport import HubSocket, end_context, new_context

logger = logging.getLogger(__name__)

HERE = ""
"""The hub's own name in the table of observers; no node can have it."""
NODES_MAX = 1024
ADDRESS_MAX = 256
FAREWELL = 0.2
"""Seconds a leaving side waits for the other's farewell."""
PROBE_AFTER = (0.0, 0.005, 0.05)
"""ZeroMQ says that some connection ended, not whose, and a moment before it knows the peer to be unreachable."""


class ZmqHub:
    """Opens a bus to worker nodes. Async context manager; asyncio only.

    Args:
        endpoint: `ipc:///path` in a directory of mode 0700, or `tcp://host:port` with keys and an allow-list;
            a new private Unix socket by default. `hub.endpoint` is where it listens.
        keys: Makes the endpoint a CURVE server.
        allow: Directory of the public keys that may come in; needed with `keys`.
        name: What nodes call it.
        pulse: When a silent node counts as lost.
        window, line: Messages per address and lane that a node may hold unanswered, and that may wait for that.
        schema: Schema hash it insists on, that of this release by default.
    Raises:
        ConfigValidationError, PolicyError, ConflictError: The endpoint cannot be used, on entry.
    """

    def __init__(
        self,
        bus: Bus,
        endpoint: str | None = None,
        *,
        keys: KeyPair | None = None,
        allow: Path | None = None,
        name: str = "hub",
        pulse: Pulse | None = None,
        window: int = WINDOW,
        line: int = LINE,
        schema: str | None = None,
    ) -> None:
        self.name = name
        self.endpoint = endpoint or ""
        self.notices = Notices(bus.now)
        self._bus = bus
        self._asked_for = endpoint
        self._keys = keys
        self._allow = allow
        self._pulse = pulse or Pulse()
        self._window, self._line = window, line
        self._schema = schema
        self._routes = Routes()
        self._by_identity: dict[bytes, Session] = {}
        self._by_name: dict[str, Session] = {}
        self._all_gone: asyncio.Event | None = None

    async def __aenter__(self) -> ZmqHub:
        if self._bus.gateway is not None:
            raise ValueError("this bus is connected already")
        if (self._keys is None) != (self._allow is None):
            raise ValueError("keys and an allow-list go together")
        self._terms = Terms(self._schema or contract())
        self._place: Place = to_bind(self._asked_for, keys=self._keys is not None, allow=self._allow is not None)
        self._watch = Watch(self._pulse, self._bus.now())
        self._context = new_context()
        try:
            self._socket = HubSocket(
                self._context,
                self._place.url,
                keys=self._keys,
                allow=self._allow,
                receive=self._receive,
                on_change=self._on_change,
                on_refused=lambda why: self.notices.note("key", f"refused: {why}"),
            )
        except OSError:
            self._place.remove()
            await end_context(self._context)
            raise
        self.endpoint = self._socket.endpoint
        self._bus.gateway = self
        for subject in self._bus.subjects():
            self.observe(subject)
        self._tasks: TaskGroup = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._keep_pulse)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with anyio.CancelScope(shield=True):
            await self._say_goodbye()
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            self._close()
            with anyio.CancelScope(shield=True):
                await end_context(self._context)
        return None

    def nodes(self) -> tuple[NodeStatus, ...]:
        """The nodes that are connected."""
        now = self._bus.now()
        return tuple(session.status(self._routes.of(name), now) for name, session in self._by_name.items())

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
        return any(name != HERE for name in self._routes.observers(subject))

    def publish(self, envelope: Envelope) -> None:
        self._relay_fact(envelope, HERE)

    def observe(self, subject: str) -> None:
        self._routes.observe(subject, HERE)
        self._tell_interest((subject,))

    def unobserve(self, subject: str) -> None:
        self._routes.unobserve(subject, HERE)
        self._tell_interest((subject,))

    def announce(self, address: Address) -> None:
        self._broadcast(frames.Announce((address,)))

    def withdraw(self, address: Address, why: str | None) -> None:
        self._broadcast(frames.Withdraw((address,), why))

    # -- socket ---------------------------------------------------------------------------

    def _close(self) -> None:
        self._bus.gateway = None
        for session in tuple(self._by_name.values()):
            self._lose(session, "the hub closed")
        self._socket.close()
        self._place.remove()

    def _send(self, identity: bytes, message: list[bytes]) -> bool:
        if self._socket.send([identity, *message]):
            return True
        session = self._by_identity.get(identity)
        if session is not None:
            # Not at once: the link that sends is in the middle of something.
            asyncio.get_running_loop().call_soon(self._lose, session, "disconnected")
        return False

    def _say(self, identity: bytes, header: frames.Frame) -> bool:
        return self._send(identity, [encode_header(header)])

    def _broadcast(self, header: frames.Frame, but: str = HERE) -> None:
        message = [encode_header(header)]
        for name, session in tuple(self._by_name.items()):
            if name != but:
                self._send(session.identity, message)

    def _receive(self, message: list[bytes], user: str) -> None:
        identity = message[0]
        now = self._bus.clock()
        self._check_presence(now)
        session = self._by_identity.get(identity)
        try:
            header, body, attachments = frames.unpack(message[1:])
        except frames.Malformed:
            self.notices.note("malformed", "a peer sent something that is no frame")
            return
        if session is None:
            self._on_stranger(identity, header, user)
        elif session.user != user:
            self.notices.note("impostor", "a peer used the routing id of another")
        else:
            session.heard = now
            if not session.link.receive(header, body, attachments):
                self._on_control(session, header)

    def _on_change(self, change: Change) -> None:
        if change is Change.DOWN:
            for delay in PROBE_AFTER:
                asyncio.get_running_loop().call_later(delay, self._probe)
        elif change is Change.HANDSHAKE_FAILED:
            self.notices.note("handshake", "refused: a peer failed the security handshake")

    def _probe(self) -> None:
        """A beat to everybody: who cannot be reached is lost."""
        if self._bus.gateway is self:
            self._broadcast(frames.Beat())

    # -- greeting and farewell --------------------------------------------------------------

    def _on_stranger(self, identity: bytes, header: frames.Header, user: str) -> None:
        if isinstance(header, frames.Hello):
            refusal = self._judge(header, user)
            if refusal is None:
                self._welcome(identity, header, user)
            else:
                self.notices.note(refusal.code, f"refused a node: {refusal.text}")
                self._say(identity, refusal)
        elif not isinstance(header, frames.Bye):
            # A node that was lost and does not know it: it will greet again.
            self.notices.note("unknown", "a peer that has not greeted sent a frame")
            self._say(identity, frames.Bye("unknown"))

    def _judge(self, hello: frames.Hello, user: str) -> frames.Refused | None:
        refusal = self._terms.judge(hello, user if self._allow is not None else None)
        if refusal is not None:
            return refusal
        if len(self._by_name) >= NODES_MAX:
            return frames.Refused("full", f"this hub has {NODES_MAX} nodes already")
        namesake = self._by_name.get(hello.name)
        if namesake is not None:
            if self._socket.send([namesake.identity, encode_header(frames.Beat())]):
                return frames.Refused("name_taken", f"a node named {hello.name} is connected")
            self._lose(namesake, "disconnected")
        return None

    def _welcome(self, identity: bytes, hello: frames.Hello, user: str) -> None:
        name = hello.name
        link = Link(
            self._bus,
            name,
            functools.partial(self._send, identity),
            on_fact=functools.partial(self._on_fact, name),
            window=self._window,
            line=self._line,
        )
        session = Session(identity, user, link, self._bus.clock())
        self._by_identity[identity] = self._by_name[name] = session
        for subject in hello.subjects:
            self._routes.observe(subject, name)
        session.told = self._routes.wanted_elsewhere(name)
        welcome = frames.Welcome(
            self.name,
            (*self._bus.addresses(), *self._routes.elsewhere(name)),
            tuple(session.told),
            self._pulse.every,
            self._pulse.lost_after,
        )
        self._say(identity, welcome)
        up = self._claim(session, hello.addresses)
        self._tell_interest(hello.subjects)
        logger.info("node %s came with %s", name, ", ".join(up) or "no address")
        self._bus.publish(NodeUp(name, up))

    def _lose(self, session: Session, why: str, *, for_good: bool = False) -> None:
        """Takes a node out: its addresses are down (`for_good`: and will not be back), what it had in work ends."""
        if session.link.closed:
            return
        name = session.link.name
        del self._by_identity[session.identity], self._by_name[name]
        told = self._routes.wanted_elsewhere(HERE)
        addresses = self._routes.forget(name)
        reason = None if for_good else f"node {name} {why}"
        for address in addresses:
            self._bus.note_down(address, reason)
        session.link.close(why)
        if addresses:
            self._broadcast(frames.Withdraw(addresses, reason))
        self._tell_interest(told)
        logger.log(logging.INFO if for_good else logging.WARNING, "node %s is gone: %s", name, why)
        self._bus.publish(NodeDown(name, why, addresses))
        if self._all_gone is not None and not self._by_name:
            self._all_gone.set()

    async def _say_goodbye(self) -> None:
        if not self._by_name:
            return
        self._all_gone = asyncio.Event()
        self._broadcast(frames.Bye("the hub closes"))
        with anyio.move_on_after(FAREWELL):
            await self._all_gone.wait()

    # -- control frames -----------------------------------------------------------------------

    def _on_control(self, session: Session, header: frames.Frame) -> None:
        name = session.link.name
        match header:
            case frames.Announce(addresses):
                self._claim(session, addresses)
            case frames.Withdraw(addresses, why):
                self._release(session, addresses, why)
            case frames.Observe(subjects):
                for subject in subjects:
                    self._routes.observe(subject, name)
                self._tell_interest(subjects)
            case frames.Unobserve(subjects):
                for subject in subjects:
                    self._routes.unobserve(subject, name)
                self._tell_interest(subjects)
            case frames.Bye():
                self._say(session.identity, frames.Bye("farewell"))
                self._lose(session, "left", for_good=True)
            case _:
                # A beat has done its work by arriving; anything else is not for a hub.
                pass

    def _claim(self, session: Session, addresses: tuple[str, ...]) -> tuple[Address, ...]:
        """Routes addresses to a node; the ones it got."""
        name = session.link.name
        here = self._bus.addresses()
        got = []
        for address in map(Address, addresses):
            if not 0 < len(address) <= ADDRESS_MAX or address in here:
                self.notices.note("address", f"node {name} claims an address that is not free")
                continue
            owner = self._by_name.get(self._routes.owner(address) or name, session)
            if owner is not session and not self._say(owner.identity, frames.Beat()):
                self._lose(owner, "disconnected")
            if self._routes.claim(address, name):
                self._bus.note_down(address, None)
                got.append(address)
            else:
                self.notices.note("address", f"node {name} claims an address that is not free")
        if got:
            self._broadcast(frames.Announce(tuple(got)), but=name)
        return tuple(got)

    def _release(self, session: Session, addresses: tuple[str, ...], why: str | None) -> None:
        gone = tuple(address for address in map(Address, addresses) if self._routes.release(address, session.link.name))
        for address in gone:
            self._bus.note_down(address, why)
            session.link.forget_address(address, why)
        if gone:
            self._broadcast(frames.Withdraw(gone, why), but=session.link.name)

    # -- facts ----------------------------------------------------------------------------------

    def _on_fact(self, name: str, envelope: Envelope) -> None:
        self._bus.spread(envelope)
        self._relay_fact(envelope, name)

    def _relay_fact(self, envelope: Envelope, origin: str) -> None:
        for name in self._routes.observers(envelope.subject):
            if name not in (origin, HERE):
                self._by_name[name].link.publish(envelope)

    def _tell_interest(self, subjects: Any) -> None:
        """Tells each node which of these subjects somebody else wants, or nobody any more."""
        for name, session in tuple(self._by_name.items()):
            wanted = {subject for subject in subjects if set(self._routes.observers(subject)) - {name}}
            new, old = wanted - session.told, session.told & (set(subjects) - wanted)
            if new:
                self._say(session.identity, frames.Observe(tuple(new)))
            if old:
                self._say(session.identity, frames.Unobserve(tuple(old)))
            session.told = (session.told | new) - old

    # -- pulse ------------------------------------------------------------------------------------

    async def _keep_pulse(self) -> None:
        while True:
            await anyio.sleep(self._pulse.every)
            now = self._bus.now()
            self._check_presence(now)
            self._watch.tick(now)
            if any(self._is_silent(session, now) for session in self._by_name.values()):
                self._socket.catch_up()
            for session in tuple(self._by_name.values()):
                if self._is_silent(session, now):
                    self._lose(session, f"silent for {now - session.heard:.1f} s")
            self._broadcast(frames.Beat())

    def _is_silent(self, session: Session, now: float) -> bool:
        return now - session.heard > self._pulse.lost_after

    def _check_presence(self, now: float) -> None:
        if self._watch.was_away(now):
            self._watch.tick(now)
            for session in tuple(self._by_name.values()):
                self._lose(session, "this process was stopped meanwhile")

    def _holder(self, envelope: Envelope) -> Link | None:
        """The link that has this envelope, in line or out; its address may have moved since."""
        for session in self._by_name.values():
            if session.link.holds(envelope.id):
                return session.link
        owner = self._routes.owner(envelope.target)
        return self._by_name[owner].link if owner is not None else None
