"""An observer of facts that is not an actor: a test, a status page, an embedding application."""

from __future__ import annotations

import itertools
from types import TracebackType

from ..wire.codec import decode_message
from ..wire.envelope import Address, Envelope
from ..wire.message import Fact
from .bus import Bus
from .mailbox import Mailbox, Verdict, Whereabouts
from .slot import Slot, slot_type

_numbers = itertools.count(1)


class Observer:
    """Async iterator over facts of the given types, from the moment it was made until `close` or the end of the bus.

    A slow observer never blocks a publisher: facts with equal keys replace each other, others beyond
    `capacity` are dropped and counted by the meter.
    """

    def __init__(self, bus: Bus, *types: type[Fact], capacity: int = 1024) -> None:
        self._bus = bus
        self._subjects = [kind.subject() for kind in types]
        self._address = Address(f"observer/{next(_numbers)}")
        self._mailbox = Mailbox(capacity, waiting=0)
        self._wake: Slot | None = None
        self._closed = False
        for subject in self._subjects:
            bus.subscribe(subject, self._address, self)
        bus.at_close(self.close)

    def __enter__(self) -> Observer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Observer:
        return self

    async def __anext__(self) -> Fact:
        while (envelope := self._mailbox.take()) is None:
            if self._closed:
                raise StopAsyncIteration
            self._wake = slot_type()()
            await self._wake.wait()
            self._wake = None
        fact = decode_message(envelope.subject, envelope.body, envelope.attachments)
        assert isinstance(fact, Fact)
        return fact

    def close(self) -> None:
        """Ends the subscription; what is already queued can still be read."""
        self._closed = True
        self._bus.not_at_close(self.close)
        for subject in self._subjects:
            self._bus.unsubscribe(subject, self._address)
        if self._wake is not None:
            self._wake.set(None)

    def deliver(self, envelope: Envelope) -> Verdict:
        verdict = self._mailbox.offer(envelope)
        if self._wake is not None:
            self._wake.set(None)
        return verdict

    def cancel(self, envelope_id: int) -> Whereabouts | None:
        return None

    def is_serial(self, subject: str) -> bool:
        return False
