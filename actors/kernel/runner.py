"""The runner: one life of one actor, from `started` to the last answer.

It is the actor's receiver on the bus. Serial messages pass through the mailbox and one
worker; concurrent ones start at once in the actor's task group while their limit allows.
When a life ends, however it ends, every message is answered: what was queued as not
executed, what was in work as unknown.
"""

from __future__ import annotations

import logging
import traceback
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import anyio
import msgspec

from ...bus import Answer, Bus, Mailbox, Verdict
from ...bus.context import Context, current
from ...bus.mailbox import Whereabouts
from ...bus.measure import Outcome
from ...bus.slot import FutureSlot, Slot, slot_type
from ...wire import tracing
from ...wire.codec import decode, encode
from ...wire.envelope import Address, Envelope
from ...wire.errors import ActorLost, BusError, SmcpError, Undeliverable, from_failure, to_failure
from ...wire.message import Fact, Message
from .actor import Actor, Tasks
from .declare import HandlerSpec, handler_table
from .pool import TaskPool

logger = logging.getLogger(__name__)


class Gate:
    """Bound of one concurrent handler: how many run, and who waits for a place."""

    __slots__ = ("backlog", "limit", "running", "spec")

    def __init__(self, spec: HandlerSpec) -> None:
        self.spec = spec
        self.limit = spec.concurrent
        self.running = 0
        self.backlog: OrderedDict[int, Envelope] = OrderedDict()


class Runner:
    """Runs one actor once.

    Args:
        capacity: Messages its mailbox holds; the backlog of each concurrent handler holds as many.
        waiting: Messages that may wait for a place in the mailbox.
    """

    def __init__(self, actor: Actor, bus: Bus, address: Address, *, capacity: int = 1024, waiting: int = 4096) -> None:
        self.actor = actor
        self.address = address
        self.mailbox = Mailbox(capacity, waiting, on_admit=self._admitted)
        self._bus = bus
        self._table = handler_table(type(actor))
        self._gates = {subject: Gate(spec) for subject, spec in self._table.items() if spec.concurrent}
        self._in_work: dict[int, anyio.CancelScope | None] = {}
        self._busy = 0
        self._wake: Slot | None = None
        self._idle: Slot | None = None
        self._new_slot: Callable[[], Slot] = FutureSlot
        self._pool: TaskPool | None = None
        self._work_scope = anyio.CancelScope()
        self._stop_within: float | None = None

    # -- life -----------------------------------------------------------------------

    async def run(self, *, start_timeout: float, on_up: Callable[[], None]) -> None:
        """Lives until `stop`, cancellation or a crash; returns normally only after `stop`.

        Raises:
            TimeoutError: `started` took longer than `start_timeout` seconds.
            Exception: Whatever brought the actor down.
        """
        self._new_slot = slot_type()
        why = "crashed"
        try:
            async with anyio.create_task_group() as group:
                context = Context(address=self.address)
                self._pool = TaskPool(group, context)
                try:
                    self.actor.bind(self._bus, self.address, Tasks(group, self._pool, context))
                    token = current.set(context)
                    with anyio.fail_after(start_timeout):
                        await self.actor.started()
                    self._bus.attach(self.address, self)
                    for subject, spec in self._table.items():
                        if issubclass(spec.message, Fact):
                            self._bus.subscribe(subject, self.address, self)
                    on_up()
                    with self._work_scope:
                        await self._work()
                        await self._handlers_done()
                    why = "stopped"
                    await self._say_goodbye()
                    current.reset(token)
                except BaseException:
                    # Before the group has ended, for nobody cancels what begins in one that has; and whoever hears
                    # that an answer is lost may ask again at once.
                    self._leave(None if why == "stopped" else "restarting")
                    raise
                group.cancel_scope.cancel()
        finally:
            self._leave(None if why == "stopped" else "restarting")
            self._settle_rest()

    def stop(self, within: float) -> None:
        """Asks for a graceful end: what is queued is answered now, handlers in work get `within` seconds (F-97)."""
        if self._stop_within is not None:
            return
        self._stop_within = within
        self._leave("stopping")
        self._work_scope.deadline = anyio.current_time() + within
        self._rouse()

    @property
    def queued(self) -> int:
        """Messages that wait: in the mailbox, for a place in it, or for one of a concurrent handler."""
        return len(self.mailbox) + sum(len(gate.backlog) for gate in self._gates.values())

    @property
    def high_water(self) -> int:
        """The most its mailbox has held."""
        return self.mailbox.high_water

    @property
    def capacity(self) -> int:
        """Messages its mailbox holds."""
        return self.mailbox.capacity

    @property
    def busy(self) -> int:
        """Handlers at work."""
        return self._busy

    # -- receiver ---------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> Verdict:
        gate = self._gates.get(envelope.subject)
        if gate is not None:
            return self._deliver_concurrent(gate, envelope)
        if envelope.subject not in self._table:
            text = f"{self.address} does not understand {envelope.subject}"
            self._bus.settle(envelope.id, Undeliverable(text, code="not_understood"))
            return Verdict.ADMITTED
        verdict = self.mailbox.offer(envelope)
        if verdict is not Verdict.REFUSED:
            if not envelope.id:
                self._bus.meter.delivered(envelope)
            self._rouse()
        return verdict

    def cancel(self, envelope_id: int) -> Whereabouts | None:
        scope = self._in_work.get(envelope_id)
        if scope is not None:
            scope.cancel()
            return "running"
        if envelope_id in self._in_work:
            return "running"
        for gate in self._gates.values():
            if gate.backlog.pop(envelope_id, None) is not None:
                return "queued"
        return self.mailbox.withdraw(envelope_id)

    def is_serial(self, subject: str) -> bool:
        return subject not in self._gates

    # -- work -------------------------------------------------------------------------

    def _deliver_concurrent(self, gate: Gate, envelope: Envelope) -> Verdict:
        if gate.running < gate.limit:
            assert self._pool is not None
            gate.running += 1
            self._pool.run_soon(self._serve_concurrent, gate, envelope)
        elif len(gate.backlog) < self.mailbox.capacity:
            # A tell without an id still needs a key of its own in the backlog.
            gate.backlog[envelope.id or -id(envelope)] = envelope
        else:
            return Verdict.REFUSED
        if not envelope.id:
            self._bus.meter.delivered(envelope)
        return Verdict.ADMITTED

    async def _serve_concurrent(self, gate: Gate, envelope: Envelope) -> None:
        try:
            next_one: Envelope | None = envelope
            while next_one is not None:
                await self._serve(gate.spec, next_one, chain=next_one.chain)
                next_one = gate.backlog.popitem(last=False)[1] if gate.backlog else None
        finally:
            gate.running -= 1

    async def _work(self) -> None:
        while self._stop_within is None:
            envelope = self.mailbox.take()
            if envelope is None:
                self._wake = self._new_slot()
                await self._wake.wait()
                self._wake = None
                continue
            await self._serve(self._table[envelope.subject], envelope, chain=(*envelope.chain, self.address))

    async def _serve(  # noqa: PLR0912 - every way a message can end, in one place and without a call more than needed
        self, spec: HandlerSpec, envelope: Envelope, chain: tuple[Address, ...]
    ) -> None:
        """Runs one handler and settles its message. An exception nobody waits for ends the actor (F-95)."""
        began = self._bus.clock()
        trace, span = envelope.trace, None
        if trace:
            span = tracing.begin(envelope.subject, "internal", trace, smcp__actor=self.address)
            trace = span.traceparent
        token = current.set(Context(self.address, chain, envelope.deadline, trace))
        self._busy += 1
        end: Answer | Outcome = "cancelled"
        try:
            message: Message = decode(spec.message, envelope.body, envelope.attachments)
            if not spec.waits:
                self._in_work[envelope.id] = None
                reply = getattr(self.actor, spec.name)(message)
            elif envelope.kind == "ask":
                reply = await self._interruptible(spec, envelope.id, message)
            else:
                reply = await getattr(self.actor, spec.name)(message)
            if envelope.kind != "ask":
                end = "ok"
            elif self._bus.reply(envelope.id, answer := Answer(*encode(reply))):
                end = answer
        except Exception as error:
            end = "failed"
            if envelope.kind != "ask":
                _log_crash(self.address, envelope.subject, error)
                raise
            if not isinstance(error, SmcpError):
                _log_crash(self.address, envelope.subject, error)
            self._bus.settle(envelope.id, _failure_of(error))
        finally:
            # A life that ends under a handler settles it as unknown: it may have done its work already.
            if end == "cancelled":
                text = f"{self.address} went down while it worked on {envelope.subject}"
                self._bus.settle(envelope.id, ActorLost(text, details={"executed": "unknown"}))
            self._in_work.pop(envelope.id, None)
            current.reset(token)
            self._busy -= 1
            if self._idle is not None and not self._busy:
                self._idle.set(None)
            if span is not None:
                span.end(str(end) if end in ("failed", "cancelled") else "")
            self._bus.meter.handled(self.address, envelope, began, self._bus.clock(), end)
            if envelope.id:
                # A big body should not stay until the asker has its turn; that of a fact is shared by its observers.
                envelope.body, envelope.attachments = b"", ()

    async def _interruptible(self, spec: HandlerSpec, envelope_id: int, message: Any) -> Any:
        with anyio.CancelScope() as scope:
            self._in_work[envelope_id] = scope
            return await getattr(self.actor, spec.name)(message)

    # -- end --------------------------------------------------------------------------

    async def _handlers_done(self) -> None:
        while self._busy:
            self._idle = self._new_slot()
            await self._idle.wait()

    async def _say_goodbye(self) -> None:
        with anyio.move_on_after(self._stop_within or 0.0) as limit:
            await self.actor.stopping()
        if limit.cancelled_caught:
            logger.warning("%s did not finish stopping within %g s", self.address, self._stop_within)

    def _leave(self, why: str | None) -> None:
        for subject, spec in self._table.items():
            if issubclass(spec.message, Fact):
                self._bus.unsubscribe(subject, self.address)
        self._bus.detach(self.address, why)
        left = self.mailbox.empty()
        for gate in self._gates.values():
            left.extend(gate.backlog.values())
            gate.backlog.clear()
        for envelope in left:
            if envelope.kind == "tell":
                # Its sender may know already that a mailbox took it, and then hears nothing more.
                self._bus.dead_letters.add(envelope, why or "stopped")
                self._bus.meter.dead_letter(envelope, why or "stopped")
            text = f"{self.address} went down before it worked on {envelope.subject}"
            self._bus.settle(envelope.id, ActorLost(text, details={"executed": "no"}))

    def _settle_rest(self) -> None:
        for envelope_id in list(self._in_work):
            text = f"{self.address} went down while it worked"
            self._bus.settle(envelope_id, ActorLost(text, details={"executed": "unknown"}))
        self._in_work.clear()

    def _rouse(self) -> None:
        if self._wake is not None:
            self._wake.set(None)

    def _admitted(self, envelope: Envelope) -> None:
        if envelope.kind == "tell":
            self._bus.settle(envelope.id, None)


def _failure_of(error: Exception) -> SmcpError:
    """What the asker is told of a handler that raised.

    A handler may pass on what became of an ask of its own; that this one was not executed says nothing of the handler,
    which did run.
    """
    if isinstance(error, BusError) and error.details.get("executed") == "no":
        failure = to_failure(error)
        return from_failure(msgspec.structs.replace(failure, details={**failure.details, "executed": "unknown"}))
    return error if isinstance(error, SmcpError) else from_failure(to_failure(error))


def _log_crash(address: Address, subject: str, error: BaseException) -> None:
    """Logs where a handler failed, not what it said: the text of a foreign exception may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown place"
    logger.error("%s failed on %s: %s at %s", address, subject, type(error).__name__, place)
