"""The hub: the bus of the main process as the meeting point of worker nodes.

It greets nodes, listens to their pulse, and takes out those that leave or are lost; the
exchange routes between them. Messages and facts share one ROUTER socket: an address is
announced before the fact that mentions it, each peer has a window of its own, and one
authentication guards both (see docs/bus.md).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import anyio
import zmq
from anyio.abc import TaskGroup

from ...wire.codec import encode
from ...wire.envelope import Address
from ...wire.errors import ConflictError, PolicyError, to_failure
from ...wire.messages.nodes import NodeDown, NodeUp
from ..bus import Bus
from . import frames
from .customs import OPEN, Customs
from .endpoint import Place, to_bind
from .exchange import Exchange
from .flow import LINE, WINDOW
from .frames import encode_header
from .hello import Terms, contract
from .keys import KeyPair, NameOf
from .link import Link
from .monitor import Change
from .notices import Notices
from .pair import PairSocket
from .pulse import Pulse, Watch
from .session import DISCONNECTED, NodeStatus, Session
from .transport import HubSocket, end_context, new_context

logger = logging.getLogger(__name__)

NODES_MAX = 1024
PAIRED = b"pair:"
"""Begins the routing ids of adopted nodes; those ZeroMQ makes begin with a zero byte."""
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
        allow: Directory of the public keys that may come in, or who tells the name for a key; needed with `keys`.
        customs: What nodes may say; everything by default.
        name: What nodes call it.
        pulse: When a silent node counts as lost.
        window, line: Messages per address and lane that a node may hold unanswered, and that may wait for that.
        schema: Schema hash it insists on, that of this release by default.
        listens: Whether it has an endpoint at all; without one only adopted nodes come in.
    Raises:
        ConfigValidationError, PolicyError, ConflictError: The endpoint cannot be used, on entry.
    """

    def __init__(
        self,
        bus: Bus,
        endpoint: str | None = None,
        *,
        keys: KeyPair | None = None,
        allow: Path | NameOf | None = None,
        customs: Customs = OPEN,
        name: str = "hub",
        pulse: Pulse | None = None,
        window: int = WINDOW,
        line: int = LINE,
        schema: str | None = None,
        listens: bool = True,
    ) -> None:
        self.name = name
        self.endpoint = endpoint or ""
        self._listens = listens
        self._socket: HubSocket | None = None
        self._pairs: dict[bytes, PairSocket] = {}
        self.notices = Notices(bus.now)
        self._bus = bus
        self._asked_for = endpoint
        self._keys = keys
        self._allow = allow
        self._customs = customs
        self._pulse = pulse or Pulse()
        self._window, self._line = window, line
        self._schema = schema
        self._all_gone: asyncio.Event | None = None

    async def __aenter__(self) -> ZmqHub:
        if self._bus.gateway is not None:
            raise ValueError("this bus is connected already")
        if (self._keys is None) != (self._allow is None):
            raise ValueError("keys and an allow-list go together")
        self._terms = Terms(self._schema or contract())
        self._watch = Watch(self._pulse, self._bus.now())
        if self._listens:
            await self._listen()
        self._nodes = self._bus.gateway = Exchange(self._bus, self._send, self.notices)
        self._tasks: TaskGroup = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._keep_pulse)
        return self

    async def _listen(self) -> None:
        self._place: Place = to_bind(self._asked_for, keys=self._keys is not None, allow=self._allow is not None)
        self._context = new_context()
        try:
            self._socket = HubSocket(
                self._context,
                self._place.url,
                keys=self._keys,
                allow=self._allow,
                receive=lambda message, user: self._receive(message[0], message[1:], user),
                on_change=self._on_change,
                on_refused=lambda why: self.notices.note("key", f"refused: {why}"),
            )
        except zmq.ZMQError as error:
            self._place.remove()
            await end_context(self._context)
            raise ConflictError(f"cannot listen at {self._place.url}: {error.strerror}", code="cannot_listen") from None
        self.endpoint = self._socket.endpoint

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
            if self._socket is not None:
                with anyio.CancelScope(shield=True):
                    await end_context(self._context)
        return None

    def nodes(self) -> tuple[NodeStatus, ...]:
        """The nodes that are connected."""
        now = self._bus.now()
        return tuple(session.status(self._nodes.addresses_of(session), now) for session in self._nodes.sessions())

    def adopt(self, sock: socket.socket, name: str) -> None:
        """Lets the holder of the other end of a socket pair in as the node `name`, once it greets.

        The socket is taken over. What was handed to a child needs no other proof.
        """
        identity = PAIRED + name.encode()

        def receive(frames: list[bytes], user: str) -> None:
            self._receive(identity, frames, user)

        def closed() -> None:
            if self._pairs.get(identity) is pair:
                del self._pairs[identity]
            session = self._nodes.at(identity)
            if session is not None and session.user == name:
                self._lose(session, DISCONNECTED)

        old = self._pairs.pop(identity, None)
        if old is not None:
            old.close()
        pair = self._pairs[identity] = PairSocket(sock, receive, closed, name)

    def dismiss(self, name: str, why: str, *, is_planned: bool = False) -> None:
        """Ends the connection of a node, if it has one; it may greet again. `is_planned`: nothing to be warned of."""
        session = self._nodes.named(name)
        if session is not None:
            self._nodes.say(session, frames.Bye(why))
            self._lose(session, why, is_planned=is_planned)

    # -- socket ---------------------------------------------------------------------------

    def _close(self) -> None:
        self._bus.gateway = None
        for session in self._nodes.sessions():
            self._lose(session, "the hub closed")
        while self._pairs:
            self._pairs.popitem()[1].close()
        if self._socket is not None:
            self._socket.close()
            self._place.remove()

    def _transmit(self, identity: bytes, message: list[bytes]) -> bool:
        pair = self._pairs.get(identity)
        if pair is not None:
            return pair.send(message)
        return self._socket is not None and self._socket.send([identity, *message])

    def _send(self, identity: bytes, message: list[bytes]) -> bool:
        if self._transmit(identity, message):
            return True
        session = self._nodes.at(identity)
        if session is not None:
            # Not at once: the link that sends is in the middle of something.
            asyncio.get_running_loop().call_soon(self._lose, session, DISCONNECTED)
        return False

    def _receive(self, identity: bytes, message: list[bytes], user: str) -> None:
        now = self._bus.clock()
        self._check_presence(now)
        session = self._nodes.at(identity)
        try:
            header, body, attachments = frames.unpack(message)
        except frames.Malformed:
            self.notices.note("malformed", "a peer sent something that is no frame")
            return
        if session is None:
            self._on_stranger(identity, header, user)
        elif session.user != user:
            self.notices.note("impostor", "a peer used the routing id of another")
        else:
            session.heard = now
            if self._is_held_back(session, header, body, attachments):
                return
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
        if self._bus.gateway is self._nodes:
            self._nodes.broadcast(frames.Beat())

    def _is_held_back(
        self, session: Session, header: frames.Frame, body: bytes, attachments: tuple[bytes, ...]
    ) -> bool:
        """Whether a node says what it may not say; the sender of an ask or a tell is told."""
        name, customs = session.name, self._customs
        if isinstance(header, frames.Carry):
            if customs.may_send(name, header.target, header.subject, body, attachments):
                return False
            error = PolicyError("this node may not ask that", code="not_allowed")
            self._send(session.identity, [encode_header(frames.Failed(header.id)), encode(to_failure(error))[0]])
        elif not isinstance(header, frames.Published) or customs.may_publish(name, header.subject, body, attachments):
            return False
        self.notices.note("customs", f"node {name} said something it may not say")
        return True

    # -- greeting and farewell --------------------------------------------------------------

    def _on_stranger(self, identity: bytes, header: frames.Header, user: str) -> None:
        if isinstance(header, frames.Hello):
            refusal = self._judge(header, user)
            if refusal is None:
                self._welcome(identity, header, user)
            else:
                self.notices.note(refusal.code, f"refused a node: {refusal.text}")
                self._send(identity, [encode_header(refusal)])
        elif not isinstance(header, frames.Bye):
            # A node that was lost and does not know it: it will greet again.
            self.notices.note("unknown", "a peer that has not greeted sent a frame")
            self._send(identity, [encode_header(frames.Bye("unknown"))])

    def _judge(self, hello: frames.Hello, user: str) -> frames.Refused | None:
        refusal = self._terms.judge(hello, user if self._allow is not None or user else None)
        if refusal is not None:
            return refusal
        if not user and PAIRED + hello.name.encode() in self._pairs:
            return frames.Refused("name", "that is the name of a process of the hub's own")
        if len(self._nodes) >= NODES_MAX:
            return frames.Refused("full", f"this hub has {NODES_MAX} nodes already")
        namesake = self._nodes.named(hello.name)
        if namesake is not None and self._is_there(namesake):
            return frames.Refused("name_taken", f"a node named {hello.name} is connected")
        return None

    def _is_there(self, session: Session) -> bool:
        """Whether a node can still be reached; one that cannot is lost."""
        if self._transmit(session.identity, [encode_header(frames.Beat())]):
            return True
        self._lose(session, DISCONNECTED)
        return False

    def _welcome(self, identity: bytes, hello: frames.Hello, user: str) -> None:
        name = hello.name
        link = Link(
            self._bus,
            name,
            functools.partial(self._send, identity),
            on_fact=functools.partial(self._nodes.on_fact, name),
            window=self._window,
            line=self._line,
        )
        session = Session(identity, user, link, self._bus.clock())
        subjects = self._granted(name, hello.subjects)
        reachable, wanted = self._nodes.add(session, subjects)
        welcome = frames.Welcome(self.name, reachable, wanted, self._pulse.every, self._pulse.lost_after)
        self._nodes.say(session, welcome)
        up = self._claim(session, hello.addresses)
        self._nodes.begin_interest(subjects, name)
        logger.info("node %s came with %s", name, ", ".join(up) or "no address")
        self._bus.publish(NodeUp(name, up))

    def _claim(self, session: Session, addresses: tuple[str, ...]) -> tuple[Address, ...]:
        if not all(self._customs.may_claim(session.name, address) for address in addresses):
            self.notices.note("customs", f"node {session.name} claims an address it may not have")
            return ()
        for owner in self._nodes.owners(addresses) - {session.name}:
            other = self._nodes.named(owner)
            if other is not None:
                # Perhaps its process has died and we have not heard.
                self._is_there(other)
        return self._nodes.claim(session, addresses)

    def _granted(self, name: str, subjects: Iterable[str]) -> tuple[str, ...]:
        """The facts a node gets of those it wants."""
        return tuple(subject for subject in subjects if self._customs.may_observe(name, subject))

    def _lose(self, session: Session, why: str, *, for_good: bool = False, is_planned: bool = False) -> None:
        """Takes a node out: its addresses are down (`for_good`: and will not be back), what it had in work ends."""
        if session.link.closed:
            return
        name = session.name
        addresses = self._nodes.remove(session, None if for_good else f"node {name} {why}")
        session.link.close(why)
        logger.log(logging.INFO if is_planned else logging.WARNING, "node %s is gone: %s", name, why)
        self._bus.publish(NodeDown(name, why, addresses))
        if self._all_gone is not None and not len(self._nodes):
            self._all_gone.set()

    async def _say_goodbye(self) -> None:
        if not len(self._nodes):
            return
        self._all_gone = asyncio.Event()
        self._nodes.broadcast(frames.Bye("the hub closes"))
        with anyio.move_on_after(FAREWELL):
            await self._all_gone.wait()

    # -- control frames -----------------------------------------------------------------------

    def _on_control(self, session: Session, header: frames.Frame) -> None:
        match header:
            case frames.Announce(addresses):
                self._claim(session, addresses)
            case frames.Withdraw(addresses, why):
                self._nodes.release(session, addresses, why)
            case frames.Observe(subjects):
                self._nodes.begin_interest(self._granted(session.name, subjects), session.name)
            case frames.Unobserve(subjects):
                self._nodes.end_interest(subjects, session.name)
            case frames.Bye():
                self._nodes.say(session, frames.Bye("farewell"))
                self._lose(session, "left", for_good=True, is_planned=True)
            case _:
                # A beat has done its work by arriving; anything else is not for a hub.
                pass

    # -- pulse ------------------------------------------------------------------------------------

    async def _keep_pulse(self) -> None:
        while True:
            await anyio.sleep(self._pulse.every)
            now = self._bus.now()
            self._check_presence(now)
            self._watch.tick(now)
            if any(self._is_silent(session, now) for session in self._nodes.sessions()):
                self._catch_up()
            for session in self._nodes.sessions():
                if self._is_silent(session, now):
                    self._lose(session, f"silent for {now - session.heard:.1f} s")
            self._nodes.broadcast(frames.Beat())

    def _catch_up(self) -> None:
        for pair in tuple(self._pairs.values()):
            pair.catch_up()
        if self._socket is not None:
            self._socket.catch_up()

    def _is_silent(self, session: Session, now: float) -> bool:
        return now - session.heard > self._pulse.lost_after

    def _check_presence(self, now: float) -> None:
        if self._watch.was_away(now):
            self._watch.tick(now)
            for session in self._nodes.sessions():
                self._lose(session, "this process was stopped meanwhile")
