"""The bus: carries envelopes between addresses and sees to it that every ask ends.

One object per process. Local addresses are receivers attached to it; addresses in other
processes are reached through its gateway, if it has one. Whatever happens, an ask ends
with a reply, the handler's failure, its deadline, or a bus error that says whether the
message can have been executed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..wire.codec import decode, encode
from ..wire.envelope import Address, Envelope
from ..wire.errors import ActorLost, AskCycle, BusClosed, DeadlineExceeded, Overloaded, SmcpError, Undeliverable
from ..wire.message import Ask, Fact, Tell, reply_type
from .context import Context, current
from .cycles import WaitGraph
from .dead_letter import DeadLetters
from .deadlines import Deadlines
from .mailbox import Verdict, Whereabouts
from .measure import NULL_METER, Meter
from .pending import Answer, Pending, Settled
from .ports import Gateway, Receiver
from .slot import FutureSlot, Slot, loop_clock, slot_type

R = TypeVar("R")

_reply_type = functools.cache(reply_type)

DEFAULT_TIMEOUT = 30.0
"""Seconds an ask or tell may take when its caller names no limit and works under none."""

OVERTIME = 0.5
"""Seconds beyond its deadline for which a message that left for another process waits to hear how far it came."""

_CLOSED = "the bus was closed while the message was in flight"


class Bus:
    """A process's end of the bus. Use as an async context manager; closing it ends every pending ask.

    Args:
        meter: Measurement hooks.
        clock: Monotonic seconds; the event loop's by default.
    """

    def __init__(self, meter: Meter | None = None, clock: Callable[[], float] | None = None) -> None:
        self.meter: Meter = meter or NULL_METER
        self.clock: Callable[[], float] = clock or anyio.current_time
        self.gateway: Gateway | None = None
        self.closed = False
        self._receivers: dict[Address, Receiver] = {}
        self._finishing: dict[Address, Receiver] = {}
        self._down: dict[Address, str] = {}
        self._observers: dict[str, dict[Address, Receiver]] = {}
        self._pending: dict[int, Pending] = {}
        self._waits = WaitGraph()
        self._ids = itertools.count(1)
        self._closers: dict[Callable[[], None], None] = {}
        self._own_clock = clock is None
        self.dead_letters = DeadLetters(self.now)
        self._deadlines = Deadlines(self._pending, self._expire, self.now)
        self._tasks: TaskGroup | None = None
        self._new_slot: Callable[[], Slot] = FutureSlot

    async def __aenter__(self) -> Bus:
        self._new_slot = slot_type()
        if self._own_clock:
            self.clock = loop_clock()
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._deadlines.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.close()
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, trace)

    def close(self) -> None:
        """Accepts nothing more, ends every pending message with `BusClosed`, and tells whoever asked `at_close`."""
        self.closed = True
        for entry in list(self._pending):
            self.settle(entry, BusClosed(_CLOSED, details={"executed": "unknown"}))
        for closer in tuple(self._closers):
            closer()
        self._closers.clear()

    def now(self) -> float:
        """Seconds on the clock of this bus."""
        return self.clock()

    def at_close(self, closer: Callable[[], None]) -> None:
        """Has `closer` called when the bus closes."""
        self._closers[closer] = None

    def not_at_close(self, closer: Callable[[], None]) -> None:
        """Takes an `at_close` back; unknown ones are fine."""
        self._closers.pop(closer, None)

    # -- sending ------------------------------------------------------------------

    async def ask(self, target: Address, message: Ask[R], *, timeout: float | None = None) -> R:
        """Sends an ask and waits for its typed reply.

        Args:
            timeout: Seconds; never later than the deadline of the message this handler itself works on.
        Raises:
            Undeliverable, Overloaded, DeadlineExceeded, ActorLost, AskCycle, BusClosed: See `wire.errors`.
            SmcpError: Whatever the handler raised, as the class of its category.
        """
        context = current.get()
        envelope = self._envelope("ask", target, message, context, timeout)
        settled = await self._send(envelope)
        assert isinstance(settled, Answer)
        reply: R = decode(_reply_type(type(message)), settled.body, settled.attachments)
        return reply

    async def tell(self, target: Address, message: Tell, *, timeout: float | None = None) -> None:
        """Sends a tell and waits until a mailbox has accepted it.

        Raises:
            Undeliverable, Overloaded, BusClosed: It was refused; it will not be executed.
            DeadlineExceeded: It left for another process and no receipt came back.
        """
        await self._send(self._envelope("tell", target, message, current.get(), timeout))

    def tell_nowait(self, target: Address, message: Tell) -> bool:
        """Sends a tell without a receipt; `False` when it was refused on the spot."""
        envelope = self._envelope("tell", target, message, current.get(), None)
        envelope.id = 0
        envelope.deadline = math.inf
        return not self.closed and self.dispatch(envelope)

    def publish(self, fact: Fact) -> None:
        """Publishes a fact to whoever observes its type, here and in other processes; never waits."""
        subject = type(fact).subject()
        abroad = self.gateway is not None and self.gateway.wants(subject)
        if self.closed or not (abroad or subject in self._observers):
            return
        context = current.get()
        body, attachments = encode(fact)
        envelope = Envelope(
            "fact", subject, Address(""), context.address, body=body, attachments=attachments,
            trace=context.trace, key=fact.coalesce_key() or "",
        )  # fmt: skip
        self.spread(envelope)
        if abroad:
            assert self.gateway is not None
            self.gateway.publish(envelope)

    # -- end points ---------------------------------------------------------------

    def attach(self, address: Address, receiver: Receiver) -> None:
        """Makes `receiver` the owner of an address.

        Raises:
            ValueError: The address is taken.
        """
        if address in self._receivers:
            raise ValueError(f"address {address} is taken")
        self._receivers[address] = receiver
        self._down.pop(address, None)
        if self.gateway is not None:
            self.gateway.announce(address)

    def detach(self, address: Address, why: str | None = None) -> None:
        """Takes an address down. With `why` it will be back: asks fail as `ActorLost`, else as `Undeliverable`."""
        receiver = self._receivers.pop(address, None)
        self._finishing.pop(address, None)
        if receiver is not None:
            # What it still works on must hear when nobody waits any more; it is detached again when it has ended.
            self._finishing[address] = receiver
        if why is None:
            self._down.pop(address, None)
        else:
            self._down[address] = why
        if self.gateway is not None:
            self.gateway.withdraw(address, why)

    def subscribe(self, subject: str, address: Address, receiver: Receiver) -> None:
        """Delivers facts of this subject to a receiver, under the name `address`."""
        first = subject not in self._observers
        self._observers.setdefault(subject, {})[address] = receiver
        if first and self.gateway is not None:
            self.gateway.observe(subject)

    def unsubscribe(self, subject: str, address: Address) -> None:
        """Ends a subscription; unknown ones are fine."""
        observers = self._observers.get(subject, {})
        observers.pop(address, None)
        if not observers and self._observers.pop(subject, None) is not None and self.gateway is not None:
            self.gateway.unobserve(subject)

    def addresses(self) -> tuple[Address, ...]:
        """Local addresses that are up."""
        return tuple(self._receivers)

    def reaches(self, address: Address) -> bool:
        """Whether somebody, here or in another process, owns this address now as far as this bus knows."""
        return address in self._receivers or (self.gateway is not None and self.gateway.reaches(address))

    def subjects(self) -> tuple[str, ...]:
        """Subjects somebody here observes."""
        return tuple(self._observers)

    # -- for receivers and gateways -------------------------------------------------

    def dispatch(self, envelope: Envelope) -> bool:
        """Hands a directed envelope to the owner of its target; `False` when it was refused, which also settles it."""
        receiver = self._receivers.get(envelope.target)
        if receiver is None:
            return self._carry(envelope)
        if envelope.chain and receiver.is_serial(envelope.subject):
            circle = self._waits.closes(envelope)
            if circle is not None:
                text = f"actors would wait for each other: {' → '.join(circle)}"
                self.settle(envelope.id, AskCycle(text, details={"executed": "no"}))
                return False
            self._note_wait(envelope)
        envelope.enqueued_at = self.clock()
        verdict = receiver.deliver(envelope)
        if verdict is Verdict.REFUSED:
            self._overloaded(envelope, f"the mailbox of {envelope.target} is full")
            return False
        if envelope.kind == "tell" and verdict is Verdict.ADMITTED:
            self.settle(envelope.id, None)
        return True

    def spread(self, envelope: Envelope) -> None:
        """Hands a fact to the local observers of its subject."""
        envelope.enqueued_at = self.clock()
        for address, receiver in tuple(self._observers.get(envelope.subject, {}).items()):
            verdict = receiver.deliver(envelope)
            if verdict is Verdict.REFUSED:
                self.meter.fact_dropped(envelope, address)
            elif verdict is Verdict.COALESCED:
                self.meter.fact_coalesced(envelope, address)

    def adopt(self, envelope: Envelope, resolve: Callable[[Settled], None]) -> int:
        """Takes over an envelope from elsewhere: gives it a local id and a deadline, calls `resolve` once."""
        envelope.id = next(self._ids)
        self._pending[envelope.id] = Pending(envelope, resolve, self.clock())
        self._deadlines.add(envelope.id, envelope.deadline)
        if self.closed:
            self.settle(envelope.id, BusClosed("the bus is closed"))
        return envelope.id

    def settle(self, envelope_id: int, settled: Settled) -> None:
        """Ends a pending message; settled and unknown ids are fine (late answers are dropped)."""
        pending = self._pending.pop(envelope_id, None)
        if pending is None:
            return
        if pending.edge is not None:
            self._waits.remove(*pending.edge)
        if settled is None:
            # The deadline of a tell bounds its acceptance, not the work of its handler.
            pending.envelope.deadline = math.inf
        if self.meter is not NULL_METER:
            self.meter.answered(pending.envelope, self.clock() - pending.started, settled)
        if isinstance(settled, Answer):
            # The handler is done with it; a big body should not stay until the asker has its turn.
            pending.envelope.body, pending.envelope.attachments = b"", ()
        pending.resolve(settled)

    def reply(self, envelope_id: int, answer: Answer) -> bool:
        """Ends an ask whose handler ran here, and whose runner measures it; `False` when nobody waits any more."""
        pending = self._pending.pop(envelope_id, None)
        if pending is None:
            return False
        if pending.edge is not None:
            self._waits.remove(*pending.edge)
        pending.resolve(answer)
        return True

    def abandon(self, envelope_id: int) -> Whereabouts | None:
        """Nobody waits any more: withdraws the message or interrupts its handler."""
        pending = self._pending.pop(envelope_id, None)
        if pending is None:
            return None
        if pending.edge is not None:
            self._waits.remove(*pending.edge)
        self.meter.abandoned(pending.envelope, self.clock() - pending.started)
        return self._interrupt(pending.envelope)

    def note_down(self, address: Address, why: str | None) -> None:
        """A gateway lost an address. With `why` asks fail as `ActorLost` until it is back, else as `Undeliverable`."""
        if why is None:
            self._down.pop(address, None)
        else:
            self._down[address] = why

    def line(self, send: Callable[[list[bytes]], bool]) -> Callable[[list[bytes]], bool]:
        """What a link to another process sends through; a decorated bus (`faults`) comes in between."""
        return send

    # -- inside ---------------------------------------------------------------------

    def _envelope(
        self, kind: Any, target: Address, message: Ask[Any] | Tell, context: Context, timeout: float | None
    ) -> Envelope:
        body, attachments = encode(message)
        if timeout is None:
            timeout = DEFAULT_TIMEOUT if context.deadline == math.inf else math.inf
        # Nobody waits for what the handler of a tell does.
        chain = context.chain if kind == "ask" else ()
        return Envelope(
            kind, type(message).subject(), target, context.address, next(self._ids),
            min(self.clock() + timeout, context.deadline), body, attachments, message.lane, chain, context.trace,
        )  # fmt: skip

    async def _send(self, envelope: Envelope) -> Settled:
        if self.closed:
            raise BusClosed("the bus is closed", details={"executed": "no"})
        slot = self._new_slot()
        self._pending[envelope.id] = Pending(envelope, slot.set, self.clock())
        self._deadlines.add(envelope.id, envelope.deadline)
        try:
            self.dispatch(envelope)
            settled: Settled = await slot.wait()
        except BaseException:
            self.abandon(envelope.id)
            raise
        if isinstance(settled, SmcpError):
            # A sender that tries again at once must not keep the receiver from its turn.
            await checkpoint()
            raise settled
        return settled

    def _carry(self, envelope: Envelope) -> bool:
        if envelope.chain:
            envelope.chain = self._waits.behind(envelope.chain)
        verdict = None if self.gateway is None else self.gateway.carry(envelope)
        if verdict is None:
            self._nobody(envelope)
        elif verdict is Verdict.REFUSED:
            self._overloaded(envelope, f"the line to the node of {envelope.target} is full")
        return verdict in (Verdict.ADMITTED, Verdict.WAITING)

    def _note_wait(self, envelope: Envelope) -> None:
        pending = self._pending.get(envelope.id)
        if pending is not None and envelope.kind == "ask":
            pending.edge = (envelope.chain[-1], envelope.target)
            self._waits.add(*pending.edge)

    def _overloaded(self, envelope: Envelope, text: str) -> None:
        self.meter.refused(envelope, "overloaded")
        self.settle(envelope.id, Overloaded(text, details={"executed": "no"}))

    def _nobody(self, envelope: Envelope) -> None:
        why = self._down.get(envelope.target)
        self.dead_letters.add(envelope, why or "no such address")
        self.meter.dead_letter(envelope, why or "no such address")
        if why is None:
            error: SmcpError = Undeliverable(f"nobody owns the address {envelope.target}", details={"executed": "no"})
        else:
            error = ActorLost(f"{envelope.target} is down: {why}", details={"executed": "no", "down": why})
        self.settle(envelope.id, error)

    def _interrupt(self, envelope: Envelope) -> Whereabouts | None:
        receiver = self._receivers.get(envelope.target) or self._finishing.get(envelope.target)
        if receiver is not None:
            return receiver.cancel(envelope.id)
        return self.gateway.cancel(envelope) if self.gateway is not None else None

    def _expire(self, envelope_id: int) -> None:
        pending = self._pending.get(envelope_id)
        if pending is None:
            return
        envelope = pending.envelope
        here = envelope.target in self._receivers or envelope.target in self._finishing
        gateway = None if here else self.gateway
        if gateway is not None and not pending.overtime and gateway.has_left(envelope):
            pending.overtime = True
            self._deadlines.add(envelope_id, self.clock() + OVERTIME)
            return
        where = self._interrupt(envelope)
        if where == "waiting" or (where == "queued" and envelope.kind == "tell"):
            self._overloaded(envelope, f"the mailbox of {envelope.target} stayed full")
            return
        executed = "no" if where == "queued" else "unknown"
        text = f"{envelope.target} did not answer {envelope.subject} in time"
        self.settle(envelope_id, DeadlineExceeded(text, details={"executed": executed}))
