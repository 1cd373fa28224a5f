"""The bus: carries envelopes between addresses and sees to it that every ask ends.

One object per process. Local addresses are receivers attached to it; addresses in other
processes are reached through its gateway, if it has one. Whatever happens, an ask ends
with a reply, the handler's failure, its deadline, or a bus error that says whether the
message can have been executed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from ..wire.codec import decode, encode
from ..wire.envelope import Address, Envelope
from ..wire.errors import ActorLost, AskCycle, BusClosed, DeadlineExceeded, Overloaded, SmcpError, Undeliverable
from ..wire.message import Ask, Fact, Tell, reply_type
from .context import Context, current
from .cycles import WaitGraph
from .dead_letter import DeadLetters
from .deadlines import Deadlines
from .mailbox import Verdict, Whereabouts
from .measure import Meter, NullMeter
from .ports import Gateway, Receiver
from .slot import FutureSlot, Slot, slot_type

R = TypeVar("R")

DEFAULT_TIMEOUT = 30.0
"""Seconds an ask or tell may take when its caller names no limit and works under none."""


class Answer:
    """The encoded reply of a handler."""

    __slots__ = ("attachments", "body")

    def __init__(self, body: bytes, attachments: tuple[bytes, ...]) -> None:
        self.body = body
        self.attachments = attachments


Settled = Answer | SmcpError | None
"""How a pending message ended: replied, failed, or (a tell) accepted."""


class Pending:
    """A message somebody waits for."""

    __slots__ = ("envelope", "resolve", "started")

    def __init__(self, envelope: Envelope, resolve: Callable[[Settled], None], started: float) -> None:
        self.envelope = envelope
        self.resolve = resolve
        self.started = started


class Bus:
    """A process's end of the bus. Use as an async context manager; closing it ends every pending ask.

    Args:
        meter: Measurement hooks.
        clock: Monotonic seconds; the event loop's by default.
    """

    def __init__(self, meter: Meter | None = None, clock: Callable[[], float] = anyio.current_time) -> None:
        self.meter: Meter = meter or NullMeter()
        self.clock = clock
        self.dead_letters = DeadLetters(clock)
        self.gateway: Gateway | None = None
        self.closed = False
        self._receivers: dict[Address, Receiver] = {}
        self._down: dict[Address, str] = {}
        self._observers: dict[str, dict[Address, Receiver]] = {}
        self._pending: dict[int, Pending] = {}
        self._waits = WaitGraph()
        self._ids = itertools.count(1)
        self._deadlines = Deadlines(self._expire, clock)
        self._tasks: TaskGroup | None = None
        self._new_slot: Callable[[], Slot] = FutureSlot

    async def __aenter__(self) -> Bus:
        self._new_slot = slot_type()
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
        """Accepts nothing more and ends every pending message with `BusClosed`."""
        self.closed = True
        for entry in list(self._pending):
            self.settle(entry, BusClosed("the bus was closed while the message was in flight"))

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
        settled = await self._send(envelope, context)
        assert isinstance(settled, Answer)
        reply: R = decode(reply_type(type(message)), settled.body, settled.attachments)
        return reply

    async def tell(self, target: Address, message: Tell, *, timeout: float | None = None) -> None:
        """Sends a tell and waits until a mailbox has accepted it.

        Raises:
            Undeliverable, Overloaded, BusClosed: It was refused; it will not be executed.
            DeadlineExceeded: It left for another process and no receipt came back.
        """
        context = current.get()
        await self._send(self._envelope("tell", target, message, context, timeout), context)

    def tell_nowait(self, target: Address, message: Tell) -> bool:
        """Sends a tell without a receipt; `False` when it was refused on the spot."""
        context = current.get()
        envelope = self._envelope("tell", target, message, context, None)
        envelope.id = 0
        return not self.closed and self.dispatch(envelope)

    def publish(self, fact: Fact) -> None:
        """Publishes a fact to whoever observes its type, here and in other processes; never waits."""
        subject = type(fact).subject()
        observers = self._observers.get(subject)
        if self.closed or not (observers or self.gateway):
            return
        context = current.get()
        body, attachments = encode(fact)
        envelope = Envelope(
            "fact", subject, Address(""), context.address, body=body, attachments=attachments,
            trace=context.trace, key=fact.coalesce_key() or "",
        )  # fmt: skip
        self.spread(envelope)
        if self.gateway is not None:
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
        self._receivers.pop(address, None)
        if why is None:
            self._down.pop(address, None)
        else:
            self._down[address] = why
        if self.gateway is not None:
            self.gateway.withdraw(address, why or "stopped")

    def subscribe(self, subject: str, address: Address, receiver: Receiver) -> None:
        """Delivers facts of this subject to a receiver, under the name `address`."""
        self._observers.setdefault(subject, {})[address] = receiver
        if self.gateway is not None:
            self.gateway.observe(subject)

    def unsubscribe(self, subject: str, address: Address) -> None:
        """Ends a subscription; unknown ones are fine."""
        observers = self._observers.get(subject, {})
        observers.pop(address, None)
        if not observers:
            self._observers.pop(subject, None)

    def addresses(self) -> tuple[Address, ...]:
        """Local addresses that are up."""
        return tuple(self._receivers)

    def subjects(self) -> tuple[str, ...]:
        """Subjects somebody here observes."""
        return tuple(self._observers)

    # -- for receivers and gateways -------------------------------------------------

    def dispatch(self, envelope: Envelope) -> bool:
        """Hands a directed envelope to the owner of its target; `False` when it was refused, which also settles it."""
        receiver = self._receivers.get(envelope.target)
        if receiver is None:
            if self.gateway is not None and self.gateway.carry(envelope):
                return True
            self._nobody(envelope)
            return False
        if envelope.chain and envelope.target in envelope.chain and receiver.is_serial(envelope.subject):
            way = " → ".join((*envelope.chain, envelope.target))
            self.settle(envelope.id, AskCycle(f"actors would wait for each other: {way}"))
            return False
        envelope.enqueued_at = self.clock()
        verdict = receiver.deliver(envelope)
        if verdict is Verdict.REFUSED:
            self.meter.refused(envelope, "overloaded")
            self.settle(
                envelope.id, Overloaded(f"the mailbox of {envelope.target} is full", details={"executed": "no"})
            )
            return False
        if envelope.kind == "tell" and verdict is Verdict.ADMITTED:
            self.settle(envelope.id, None)
        return True

    def spread(self, envelope: Envelope) -> None:
        """Hands a fact to the local observers of its subject."""
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
        self._deadlines.forget(envelope_id)
        outcome = settled.code if isinstance(settled, SmcpError) else "ok"
        self.meter.answered(pending.envelope, self.clock() - pending.started, outcome)
        pending.resolve(settled)

    def abandon(self, envelope_id: int) -> Whereabouts | None:
        """Nobody waits any more: withdraws the message or interrupts its handler."""
        pending = self._pending.pop(envelope_id, None)
        if pending is None:
            return None
        self._deadlines.forget(envelope_id)
        self.meter.answered(pending.envelope, self.clock() - pending.started, "cancelled")
        return self._interrupt(pending.envelope)

    # -- inside ---------------------------------------------------------------------

    def _envelope(
        self, kind: Any, target: Address, message: Ask[Any] | Tell, context: Context, timeout: float | None
    ) -> Envelope:
        body, attachments = encode(message)
        limit = timeout if timeout is not None else (DEFAULT_TIMEOUT if context.deadline == math.inf else math.inf)
        return Envelope(
            kind,
            type(message).subject(),
            target,
            context.address,
            next(self._ids),
            min(self.clock() + limit, context.deadline),
            body,
            attachments,
            message.lane,
            context.chain,
            context.trace,
        )

    async def _send(self, envelope: Envelope, context: Context) -> Settled:
        if self.closed:
            raise BusClosed("the bus is closed")
        slot = self._new_slot()
        self._pending[envelope.id] = Pending(envelope, slot.set, self.clock())
        self._deadlines.add(envelope.id, envelope.deadline)
        waiter = self._note_wait(envelope, context)
        try:
            self.dispatch(envelope)
            settled: Settled = await slot.wait()
        except BaseException:
            self.abandon(envelope.id)
            raise
        finally:
            if waiter is not None:
                self._waits.remove(waiter, envelope.target)
        if isinstance(settled, SmcpError):
            raise settled
        return settled

    def _note_wait(self, envelope: Envelope, context: Context) -> Address | None:
        """Enters a serial handler's ask into the wait graph; refuses the one that would close a circle."""
        if not context.chain or context.chain[-1] != context.address or envelope.kind != "ask":
            return None
        receiver = self._receivers.get(envelope.target)
        if receiver is None or not receiver.is_serial(envelope.subject):
            return None
        way = self._waits.path(envelope.target, context.address)
        if way is not None:
            self.abandon(envelope.id)
            raise AskCycle(f"actors would wait for each other: {' → '.join((context.address, *way))}")
        self._waits.add(context.address, envelope.target)
        return context.address

    def _nobody(self, envelope: Envelope) -> None:
        why = self._down.get(envelope.target)
        self.dead_letters.add(envelope, why or "no such address")
        self.meter.dead_letter(envelope, why or "no such address")
        if why is None:
            error: SmcpError = Undeliverable(f"nobody owns the address {envelope.target}", details={"executed": "no"})
        else:
            error = ActorLost(f"{envelope.target} is down: {why}", details={"executed": "no"})
        self.settle(envelope.id, error)

    def _interrupt(self, envelope: Envelope) -> Whereabouts | None:
        receiver = self._receivers.get(envelope.target)
        if receiver is not None:
            return receiver.cancel(envelope.id)
        return self.gateway.cancel(envelope) if self.gateway is not None else None

    def _expire(self, envelope_id: int) -> None:
        pending = self._pending.get(envelope_id)
        if pending is None:
            return
        envelope = pending.envelope
        where = self._interrupt(envelope)
        if where == "waiting" or (where == "queued" and envelope.kind == "tell"):
            self.meter.refused(envelope, "overloaded")
            text = f"the mailbox of {envelope.target} stayed full"
            self.settle(envelope_id, Overloaded(text, details={"executed": "no"}))
            return
        executed = "no" if where == "queued" else "unknown"
        text = f"{envelope.target} did not answer {envelope.subject} in time"
        self.settle(envelope_id, DeadlineExceeded(text, details={"executed": executed}))
