"""One end of a connection between two buses: envelopes out on credit, envelopes in, and an end for each.

Whatever is carried ends once: with the peer's answer, its receipt, or the loss of the
link. Whatever arrives is adopted by the bus and answered once. The link knows no socket;
it is given a function that sends frames.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from ...wire.codec import decode, encode
from ...wire.envelope import Address, Envelope
from ...wire.errors import (
    ActorLost,
    BusClosed,
    BusError,
    Failure,
    Overloaded,
    SmcpError,
    Undeliverable,
    from_failure,
    to_failure,
)
from ..bus import Bus
from ..mailbox import Verdict, Whereabouts
from ..once import Once
from ..pending import Answer, Settled
from . import frames
from .flow import FACTS_PER_RECEIPT, LINE, WINDOW, FactFlow, Flow
from .frames import encode_header

logger = logging.getLogger(__name__)

IN_MAX = 65_536
"""Messages of one peer that may be unanswered here, whatever it takes its own window for."""

Send = Callable[[list[bytes]], bool]


class Arrived(Envelope):
    """An envelope that came over a link, so that nobody sends it back there."""

    origin: Any = None


class Link:
    """The connection of `bus` to the node `name`.

    Args:
        send: Sends one message without waiting; `False` when the peer is gone.
        on_fact: Takes the facts of the peer; the observers of `bus` by default.
        window: Messages per address and lane that may be unanswered.
        line: Messages per address and lane that may wait for a place in the window.
    """

    def __init__(
        self,
        bus: Bus,
        name: str,
        send: Send,
        *,
        on_fact: Callable[[Envelope], None] | None = None,
        window: int = WINDOW,
        line: int = LINE,
    ) -> None:
        self.name = name
        self.closed = False
        self._bus = bus
        self._send = bus.line(send)
        self._on_fact = on_fact or bus.spread
        self._window = window
        self._line = line
        self._numbers = itertools.count(-1, -1)
        self._flows: dict[tuple[Address, str], Flow] = {}
        self._out: dict[int, tuple[Flow, Envelope]] = {}
        self._in: dict[int, int] = {}
        self._ended = Once()
        self._facts = FactFlow()
        self._untold = 0
        self._handlers: dict[type[frames.Frame], Callable[[Any, bytes, tuple[bytes, ...]], None]] = {
            frames.Carry: self._on_carry,
            frames.Replied: self._on_replied,
            frames.Failed: self._on_failed,
            frames.Accepted: self._on_accepted,
            frames.Dropped: self._on_dropped,
            frames.Cancel: self._on_cancel,
            frames.Published: self._on_published,
            frames.Taken: self._on_taken,
        }

    # -- state ------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Messages the peer holds unanswered."""
        return len(self._out)

    @property
    def waiting(self) -> int:
        """Messages that wait for a place in a window."""
        return sum(len(flow.line) for flow in self._flows.values())

    def credits(self) -> dict[Address, int]:
        """Free places in the ordinary window of each address that has been used."""
        return {address: flow.window - flow.out for (address, lane), flow in self._flows.items() if lane == "ordinary"}

    # -- out --------------------------------------------------------------------------

    def carry(self, envelope: Envelope) -> Verdict:
        """Sends a directed envelope, or puts it in line, or refuses it."""
        if not frames.fits(envelope.body, envelope.attachments):
            text = f"{envelope.subject} is larger than {frames.FRAME_MAX} bytes"
            self._bus.settle(envelope.id, BusError(text, code="too_large", details={"executed": "no"}))
            return Verdict.ADMITTED
        key = (envelope.target, envelope.lane)
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = Flow(self._window, self._line)
        verdict = flow.offer(envelope)
        if verdict is Verdict.ADMITTED:
            self._leave(flow, envelope)
        return verdict

    def cancel(self, envelope: Envelope) -> Whereabouts | None:
        """Takes an envelope out of the line, or asks the peer to drop it."""
        if envelope.id in self._out:
            self._send([encode_header(frames.Cancel(envelope.id))])
            return None
        flow = self._flows.get((envelope.target, envelope.lane))
        return flow.withdraw(envelope.id) if flow is not None else None

    def holds(self, envelope_id: int) -> bool:
        """Whether the peer has this message and will say what became of it."""
        return envelope_id in self._out

    def publish(self, envelope: Envelope) -> None:
        """Sends a fact when the peer has taken enough of the earlier ones; else it coalesces or is dropped."""
        verdict = self._facts.offer(envelope)
        if verdict is Verdict.ADMITTED:
            self._send(frames.published(envelope))
        elif verdict is Verdict.COALESCED:
            self._bus.meter.fact_coalesced(envelope, Address(f"node/{self.name}"))
        elif verdict is Verdict.REFUSED:
            self._bus.meter.fact_dropped(envelope, Address(f"node/{self.name}"))

    # -- in ---------------------------------------------------------------------------

    def receive(self, header: frames.Frame, body: bytes, attachments: tuple[bytes, ...]) -> bool:
        """Works on a frame of the peer; `False` when it is none a link knows."""
        handler = self._handlers.get(type(header))
        if handler is None:
            return False
        handler(header, body, attachments)
        return True

    # -- end --------------------------------------------------------------------------

    def forget_address(self, address: Address, why: str | None) -> None:
        """The peer withdrew an address: what waits in line for it ends now; what left, the peer answers."""
        for key in [key for key in self._flows if key[0] == address]:
            for envelope in self._flows.pop(key).line.empty():
                self._bus.settle(envelope.id, _gone(address, why))

    def close(self, why: str) -> None:
        """The link is gone: ends everything carried over it and interrupts everything that came over it."""
        self.closed = True
        out, self._out = self._out, {}
        waiting = [envelope for flow in self._flows.values() for envelope in flow.line.empty()]
        self._flows.clear()
        for envelope_id, (_, envelope) in out.items():
            text = f"the node of {envelope.target} was lost: {why}"
            self._bus.settle(envelope_id, ActorLost(text, details={"executed": "unknown"}))
        for envelope in waiting:
            text = f"the node of {envelope.target} was lost before {envelope.subject} left: {why}"
            self._bus.settle(envelope.id, ActorLost(text, details={"executed": "no"}))
        arrived, self._in = self._in, {}
        for bus_id in arrived.values():
            self._bus.abandon(bus_id)

    # -- out, inside --------------------------------------------------------------------

    def _leave(self, flow: Flow, envelope: Envelope) -> None:
        link_id = envelope.id or next(self._numbers)
        self._out[link_id] = (flow, envelope)
        self._send(frames.carry(envelope, link_id, self._bus.clock()))

    def _end(self, link_id: int, settled: Settled) -> None:
        """The peer is done with a message: its place goes to the next in line."""
        entry = self._out.pop(link_id, None)
        if entry is None:
            return
        flow, envelope = entry
        if link_id > 0:
            self._bus.settle(link_id, settled)
        elif settled is not None:
            self._bus.meter.refused(envelope, "refused")
        following = flow.release()
        while following is not None and following.deadline <= self._bus.clock():
            # Its own deadline is about to end it; sending it would only cost the peer its time.
            self._expire(following)
            following = flow.release()
        if following is not None:
            self._leave(flow, following)

    def _expire(self, envelope: Envelope) -> None:
        text = f"no place for {envelope.subject} at {envelope.target} became free in time"
        self._bus.settle(envelope.id, Overloaded(text, details={"executed": "no"}))

    def _on_replied(self, header: frames.Replied, body: bytes, attachments: tuple[bytes, ...]) -> None:
        self._end(header.id, Answer(body, attachments))

    def _on_failed(self, header: frames.Failed, body: bytes, attachments: tuple[bytes, ...]) -> None:
        self._end(header.id, _error(body))

    def _on_accepted(self, header: frames.Accepted, body: bytes, attachments: tuple[bytes, ...]) -> None:
        entry = self._out.get(header.id)
        if entry is not None and entry[1].kind == "tell":
            self._end(header.id, None)

    def _on_dropped(self, header: frames.Dropped, body: bytes, attachments: tuple[bytes, ...]) -> None:
        executed = "no" if header.where in ("waiting", "queued") else "unknown"
        text = f"the node {self.name} dropped the message"
        self._end(header.id, ActorLost(text, details={"executed": executed}))

    def _on_taken(self, header: frames.Taken, body: bytes, attachments: tuple[bytes, ...]) -> None:
        for envelope in self._facts.release(header.facts):
            self._send(frames.published(envelope))

    # -- in, inside ---------------------------------------------------------------------

    def _on_carry(self, header: frames.Carry, body: bytes, attachments: tuple[bytes, ...]) -> None:
        link_id = header.id
        if link_id in self._in or link_id in self._ended:
            # At most once, also over a line that says things twice: a peer of ours uses no id again.
            return
        if self._bus.closed:
            self._fail(link_id, BusClosed("the bus is closed", details={"executed": "no"}))
            return
        if len(self._in) >= IN_MAX:
            # Its window should have stopped it long before.
            text = f"{self.name} has {IN_MAX} messages unanswered"
            self._fail(link_id, Overloaded(text, details={"executed": "no"}))
            return
        envelope = Arrived(
            "tell" if header.tell else "ask",
            header.subject,
            Address(header.target),
            Address(header.sender),
            0,
            frames.deadline(header, self._bus.clock()),
            body,
            attachments,
            "control" if header.control else "ordinary",
            header.chain,  # type: ignore[arg-type]
            header.trace,
            origin=self,
        )
        self._in[link_id] = self._bus.adopt(envelope, functools.partial(self._answer, link_id))
        self._bus.dispatch(envelope)

    def _answer(self, link_id: int, settled: Settled) -> None:
        if self._in.pop(link_id, None) is None:
            return
        self._ended.note(link_id)
        if settled is None:
            self._send([encode_header(frames.Accepted(link_id))])
        elif isinstance(settled, SmcpError):
            self._fail(link_id, settled)
        elif frames.fits(settled.body, settled.attachments):
            self._send([encode_header(frames.Replied(link_id)), settled.body, *settled.attachments])
        else:
            text = f"the reply is larger than {frames.FRAME_MAX} bytes"
            self._fail(link_id, BusError(text, code="too_large", details={"executed": "yes"}))

    def _fail(self, link_id: int, error: SmcpError) -> None:
        self._send([encode_header(frames.Failed(link_id)), _failure(error)])

    def _on_cancel(self, header: frames.Cancel, body: bytes, attachments: tuple[bytes, ...]) -> None:
        # What never came, or comes after this, is not executed. What has ended was answered; should the answer be lost,
        # its place in the window of the peer would stay taken without a word of ours.
        where: Whereabouts | None = None if header.id in self._ended else "waiting"
        bus_id = self._in.pop(header.id, None)
        if bus_id is not None:
            where = self._bus.abandon(bus_id)
        self._ended.note(header.id)
        self._send([encode_header(frames.Dropped(header.id, where))])

    def _on_published(self, header: frames.Published, body: bytes, attachments: tuple[bytes, ...]) -> None:
        self._untold += 1
        if self._untold >= FACTS_PER_RECEIPT:
            self._send([encode_header(frames.Taken(self._untold))])
            self._untold = 0
        self._on_fact(frames.fact(header, body, attachments))


def _gone(address: Address, why: str | None) -> SmcpError:
    if why is None:
        return Undeliverable(f"nobody owns the address {address} any more", details={"executed": "no"})
    return ActorLost(f"{address} is down: {why}", details={"executed": "no"})


def _failure(error: SmcpError) -> bytes:
    failure = to_failure(error)
    try:
        return encode(failure)[0]
    except (TypeError, NotImplementedError, ValueError, OverflowError):
        # Something in its details has no msgpack form; the error itself must still arrive.
        logger.warning("the details of a %s cannot cross the bus", failure.kind)
        return encode(msgspec.structs.replace(failure, details={}, extra={}))[0]


def _error(body: bytes) -> SmcpError:
    try:
        return from_failure(decode(Failure, body))
    except (msgspec.DecodeError, TypeError, ValueError):
        return BusError("the peer sent a failure nobody can read", code="malformed_failure")
