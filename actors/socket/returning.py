"""The way back: a SocketActor that was restarted returns to where its last life was, as patiently as its link would.

Until it is there, whoever gives the office or the connection up says so here: no link knows
of that wish yet.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from ...bus.link import SmcpLink
from ...wire.errors import NetworkError, SmcpError
from ...wire.messages.socket import LinkPhase, LinkTarget
from ...wire.rejoin import Rejoin
from .settings import GOODBYE_LIMIT, SocketSettings
from .standing import Wish

logger = logging.getLogger(__name__)


class Return:
    """The return of one life; of one that has nowhere to return to it is over before it begins.

    Args:
        wish: Where the last life was.
        connect, join: One attempt each; they raise `SmcpError`.
        now: Seconds on the bus clock.
        given_up: Called with the reason when it cannot come back.
    """

    def __init__(
        self,
        wish: Wish,
        settings: SocketSettings,
        *,
        connect: Callable[[LinkTarget], Awaitable[SmcpLink]],
        join: Callable[[SmcpLink, str], Awaitable[None]],
        now: Callable[[], float],
        given_up: Callable[[SmcpError], None],
    ) -> None:
        self._wish = wish
        self._settings = settings
        self._connect, self._join, self._now, self._given_up = connect, join, now, given_up
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        if wish.target is None:
            self._over.set()

    @property
    def under_way(self) -> bool:
        """Whether it is neither there nor given up."""
        return self._wish.target is not None

    def upheld(self, phase: LinkPhase, office: str | None) -> tuple[LinkPhase, str | None]:
        """Phase and office as others are told them meanwhile; see `Wish.upheld`."""
        return self._wish.upheld(phase, office)

    def forget_office(self) -> None:
        """It returns to the Server only. A join that was sent is not called back: who leaves waits for its answer."""
        self._wish = Wish(self._wish.target)

    async def end(self) -> None:
        """It returns nowhere; what it was at is undone, which takes `GOODBYE_LIMIT` at most."""
        self._wish = Wish()
        self._scope.cancel()
        with anyio.move_on_after(GOODBYE_LIMIT):
            await self._over.wait()

    async def run(self) -> None:
        """Returns; not to be called of a life with nowhere to return to."""
        try:
            with self._scope:
                assert self._wish.target is not None
                await self._enter(await self._reach(self._wish.target))
                self._wish = Wish()
        except SmcpError as error:
            self._wish = Wish()
            logger.error("not back at the Server: %s", error)
            self._given_up(error)
        finally:
            self._over.set()

    async def _reach(self, target: LinkTarget) -> SmcpLink:
        retries = 0
        while True:
            try:
                return await self._connect(target)
            except NetworkError as error:
                logger.warning("returning to the Server failed: %s", error)
            await anyio.sleep(self._settings.backoff.delay(retries))
            retries += 1

    async def _enter(self, link: SmcpLink) -> None:
        budget = Rejoin(self._settings.rejoin_budget, self._settings.backoff, self._now())
        while self._wish.office is not None and link.office is None:
            try:
                await self._join(link, self._wish.office)
            except SmcpError as error:
                wait = budget.wait_after(error, self._now())
                if wait is None:
                    raise
                await anyio.sleep(wait)
