"""One generation of the link: an Engine.IO session with the namespace connected on it.

Keeps the acknowledgements somebody waits for. A connection that has ended is retired for
good: it delivers no event, answers none, and every caller that still waits on it hears
at once that it is gone (W-ERR-33, DEC-17).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...wire.errors import ConfigValidationError, MalformedReplyError, NetworkError
from ...wire.handshake import namespace_refusal
from ...wire.packet import (
    ACK,
    CONNECT,
    CONNECT_ERROR,
    DISCONNECT,
    EVENT,
    MalformedPacket,
    Parts,
    loads,
    split,
    split_arguments,
)
from ...wire.protocol import ACK_BUDGET
from .lost import CLOSED, Lost

if TYPE_CHECKING:
    from .engine import Engine

_log = logging.getLogger(__name__)
_text = msgspec.json.Decoder(str).decode


class Reply:
    """The way back to whoever sent an event and waits for its acknowledgement. Answer once."""

    __slots__ = ("_connection", "_id")

    def __init__(self, connection: Connection, identifier: int) -> None:
        self._connection = connection
        self._id = identifier

    async def send(self, *values: bytes) -> bool:
        """Acknowledges with these JSON values; none at all is the A0 form (W-EVT-3).

        Returns:
            Whether it was sent; a retired connection answers nobody.
        Raises:
            RequestTooLarge: It exceeds the budget; nothing was sent.
        """
        return await self._connection.acknowledge(self._id, values)


EventHandler = Callable[[str, msgspec.Raw | None, Reply | None], None]
"""Takes an event: its name, its first argument as JSON, and how to acknowledge it, if the sender waits.

Called in the order of arrival, on the event loop; it must return at once.
"""


class RequestTooLarge(ConfigValidationError):
    """What should be sent exceeds what the Server takes in one packet; nothing was sent (W-GEN-7, DEC-18)."""

    default_code = "request_too_large"
    default_hint = "send less, or use an upload"


class Connection:
    """A connected namespace.

    Attributes:
        budget: Bytes of JSON one packet may hold.
        lost: Resolves with the reason when the connection has ended, whoever ended it.
        opened_at: Loop clock at which the namespace was confirmed.
    """

    def __init__(self, engine: Engine, namespace: str, on_event: EventHandler, on_lost: Callable[[Lost], None]) -> None:
        self._engine = engine
        self._namespace = namespace
        self._head = "," if namespace == "/" else f"{namespace},"
        self._event_head = f"2{self._head}".encode()
        self._ack_head = f"3{self._head}".encode()
        self._on_event = on_event
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._confirmed: asyncio.Future[Any] = self._loop.create_future()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last_id = 0
        self._retired = False
        self._reader: asyncio.Task[None] | None = None
        self.lost: asyncio.Future[Lost] = self._loop.create_future()
        self.budget = ACK_BUDGET
        self.opened_at = 0.0

    @property
    def transport(self) -> str:
        """`websocket` or `polling`."""
        return self._engine.transport

    @property
    def retired(self) -> bool:
        """Whether it has ended."""
        return self._retired

    async def establish(self, auth: bytes) -> None:
        """Connects the namespace with the credentials `auth` (a JSON object).

        Raises:
            AuthError: The Server refused them (CONNECT_ERROR).
            NetworkError: The session ended first.
        """
        self.budget = min(ACK_BUDGET, self._engine.max_payload)
        self._reader = self._loop.create_task(self._read())
        await self._engine.send(f"{CONNECT}{self._head}".encode() + auth)
        await self._confirmed
        self.opened_at = self._loop.time()

    async def _read(self) -> None:
        lost = CLOSED
        try:
            lost = await self._engine.run(self._on_packet)
        finally:
            self._retire(lost)

    def _retire(self, lost: Lost) -> None:
        if self._retired:
            return
        self._retired = True
        waiting, self._waiting = self._waiting, {}
        for future in (self._confirmed, *waiting.values()):
            if not future.done():
                future.set_exception(lost.error())
                future.exception()  # whoever waits gets it; where nobody does, asyncio has nothing to complain about
        self.lost.set_result(lost)
        self._on_lost(lost)

    def _on_packet(self, packet: str) -> None:
        if self._retired:
            return
        try:
            parts = split(packet)
            if parts.namespace != self._namespace:
                return
            if parts.type == ACK:
                self._settle(parts)
            elif parts.type == EVENT:
                self._deliver(parts)
            elif parts.type == CONNECT:
                if not self._confirmed.done():
                    self._confirmed.set_result(None)
            elif parts.type == CONNECT_ERROR:
                if not self._confirmed.done():
                    self._confirmed.set_exception(namespace_refusal(loads(parts.body) if parts.body else None))
            elif parts.type == DISCONNECT:
                self._retire(Lost("the Server closed the namespace"))
        except MalformedPacket as fault:
            _log.warning("a packet of the Server was skipped: %s", fault)

    def _settle(self, parts: Parts) -> None:
        future = self._waiting.pop(parts.id, None) if parts.id is not None else None
        if future is None or future.done():
            return  # the caller gave up first; a late answer is nobody's
        if parts.binary:
            future.set_exception(MalformedReplyError("the answer holds binary values"))
        else:
            future.set_result(parts.body)

    def _deliver(self, parts: Parts) -> None:
        arguments = split_arguments(parts.body)
        try:
            event = _text(arguments[0])
        except (IndexError, msgspec.DecodeError):
            raise MalformedPacket("event without a name") from None
        reply = None if parts.id is None else Reply(self, parts.id)
        try:
            self._on_event(event, arguments[1] if len(arguments) > 1 else None, reply)
        except Exception:
            # One handler's fault must not end the connection that everybody else uses.
            _log.exception("the handler of %s failed", event)

    async def call(self, event: str, payload: bytes, timeout: float) -> list[msgspec.Raw]:
        """Sends an event and waits for its acknowledgement; returns the values in it.

        Raises:
            TimeoutError: No acknowledgement within `timeout` seconds.
            NetworkError: The connection ended first, `details["executed"]` says whether it was sent.
            RequestTooLarge: It exceeds the budget; nothing was sent.
            MalformedReplyError: The acknowledgement is no array of JSON values.
        """
        self._last_id = identifier = self._last_id + 1
        packet = self._packet(b'%b%d["%b",' % (self._event_head, identifier, event.encode()), payload, event)
        future: asyncio.Future[str] = self._loop.create_future()
        self._waiting[identifier] = future
        try:
            async with asyncio.timeout(timeout):
                await self._engine.send(packet)
                body = await future
        finally:
            self._waiting.pop(identifier, None)
        try:
            return split_arguments(body)
        except MalformedPacket as fault:
            raise MalformedReplyError("the acknowledgement is not JSON") from fault

    async def emit(self, event: str, payload: bytes) -> None:
        """Sends an event nobody acknowledges.

        Raises:
            NetworkError: The connection has ended.
            RequestTooLarge: It exceeds the budget; nothing was sent.
        """
        await self._engine.send(self._packet(b'%b["%b",' % (self._event_head, event.encode()), payload, event))

    async def acknowledge(self, identifier: int, values: tuple[bytes, ...]) -> bool:
        """Sends the acknowledgement of an event; see `Reply.send`."""
        if self._retired:
            return False
        body = b",".join(values)
        try:
            await self._engine.send(self._packet(b"%b%d[" % (self._ack_head, identifier), body, "acknowledgement"))
        except NetworkError:
            return False
        return True

    def _packet(self, head: bytes, body: bytes, what: str) -> bytes:
        size = len(head) + len(body) + 1
        if size > self.budget:
            raise RequestTooLarge(
                f"{what} needs {size} bytes, the limit is {self.budget}",
                details={"size": size, "limit": self.budget, "executed": "no"},
            )
        return b"%b%b]" % (head, body)

    async def close(self) -> None:
        """Says goodbye, hands over what was sent before, and ends; nothing acts any more afterwards."""
        try:
            if not self._retired:
                await self._engine.send(f"{DISCONNECT}{self._head}".encode())
        except NetworkError:
            pass
        self._retire(CLOSED)
        try:
            await self._engine.close()
        finally:
            await self.abort()

    async def abort(self) -> None:
        """Ends without a word. Safe to call twice."""
        self._retire(CLOSED)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._engine.abort()
