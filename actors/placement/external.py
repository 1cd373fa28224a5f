"""An external worker: offers itself to a Computer for one server, hosts it while it may, and offers itself again.

One connection is one tenure. When it ends (the hub restarts, the network parts, the server is
moved away) the actor and its server end here, and the Computer may give the seat to another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from ...bus import Bus, Tally
from ...bus.zeromq import NodeKeys, ZmqNode
from ...wire.backoff import Backoff
from ...wire.errors import BusError, ConfigValidationError, ConflictError, NetworkError, PolicyError
from ...wire.messages.placement import TakeSeat
from ...wire.redaction import SecretRegistry
from ..computer.log_guard import guarded
from .terms import Terms
from .worker import ASK_LIMIT, WORKERS, HubLost, host, innermost

PAUSES = Backoff(initial=0.2, longest=5.0)
STAND_BY = 30.0
"""Seconds one question for the seat is kept open."""
NO_CONNECTION = "no connection to the Computer"

logger = logging.getLogger(__name__)


class Volunteer:
    """A worker for one server.

    Args:
        keys: Where the hub has keys.
        on_serving: Called each time it begins to serve.
        say: Told what it waits for, once per reason.
    """

    def __init__(
        self,
        endpoint: str,
        terms: Terms,
        keys: NodeKeys | None,
        *,
        on_serving: Callable[[], None] = lambda: None,
        say: Callable[[str], None] = lambda text: logger.info("%s", text),
    ) -> None:
        self._endpoint = endpoint
        self._terms = terms
        self._keys = keys
        self._on_serving = on_serving
        self._say_aloud = say
        self._said = ""
        self._registry, self._tally = SecretRegistry(), Tally()

    async def work(self, stop: anyio.Event) -> None:
        """Works until told to stop.

        Raises:
            NodeRefused: The hub does not take it in: its key, its name, or another release.
            PolicyError: Its key is for another server.
            ConfigValidationError: The endpoint is none.
        """
        failures = 0
        with guarded(self._registry):
            while not stop.is_set():
                try:
                    await self._connect_and_serve(stop)
                    failures = 0
                except NetworkError as error:
                    self._say(error.message)
                    await _pause(stop, PAUSES.delay(failures))
                    failures += 1
                except ExceptionGroup as group:
                    raise innermost(group) from None

    async def _connect_and_serve(self, stop: anyio.Event) -> None:
        """One stay at the hub, of as many connections as it takes."""
        async with (
            Bus(self._tally) as bus,
            ZmqNode(bus, self._endpoint, self._terms.node, keys=self._keys) as node,
            anyio.create_task_group() as group,
        ):
            group.start_soon(node.until_stopped)
            failures = 0
            while not stop.is_set():
                if await self._tenure(bus, stop):
                    failures = 0
                else:
                    await _pause(stop, PAUSES.delay(failures))
                    failures += 1
            group.cancel_scope.cancel()

    async def _tenure(self, bus: Bus, stop: anyio.Event) -> bool:
        """Gets the seat and serves until it is lost; `False` when it came to nothing."""
        if not bus.reaches(WORKERS):
            self._say(NO_CONNECTION)
            return stop.is_set()
        try:
            if await self._seated(bus, stop):
                await host(bus, self._terms, stop, tally=self._tally, registry=self._registry, on_serving=self._serving)
        except Exception as error:
            cause = innermost(error)
            match cause:
                case PolicyError():
                    raise cause from None
                case ConfigValidationError():
                    self._say(cause.message)
                case HubLost() | BusError() | ConflictError():
                    self._say(NO_CONNECTION)
                case _:
                    logger.warning("the actor of %s went down: %s", self._terms.bundle_id, type(cause).__name__)
            return isinstance(cause, HubLost)
        return stop.is_set()

    async def _seated(self, bus: Bus, stop: anyio.Event) -> bool:
        bundle_id, node, wait = self._terms.bundle_id, self._terms.node, 0.0
        async with anyio.create_task_group() as group:

            async def give_up() -> None:
                await stop.wait()
                group.cancel_scope.cancel()

            group.start_soon(give_up)
            while True:
                seat = await bus.ask(WORKERS, TakeSeat(bundle_id, node, wait), timeout=wait + ASK_LIMIT)
                if seat.given:
                    group.cancel_scope.cancel()
                    return True
                self._say(f"{bundle_id}: {seat.why}")
                wait = STAND_BY
        return False

    def _serving(self) -> None:
        self._said = ""
        self._on_serving()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say_aloud(text)


async def _pause(stop: anyio.Event, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await stop.wait()
