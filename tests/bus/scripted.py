"""A receiver that does what a test tells it: pause, answer, fail, hang. One message at a time, like an actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from smcp_runtime.bus import Answer, Bus, Mailbox, Verdict, Whereabouts
from smcp_runtime.bus.context import Context, current
from smcp_runtime.wire.codec import decode_message, encode
from smcp_runtime.wire.envelope import Address, Envelope
from smcp_runtime.wire.errors import SmcpError, from_failure, to_failure
from smcp_runtime.wire.message import Message

from .vocabulary import BusEcho, BusEchoed, BusFetch, BusFetched, BusUrgent

Handler = Callable[[Any], Awaitable[Any]]


async def _echo(message: BusEcho | BusUrgent) -> BusEchoed:
    return BusEchoed(message.text)


async def _fetch(message: BusFetch) -> BusFetched:
    return BusFetched("as it was", message.chunk)


class Scripted:
    """Attached to a bus under one address.

    Attributes:
        on: What to do for a message type; echoes by default, and nothing for tells and facts.
        seen: Messages whose handler began, in order.
        envelopes: The same as they arrived.
        interrupted: Messages whose handler was cancelled.
    """

    def __init__(self, bus: Bus, address: str, *, capacity: int = 1024, waiting: int = 4096) -> None:
        self.address = Address(address)
        self.mailbox = Mailbox(capacity, waiting, on_admit=self._admitted)
        self.on: dict[type[Message], Handler] = {BusEcho: _echo, BusUrgent: _echo, BusFetch: _fetch}
        self.seen: list[Message] = []
        self.envelopes: list[Envelope] = []
        self.interrupted: list[Message] = []
        self._bus = bus
        self._paused = False
        self._wake = anyio.Event()
        self._running: dict[int, anyio.CancelScope] = {}

    def pause(self) -> None:
        """Takes nothing more out of its mailbox."""
        self._paused = True

    def resume(self) -> None:
        """Works again."""
        self._paused = False
        self._wake.set()

    @property
    def texts(self) -> list[str]:
        """Texts of the messages seen."""
        return [getattr(message, "text", "") for message in self.seen]

    # -- receiver -------------------------------------------------------------------------

    def deliver(self, envelope: Envelope) -> Verdict:
        verdict = self.mailbox.offer(envelope)
        self._wake.set()
        return verdict

    def cancel(self, envelope_id: int) -> Whereabouts | None:
        scope = self._running.get(envelope_id)
        if scope is not None:
            scope.cancel()
            return "running"
        return self.mailbox.withdraw(envelope_id)

    def is_serial(self, subject: str) -> bool:
        return True

    def _admitted(self, envelope: Envelope) -> None:
        if envelope.kind == "tell":
            self._bus.settle(envelope.id, None)

    # -- work -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            envelope = None if self._paused else self.mailbox.take()
            if envelope is None:
                self._wake = anyio.Event()
                await self._wake.wait()
            else:
                await self._serve(envelope)

    async def _serve(self, envelope: Envelope) -> None:
        message = decode_message(envelope.subject, envelope.body, envelope.attachments)
        self.seen.append(message)
        self.envelopes.append(envelope)
        token = current.set(Context(self.address, (*envelope.chain, self.address), envelope.deadline, envelope.trace))
        try:
            with anyio.CancelScope() as scope:
                self._running[envelope.id] = scope
                handler = self.on.get(type(message))
                reply = await handler(message) if handler is not None else None
                if envelope.kind == "ask":
                    self._bus.settle(envelope.id, Answer(*encode(reply)))
            if scope.cancelled_caught:
                self.interrupted.append(message)
        except Exception as error:
            self._bus.settle(envelope.id, error if isinstance(error, SmcpError) else from_failure(to_failure(error)))
        finally:
            self._running.pop(envelope.id, None)
            current.reset(token)
