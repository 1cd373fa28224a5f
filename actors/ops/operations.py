"""What operators can ask of a Computer: its view, its metrics, its dead letters, its calls; and the death of an actor.

One object for the whole life of the Computer. It counts from the first start on, knows the
bus while there is one, and is what the HTTP endpoint, the command line and an embedding
application all look at.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from ...bus import Bus, Tally
from ...bus.tally import Work
from ...wire.diagnostics import Diagnostics
from ...wire.envelope import Address
from ...wire.messages.tools import CallEnded
from ...wire.redaction import Redaction
from ..kernel import Supervisor
from . import health
from .exposition import Exposition
from .ledger import Ledger
from .view import DeadLetterView, NodeView, View, compose, letters_of


class Workers(Protocol):
    """Processes that host actors of this Computer."""

    def nodes(self) -> Iterable[NodeView]:
        """Those that are connected."""
        ...

    def work(self) -> Mapping[str, Mapping[str, Work]]:
        """What their actors did, by address and message type, as far as they were asked."""
        ...

    async def refresh(self) -> None:
        """Asks them, with a bound."""
        ...


class Operations:
    """Reached as `computer.operations`.

    Args:
        diagnostics: What the Computer says of itself.
        vitals: What it knows of itself at once.
        redaction: What keeps its secrets out of sight, asked each time.

    Attributes:
        tally, ledger: The counters.
        url: Where the operator endpoint listens; `None` while it does not.
        port: The port it has, or had last.
        workers: Whoever opens a hub puts itself here.
    """

    def __init__(
        self,
        diagnostics: Callable[[], Awaitable[Diagnostics]],
        vitals: Callable[[], health.Vitals] = health.Vitals,
        redaction: Callable[[], Redaction] = Redaction,
    ) -> None:
        self._diagnostics = diagnostics
        self._vitals = vitals
        self._redaction = redaction
        self._made = time.monotonic()
        self._bus: Bus | None = None
        self._supervisor: Supervisor | None = None
        self.tally = Tally()
        self.ledger = Ledger()
        self.url: str | None = None
        self.port = 0
        self.workers: Workers | None = None
        self._exposition = Exposition(self)

    def attach(self, bus: Bus, supervisor: Supervisor) -> None:
        """The Computer runs on these from now on. What workers of its last run did stays counted."""
        if self.workers is not None:
            self.tally.work = self.tally.joined(self.workers.work()).work
            self.workers = None
        self._bus, self._supervisor = bus, supervisor
        self.ledger.attach(bus)

    # -- what there is to see -----------------------------------------------------------------

    async def status(self) -> Diagnostics:
        """The diagnostics."""
        return await self._diagnostics()

    async def view(self) -> View:
        """Everything at this moment; asks every server and every worker, with a bound."""
        if self.workers is not None:
            await self.workers.refresh()
        shown = await self._diagnostics()
        composed = compose(
            shown,
            at=time.time(),
            uptime=time.monotonic() - self._made,
            loads=self._supervisor.loads() if self._supervisor is not None else (),
            tally=self.total(),
            ledger=self.ledger,
            nodes=self.workers.nodes() if self.workers is not None else (),
            letters=self.dead_letters(),
        )
        return self._redaction().struct(composed)

    def total(self) -> Tally:
        """What the bus and all actors did, wherever they are."""
        return self.tally if self.workers is None else self.tally.joined(self.workers.work())

    async def metrics(self) -> bytes:
        """All metrics in Prometheus' text form."""
        return self._exposition.render(await self.view())

    async def samples(self) -> list[dict[str, Any]]:
        """The same as plain values: `name`, `labels` and `value` of each sample."""
        return self._exposition.samples(await self.view())

    def alive(self) -> health.Health:
        """Whether it runs at all."""
        return health.alive(self._vitals())

    def ready(self) -> health.Health:
        """Whether Agents get answers."""
        return self._redaction().struct(health.ready(self._vitals()))

    def dead_letters(self) -> DeadLetterView:
        """Messages to nobody: how many since the start, and the last of them."""
        if self._bus is None:
            return DeadLetterView(0, ())
        return letters_of(self._bus.dead_letters, self._bus.now())

    def calls(self, req_id: str | None = None) -> tuple[CallEnded, ...]:
        """The last tool calls, oldest first; only those of one id if it is given (F-72)."""
        return tuple(call for call in self.ledger.calls if req_id is None or call.req_id == req_id)

    # -- what can be done ---------------------------------------------------------------------

    def kill(self, address: str) -> bool:
        """Kills an actor on the spot, as a fault would; its supervisor restarts it. `False` when there is none."""
        return self._supervisor is not None and self._supervisor.kill_child(Address(address))
