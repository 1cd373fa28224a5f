"""The link to a Server: connects, keeps the wish to be in an office, and restores both after a loss.

Each connection is one generation (`connection.py`); a new one starts only after the old
one was retired, so two can never act at once (DEC-17). Version and credential refusals
end the link for good (R-LIFE-12); everything else that breaks it is repaired with
growing delays.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import msgspec

from ...wire import rejoin
from ...wire.errors import ConflictError, NetworkError, SmcpError
from ...wire.handshake import refused_by_close
from ...wire.protocol import ACK_BUDGET, AGENT_ACK_WAIT, VERSION_REFUSED_CLOSE_CODE
from ...wire.rooms import EnterOfficeReq, Role
from .change import ChangeHandler, LinkChange, LinkState
from .connection import Connection, EventHandler
from .door import Door
from .lost import CLOSED, Lost
from .office import ask_to_join, tell_of_leaving
from .options import LinkOptions

TAKE_BACK_LIMIT = 5.0
"""Seconds for leaving an office that nobody waits to be in any more."""

_log = logging.getLogger(__name__)


class SmcpLink:
    """A connection to a Server that heals.

    Args:
        options: Where the Server is and how to reach it.
        on_event: Gets every event of the Server.
        on_change: Gets every change of state.
    Raises:
        ConfigValidationError: The URL is unusable.
    """

    def __init__(self, options: LinkOptions, *, on_event: EventHandler, on_change: ChangeHandler | None = None) -> None:
        self._options = options
        self._door = Door(options, on_event)
        self._on_change = on_change or (lambda _change: None)
        self._state: LinkState = "idle"
        self._generation = 0
        self._connection: Connection | None = None
        self._wish: EnterOfficeReq | None = None
        self._opening: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._membership = asyncio.Lock()
        self._entering: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._failure: SmcpError | None = None

    # --- what it is now ---

    @property
    def state(self) -> LinkState:
        return self._state

    @property
    def generation(self) -> int:
        """Number of connections so far."""
        return self._generation

    @property
    def transport(self) -> str | None:
        """`websocket` or `polling` of the live connection."""
        return self._connection.transport if self._connection else None

    @property
    def office(self) -> str | None:
        """The office wished for: the joined one, or the one to be joined again."""
        return self._wish.office_id if self._wish else None

    @property
    def budget(self) -> int:
        """Bytes of JSON one packet may hold."""
        return self._connection.budget if self._connection else ACK_BUDGET

    @property
    def failure(self) -> SmcpError | None:
        """Why the link ended or its wish was given up."""
        return self._failure

    # --- connecting ---

    async def connect(self) -> None:
        """Makes the first connection, in one attempt; repairs it from then on.

        Raises:
            ProtocolVersionError: The Server speaks another version.
            AuthError: The Server refused the credentials.
            NetworkError: It cannot be reached, did not answer in `connect_timeout`, or was disconnected meanwhile.
            ConflictError: Already connected.
        """
        if self._state not in ("idle", "ended"):
            raise ConflictError("already connected", code="already_connected")
        self._failure = None
        self._become("connecting")
        # A task of its own, so that a disconnect can end it whoever waits here.
        self._opening = opening = asyncio.get_running_loop().create_task(self._open(), name="smcp-connect")
        try:
            await opening
        except BaseException as error:
            if opening is self._opening:
                self._opening = None
                self._become("ended", error=error if isinstance(error, SmcpError) else None)
                raise
            waiter = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and waiter is not None and not waiter.cancelling():
                raise CLOSED.error(executed="no") from None
            raise

    async def _open(self) -> None:
        connection = await self._attempt()
        self._become("connecting" if connection.retired else "connected")
        self._keeper = asyncio.get_running_loop().create_task(self._keep(connection), name="smcp-link")

    async def _attempt(self) -> Connection:
        self._connection = connection = await self._door.connection(self._on_lost)
        self._generation += 1
        return connection

    # --- keeping ---

    def _on_lost(self, lost: Lost) -> None:
        if self._connection is not None and self._connection.retired and self._state in ("connected", "joined"):
            self._connection = None
            self._become("connecting", error=lost.error())

    async def _keep(self, connection: Connection) -> None:
        """Repairs the connection until something says that it cannot or shall not be."""
        loop = asyncio.get_running_loop()
        retries = 0
        try:
            while True:
                lost = await asyncio.shield(connection.lost)
                await connection.abort()
                if lost.close_code == VERSION_REFUSED_CLOSE_CODE:
                    raise await self._door.explained(refused_by_close())
                if not self._options.reconnect:
                    raise lost.error()
                if loop.time() - connection.opened_at >= self._options.stable_after:
                    retries = 0
                connection, retries = await self._reconnected(retries)
                await self._rejoin(connection)
        except SmcpError as error:
            _log.error("the link to the Server ended: %s", error)
            self._wish = None
            self._failure = error
            self._become("ended", error=error)
        finally:
            if connection.retired:  # a live one is closed by whoever ends the link
                await connection.abort()

    async def _reconnected(self, retries: int) -> tuple[Connection, int]:
        """The next connection, and how many retries it took since the last stable one."""
        while True:
            delay = self._options.backoff.delay(retries)
            retries += 1
            _log.info("reconnecting to the Server in %.1f s (retry %d)", delay, retries)
            await asyncio.sleep(delay)
            try:
                connection = await self._attempt()
            except NetworkError as error:
                _log.warning("reconnecting failed: %s", error)
            except SmcpError:
                raise
            except Exception as error:
                # Only the caller's own source of credentials raises anything else, and it may have needed the network.
                _log.warning("no credentials to reconnect with: %s", type(error).__name__)
            else:
                if not connection.retired:
                    self._become("connected")
                return connection, retries

    async def _rejoin(self, connection: Connection) -> None:
        """Back into the office wished for, as long as refusals may be those of our own ghost."""
        loop = asyncio.get_running_loop()
        budget = rejoin.Rejoin(self._options.rejoin_budget, self._options.backoff, loop.time())
        while not connection.retired:
            async with self._membership:
                if self._wish is None or connection.retired:
                    return
                refusal = await self._ask_to_join(connection, self._wish)
                if refusal is None:
                    self._failure = None
                    self._become("joined", restored=True)
                    return
                wait = budget.wait_after(refusal, loop.time())
                if wait is None and not connection.retired:
                    _log.error("not back in the office: %s", refusal)
                    self._wish = None
                    self._failure = refusal
                    self._become("connected", error=refusal)
                    return
            _log.info("not back in the office yet: %s", refusal)
            await asyncio.wait((connection.lost,), timeout=wait)

    # --- the office ---

    async def join(self, role: Role, name: str, office_id: str) -> None:
        """Joins an office, in one attempt; from then on the link returns there after every loss.

        Who stops waiting for it is in no office: what was sent is seen to its answer, and taken back (R-LIFE-11).

        Raises:
            ConflictError: Name or place is taken, or the Server refused without a code.
            PolicyError: The Server refused for another reason.
            NetworkError: No answer in time, or not connected.
            MalformedReplyError: The answer makes no sense.
        """
        wish = EnterOfficeReq(role=role, name=name, office_id=office_id)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[SmcpError | None] = loop.create_future()
        entering = loop.create_task(self._enter(wish, answer), name="smcp-join")
        self._entering.add(entering)
        entering.add_done_callback(self._entering.discard)
        if refusal := await answer:
            raise refusal

    async def _enter(self, wish: EnterOfficeReq, answer: asyncio.Future[SmcpError | None]) -> None:
        """One attempt; `answer` is cancelled when nobody waits for it any more."""
        async with self._membership:
            if answer.cancelled():
                return
            try:
                connection = self._live()
            except SmcpError as error:
                answer.set_result(error)
                return
            refusal = await self._ask_to_join(connection, wish)
            entered = refusal is None and not answer.cancelled()
            if entered:
                self._wish = wish
                self._failure = None
                self._become("joined")
            if not answer.cancelled():
                answer.set_result(refusal)
            unsure = refusal is None or isinstance(refusal, NetworkError)
            if not entered and unsure and not connection.retired:
                # The Server may take us for a member now. Only after its answer, lest the leave overtakes the join.
                with suppress(SmcpError):
                    await tell_of_leaving(connection, wish.office_id, TAKE_BACK_LIMIT)

    async def _ask_to_join(self, connection: Connection, wish: EnterOfficeReq) -> SmcpError | None:
        refusal = await ask_to_join(connection, wish)
        if refusal is None and self._connection is not connection:
            return Lost("closed while joining").error()
        return refusal

    async def leave(self) -> None:
        """Gives the wish up and tells the Server; being in no office afterwards is success.

        Raises:
            NetworkError: No answer in time.
            ConflictError, PolicyError, MalformedReplyError: As `join`.
        """
        async with self._membership:
            wish, self._wish = self._wish, None
            if wish is None or self._state != "joined" or self._connection is None:
                return
            self._become("connected")
            await tell_of_leaving(self._connection, wish.office_id)

    # --- talking ---

    async def call(self, event: str, payload: bytes, timeout: float) -> list[msgspec.Raw]:
        """Sends an event and returns the values of its acknowledgement: none for A0, one for A1, two for A2.

        Raises:
            TimeoutError: No acknowledgement within `timeout` seconds.
            NetworkError: Not joined (`details["executed"]` is `no`), or the connection was lost meanwhile (`unknown`).
            RequestTooLarge: It exceeds `budget`; nothing was sent.
            MalformedReplyError: The acknowledgement is no array of JSON values.
        """
        return await self._joined().call(event, payload, timeout)

    async def emit(self, event: str, payload: bytes, timeout: float = AGENT_ACK_WAIT) -> None:
        """Sends an event nobody acknowledges; returns when the network took it.

        Raises:
            TimeoutError, NetworkError, RequestTooLarge: As `call`.
        """
        async with asyncio.timeout(timeout):
            await self._joined().emit(event, payload)

    def _live(self) -> Connection:
        if self._connection is None or self._state not in ("connected", "joined"):
            raise self._failure_or("not connected to the Server", "not_connected")
        return self._connection

    def _joined(self) -> Connection:
        if self._state != "joined" or self._connection is None:
            raise self._failure_or("not in an office", "not_joined")
        return self._connection

    def _failure_or(self, message: str, code: str) -> SmcpError:
        if self._state == "ended" and self._failure is not None:
            return self._failure
        return NetworkError(message, code=code, details={"executed": "no"})

    # --- waiting and ending ---

    async def wait_for(self, *states: LinkState) -> None:
        """Waits until the state is one of these.

        Raises:
            SmcpError: The link ended, or the wish was given up; the reason.
        """
        while self._state not in states:
            if self._failure is not None or self._state == "ended":
                raise self._failure or NetworkError("disconnected", code="not_connected")
            await self._changed.wait()

    async def disconnect(self) -> None:
        """Ends the connection and the wish; what was sent before is handed over first. Safe to call twice."""
        self._wish = None
        if self._state not in ("idle", "ended"):
            self._become("ended")
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
        if self._entering:
            await asyncio.wait(self._entering)

    def _become(self, state: LinkState, *, restored: bool = False, error: SmcpError | None = None) -> None:
        changed = state != self._state or error is not None
        self._state = state
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()
        if changed or restored:
            self._on_change(LinkChange(state, self._generation, restored, error))
