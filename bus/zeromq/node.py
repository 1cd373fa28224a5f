"""A node: the bus of a worker process, connected to the hub of the main process.

One connection is one socket: it greets, works, and when it ends a new one greets again.
Between two connections every remote address is down and asks for it fail at once. A hub
that cannot be reached is tried for ever with growing pauses; one that refuses us is tried
a few times and then left alone, and whoever waits is told why (F-92).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from types import TracebackType
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from ...wire.backoff import Backoff
from ...wire.errors import NetworkError, NodeRefused
from ..bus import Bus
from . import frames
from .attempts import REFUSALS, REFUSED, UNREACHABLE, Attempts, End
from .endpoint import to_connect
from .flow import LINE, WINDOW
from .frames import encode_header, printable
from .hello import PROTOCOL, contract
from .keys import NodeKeys
from .link import Link
from .monitor import Change
from .notices import Notices
from .pair import PairSocket
from .pulse import Pulse, Watch
from .remote import Remote
from .transport import NodeSocket, end_context, new_context

logger = logging.getLogger(__name__)

ANSWER_WITHIN = 5.0
"""Seconds a hub has to answer a greeting."""
FAREWELL = 0.2
_KEYS = "give the hub the .public file of this node, and this node the hub's"
State = Literal["connecting", "up", "refused", "closed"]


class ZmqNode:
    """Connects a bus to a hub. Async context manager; asyncio only.

    Entering waits for the hub's welcome.

    Args:
        endpoint: The hub's.
        name: Unique among its nodes; with keys that of its key.
        keys: Needed where the hub has keys.
        connect_timeout: Seconds entering may take.
        window, line: Messages per address and lane that the hub may hold unanswered, and that may wait for that.
        schema: Schema hash it declares, that of this release by default.
        pair: Our end of a socket pair whose other end the hub has adopted, in place of the endpoint. It is good for one
            connection.
    Raises:
        NodeRefused: On entry: the hub does not take us in, and waiting will not help.
        NetworkError: On entry: nobody answered in time.
        ConfigValidationError, PolicyError: The endpoint cannot be used, on entry.
    """

    def __init__(
        self,
        bus: Bus,
        endpoint: str,
        name: str,
        *,
        keys: NodeKeys | None = None,
        connect_timeout: float = 10.0,
        unreachable: Backoff = UNREACHABLE,
        refused: Backoff = REFUSED,
        refusals: int = REFUSALS,
        window: int = WINDOW,
        line: int = LINE,
        schema: str | None = None,
        pair: socket.socket | None = None,
    ) -> None:
        self.name = name
        self._pair = pair
        self.endpoint = endpoint
        self.state: State = "closed"
        self.refusal: NodeRefused | None = None
        self._turned_away: NodeRefused | None = None
        self.notices = Notices(bus.now)
        self._bus = bus
        self._keys = keys
        self._connect_timeout = connect_timeout
        self._attempts = Attempts(unreachable=unreachable, refused=refused, refusals=refusals)
        self._remote = Remote(bus, self._say)
        self._window, self._line = window, line
        self._schema = schema
        self._socket: NodeSocket | PairSocket | None = None
        self._end: asyncio.Future[End] | None = None
        self._pulse = Pulse()
        self._heard = 0.0
        self._leaving = False

    async def __aenter__(self) -> ZmqNode:
        if self._bus.gateway is not None:
            raise ValueError("this bus is connected already")
        if self._pair is None:
            self._place = to_connect(self.endpoint, keys=self._keys is not None)
            self._context = new_context()
        self._terms = self._schema or contract()
        self._settled = asyncio.Event()
        self._stopped = asyncio.Event()
        self._watch = Watch(self._pulse, self._bus.now())
        self._bus.gateway = self._remote
        self._leaving = False
        self._tasks: TaskGroup = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._keep_connected)
        try:
            await self._first_welcome()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self._leave()
        return None

    async def _leave(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._say_goodbye()
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            self._bus.gateway = None
            self.state = "closed"
            if self._pair is None:
                with anyio.CancelScope(shield=True):
                    await end_context(self._context)

    async def until_stopped(self) -> None:
        """Waits until the node has given up.

        Raises:
            NodeRefused: Always, when that happens.
        """
        await self._stopped.wait()
        assert self.refusal is not None
        raise self.refusal

    # -- connections --------------------------------------------------------------------------

    async def _first_welcome(self) -> None:
        with anyio.move_on_after(self._connect_timeout):
            await self._settled.wait()
        refusal = self.refusal or self._turned_away
        if self.state != "up" and refusal is not None:
            raise refusal
        if self.state != "up":
            text = f"no bus answers at {self.endpoint} within {self._connect_timeout:g} s"
            raise NetworkError(text, code="hub_unreachable")

    async def _keep_connected(self) -> None:
        while True:
            end = await self._connection()
            if self._leaving:
                return
            was_up = self.state == "up"
            self.state = "connecting"
            if end.refusal is not None:
                self._turned_away = end.refusal
            is_trouble = end.refusal is not None or (was_up and not end.is_farewell)
            level = logging.WARNING if is_trouble else logging.INFO if was_up else logging.DEBUG
            logger.log(level, "no connection to the hub: %s", end.why)
            pause = self._attempts.after(end, was_up=was_up)
            if self._pair is not None:
                self._give_up(end.refusal or NodeRefused(end.why, code="disconnected"))
                return
            if pause is None:
                assert end.refusal is not None
                self._give_up(end.refusal)
                return
            await anyio.sleep(pause)

    def _give_up(self, refusal: NodeRefused) -> None:
        self.state = "refused"
        self.refusal = refusal
        self._remote.explain(f"the hub refuses this node: {refusal.message}")
        self._settled.set()
        self._stopped.set()

    async def _connection(self) -> End:
        """One connection from its greeting to its end."""
        loop = asyncio.get_running_loop()
        self._end, self._welcomed = loop.create_future(), loop.create_future()
        self._heard = self._bus.now()
        self._watch.tick(self._heard)
        self._socket = self._open()
        try:
            self._say(frames.Hello(PROTOCOL, self._terms, self.name, *self._remote.greeting()))
            return await self._until_end(self._end)
        finally:
            self._remote.go_down(self._end.result().why if self._end.done() else "this node closed")
            self._socket.close()
            self._socket = None

    def _open(self) -> NodeSocket | PairSocket:
        if self._pair is not None:
            return PairSocket(self._pair, self._receive, lambda: self._finish("disconnected"))
        return NodeSocket(
            self._context, self._place.url, keys=self._keys, receive=self._receive, on_change=self._on_change
        )

    async def _until_end(self, end: asyncio.Future[End]) -> End:
        while not end.done():
            await asyncio.wait((end, self._welcomed), timeout=self._pulse.every, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                self._beat()
            if self._welcomed.done():
                # From now on the hub's pulse counts; the first wait was by our own.
                self._welcomed = asyncio.get_running_loop().create_future()
        return end.result()

    def _beat(self) -> None:
        now = self._bus.now()
        if self._watch.was_away(now):
            self._finish("this process was stopped meanwhile")
            return
        self._watch.tick(now)
        assert self._socket is not None
        limit = self._pulse.lost_after if self._remote.link is not None else ANSWER_WITHIN
        if now - self._heard > limit:
            self._socket.catch_up()
        if now - self._heard > limit:
            self._finish(f"the hub is silent for {now - self._heard:.1f} s")
        elif self._remote.link is not None:
            self._say(frames.Beat())

    def _finish(self, why: str, code: str | None = None, *, is_farewell: bool = False) -> None:
        if self._end is not None and not self._end.done():
            hint = _KEYS if code == "key" else None
            refusal = NodeRefused(why, code=code, retry_hint=hint) if code is not None else None
            self._end.set_result(End(why, refusal, is_farewell))

    async def _say_goodbye(self) -> None:
        self._leaving = True
        if self._remote.link is not None and self._end is not None:
            self._say(frames.Bye("this node leaves"))
            await asyncio.wait((self._end,), timeout=FAREWELL)

    # -- socket ---------------------------------------------------------------------------------

    def _send(self, message: list[bytes]) -> bool:
        if self._socket is not None and self._socket.send(message):
            return True
        self._finish("disconnected")
        return False

    def _say(self, header: frames.Frame) -> bool:
        return self._send([encode_header(header)])

    def _on_change(self, change: Change) -> None:
        if change is Change.UNREACHABLE:
            self._finish("nobody listens there")
        elif change is Change.KEY_REFUSED:
            self._finish(f"the hub at {self.endpoint} refuses the key of this node", "key")
        elif change is Change.HANDSHAKE_FAILED:
            text = f"the security handshake with {self.endpoint} failed: wrong hub key, or keys on one side only"
            self._finish(text, "key")
        elif change is Change.DOWN:
            self._finish("disconnected")

    def _receive(self, message: list[bytes], _user: str) -> None:
        now = self._bus.clock()
        if self._watch.was_away(now):
            # The hub has given us up and told the callers: what is still queued here must not be executed.
            self._finish("this process was stopped meanwhile")
        if self._end is None or self._end.done():
            return
        try:
            header, body, attachments = frames.unpack(message)
        except frames.Malformed:
            self.notices.note("malformed", "the hub sent something that is no frame")
            return
        self._heard = now
        link = self._remote.link
        if isinstance(header, frames.Bye):
            self._say(frames.Bye("farewell"))
            self._finish(printable(header.why), is_farewell=True)
        elif link is None:
            self._on_greeted(header)
        elif not link.receive(header, body, attachments):
            self._remote.on_control(header)

    def _on_greeted(self, header: frames.Header) -> None:
        if isinstance(header, frames.Welcome):
            self._go_up(header)
        elif isinstance(header, frames.Refused):
            self._finish(printable(header.text), printable(header.code))

    def _go_up(self, welcome: frames.Welcome) -> None:
        try:
            self._pulse = Pulse(welcome.every, welcome.lost_after)
        except ValueError:
            self.notices.note("malformed", "the hub's pulse is none")
            return
        self._watch = Watch(self._pulse, self._bus.now())
        link = Link(self._bus, printable(welcome.name), self._send, window=self._window, line=self._line)
        self._remote.go_up(welcome, link)
        self.state = "up"
        self._settled.set()
        if not self._welcomed.done():
            self._welcomed.set_result(None)
