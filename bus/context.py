"""What a running handler knows of the message it works on, without naming it in every call.

The bus reads it when the handler asks on: who is asking, which serial actors wait for
the outcome, until when, and under which trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from ..wire.envelope import Address


class Context(msgspec.Struct, frozen=True):
    """Frame of one message in work.

    Attributes:
        address: The actor at work, `""` outside any actor.
        chain: Serial actors that wait for this, outermost first; ends with `address` in a serial handler.
        deadline: Bus-clock second after which nobody waits for the outcome.
        trace: W3C `traceparent`, or `""`.
    """

    address: Address = Address("")
    chain: tuple[Address, ...] = ()
    deadline: float = math.inf
    trace: str = ""


OUTSIDE = Context()

current: ContextVar[Context] = ContextVar("smcp_bus_context", default=OUTSIDE)


@contextmanager
def under(trace: str) -> Iterator[None]:
    """What is asked inside the block belongs to this trace."""
    token = current.set(msgspec.structs.replace(current.get(), trace=trace))
    try:
        yield
    finally:
        current.reset(token)
