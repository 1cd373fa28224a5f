"""`socket`: owns the connection to the Server, takes every event in, and tells the office what changed.

A shell: `service` answers, `announcer` speaks, `returning` brings a restarted one back, and
`membership` says whether requests are executed at all. Each request runs in a task of its own,
so that a slow tool never delays a cancel (W-ARCH-6).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import anyio
import msgspec

from ...bus.link import AuthSource, LinkChange, Reply, SmcpLink
from ...wire.base import decode_payload
from ...wire.errors import BusError, ConflictError, InvalidPayload, SmcpError, to_failure
from ...wire.events import CALLS, CLIENT_PUT_BLOB, CLIENT_TOOL_CALL, NOTIFY_LEAVE_OFFICE, NOTIFY_TOOL_CALL_CANCEL
from ...wire.messages.channels import SliceChanged
from ...wire.messages.kernel import ActorUp
from ...wire.messages.projection import Committed
from ...wire.messages.socket import (
    Connect,
    Disconnect,
    GetLinkStatus,
    Join,
    Leave,
    LinkChanged,
    LinkPhase,
    LinkStatus,
    LinkTarget,
)
from ...wire.messages.tools import CancelTool, DrainCalls, ResumeCalls
from ...wire.rooms import AgentCallData
from ..kernel import Actor, handler, observer
from . import answers
from .announcer import Announcer
from .in_flight import InFlight, Work
from .membership import Membership
from .office import BLOBS, TELL_LIMIT, OfficeNews
from .pace import Pace
from .returning import Return
from .service import TOOLS, Service
from .settings import ANSWERS_LIMIT, GOODBYE_LIMIT, SocketSettings, link_options
from .standing import Wish

logger = logging.getLogger(__name__)

FRAME = 256
"""Bytes of a packet that are not the acknowledged JSON: packet types, namespace, id, brackets."""
LARGE = 65_536
"""Bytes from which on answers leave one after another, at a pace (`pace.py`)."""

_PHASES: dict[str, LinkPhase] = {
    "idle": "offline",
    "connecting": "connecting",
    "connected": "connected",
    "joined": "joined",
    "ended": "offline",
}


class SocketActor(Actor):
    """The Computer's end of the connection.

    Args:
        auth: Credentials, or where to get them; asked at every handshake (W-AUTH-8).
        wish: Where an earlier life of this actor was; nowhere once this one is back there.
        changes: Numbers of `LinkChanged`, shared by all lives of this actor.
    """

    def __init__(
        self, settings: SocketSettings, *, auth: AuthSource = None, wish: Wish | None = None, changes: Iterator[int]
    ) -> None:
        self._settings = settings
        self._auth = auth
        self._return = Return(
            wish or Wish(),
            settings,
            connect=self._open,
            join=self._enter,
            now=self.now,
            given_up=lambda error: self._publish(self._membership.phase, error=error),
        )
        self._changes = changes
        self._change = 0
        self._link: SmcpLink | None = None
        self._membership = Membership()
        self._announcer = Announcer(settings, ask=self.ask, now=self.now, link=lambda: self._link)
        self._service = Service(settings.computer, self.ask, self.reaches)
        self._news = OfficeNews(self.ask)
        self._in_flight = InFlight()
        self._large = anyio.Lock()
        self._pace = Pace()

    async def started(self) -> None:
        """Starts announcing, learns what there is to announce, and returns to where an earlier life was."""
        self.tasks.start_soon(self._announcer.run)
        self.tasks.start_soon(self._hang_up_at_the_end)
        self.tasks.start_soon(self._announcer.catch_up)
        if self._return.under_way:
            self.tasks.start_soon(self._return.run)

    # -- the connection -----------------------------------------------------------------

    @handler(concurrent=4)
    async def connect(self, message: Connect) -> LinkStatus:
        """One attempt; its error is the answer."""
        if self._link is not None or self._return.under_way:
            raise ConflictError("already connected", code="lifecycle")
        await self._open(message.target)
        return self._status()

    @handler(concurrent=4)
    async def join(self, message: Join) -> LinkStatus:
        """One attempt; requests are served from before it is sent (W-ROOM-31)."""
        if self._link is None:
            raise ConflictError("not connected", code="lifecycle")
        await self._enter(self._link, message.office)
        return self._status()

    @handler(concurrent=4)
    async def leave(self, message: Leave) -> None:
        """Drains, then leaves; the wish ends even if the Server does not answer, or whoever asked waits no longer."""
        self._return.forget_office()
        link = self._link
        if link is None or not (link.office or self._membership.joining):
            await self._out_of_office()
            return
        try:
            await self._drain(message.grace)
            await link.leave()
        finally:
            # Where it was not come to; where it was, this does nothing.
            await self._see_to(link.leave, GOODBYE_LIMIT)
            await self._out_of_office()
            await self._resume()

    @handler(concurrent=4)
    async def disconnect(self, message: Disconnect) -> None:
        """Drains, leaves, and ends the connection, in a bounded time."""
        try:
            await self._return.end()
            if (link := self._link) is not None:
                await self._drain(message.grace)
                if link.office is not None:  # a join given up is not waited for: it ends with the connection
                    with anyio.move_on_after(GOODBYE_LIMIT):
                        await link.leave()
        except SmcpError as error:
            logger.info("the leave before disconnecting was not confirmed: %s", error.code)
        finally:
            if (link := self._link) is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(GOODBYE_LIMIT):
                    await link.disconnect()
                self._link = None
            await self._out_of_office()
            if self._membership.draining:
                await self._resume()

    @handler
    def status(self, _: GetLinkStatus) -> LinkStatus:
        """The link now."""
        return self._status()

    async def _open(self, target: LinkTarget) -> SmcpLink:
        options = link_options(self._settings, target, self._auth)
        link = SmcpLink(options, on_event=self._on_event, on_change=lambda change: self._on_change(link, change))
        self._link = link
        try:
            await link.connect()
        except BaseException:
            self._link = None
            raise
        return link

    async def _enter(self, link: SmcpLink, office: str) -> None:
        self._membership.asked()
        try:
            await self._news.enter(office)
            await link.join("computer", self._settings.computer, office)
        finally:
            self._membership.answered()
            if link.office is None:
                await self._out_of_office()

    async def _out_of_office(self) -> None:
        await self._see_to(self._news.leave, TELL_LIMIT)

    async def _see_to(self, duty: Callable[[], Awaitable[object]], limit: float) -> None:
        """Has a task of the actor do it, and waits `limit` seconds for that: whoever asked may have no time left."""
        over = anyio.Event()

        async def run() -> None:
            try:
                with suppress(SmcpError):
                    await duty()
            finally:
                over.set()

        self.tasks.start_soon(run)
        with anyio.CancelScope(shield=True), anyio.move_on_after(limit):
            await over.wait()

    async def _hang_up_at_the_end(self) -> None:
        """Whatever ends this life also ends its connection, so that the next one finds its name free."""
        try:
            await anyio.sleep_forever()
        finally:
            link, self._link = self._link, None
            if link is not None:
                with anyio.CancelScope(shield=True), anyio.move_on_after(GOODBYE_LIMIT):
                    await link.disconnect()

    def _on_change(self, link: SmcpLink, change: LinkChange) -> None:
        if self._link is not link:
            return  # that of an actor on its way out, or of an attempt given up
        phase = _PHASES[change.state]
        was_joined = self._membership.phase == "joined"
        self._membership.moved(phase, wished=link.office is not None)
        self._announcer.moved(phase, was_joined=was_joined)
        if phase in ("connecting", "offline") and self._in_flight:
            self.tasks.start_soon(self._give_up, change.generation)
        if self._news.office and link.office is None and not self._membership.joining:
            self.tasks.start_soon(self._news.leave)
        if change.state == "ended":
            self._link = None
        self._publish(phase, restored=change.restored, error=change.error)

    def _publish(self, phase: LinkPhase, *, restored: bool = False, error: SmcpError | None = None) -> None:
        self._change = next(self._changes)
        link, failure = self._link, None if error is None else to_failure(error)
        office, generation = (None, 0) if link is None else (link.office, link.generation)
        phase, office = self._return.upheld(phase, office)
        self.publish(LinkChanged(self._change, phase, generation, office, restored, failure))

    def _status(self) -> LinkStatus:
        link = self._link
        phase, office = self._return.upheld(self._membership.phase, link.office if link else None)
        return LinkStatus(
            phase=phase,
            change=self._change,
            office=office,
            generation=link.generation if link else 0,
            transport=link.transport if link else None,
            in_flight=len(self._in_flight),
            unannounced=self._announcer.owed,
            unsent=self._announcer.unsent,
        )

    # -- events ---------------------------------------------------------------------------

    def _on_event(self, event: str, data: msgspec.Raw | None, reply: Reply | None) -> None:
        """Takes one event of the Server; returns at once, so that none waits for another."""
        if event in CALLS:
            self._take(event, data, reply)
        elif event == NOTIFY_TOOL_CALL_CANCEL:
            self.tasks.start_soon(self._cancel, data)
        elif event == NOTIFY_LEAVE_OFFICE:
            self.tasks.start_soon(self._news.left, data)
        elif reply is not None:
            self.tasks.start_soon(reply.send)

    def _take(self, event: str, data: msgspec.Raw | None, reply: Reply | None) -> None:
        if not self._membership.serving:
            self.tasks.start_soon(self._send, event, answers.out_of_service(event, self._settings.computer), reply)
        elif len(self._in_flight) >= self._settings.in_flight:
            self.tasks.start_soon(self._send, event, answers.crowded(event), reply)
        else:
            work = self._in_flight.begin(self._link.generation if self._link is not None else 0)
            self.tasks.run_soon(self._serve, work, event, data, reply)

    async def _serve(self, work: Work, event: str, data: msgspec.Raw | None, reply: Reply | None) -> None:
        try:
            answer = answers.interrupted(event, self._settings.computer)
            with work.scope:
                answer = await self._paced(event, data)
            await self._send(event, answer, reply)
        finally:
            self._in_flight.end(work)

    async def _paced(self, event: str, data: msgspec.Raw | None) -> bytes:
        if event != CLIENT_TOOL_CALL:
            return await self._service.answer(event, data)
        call = self._pace.began(self.now())
        try:
            return await self._service.answer(event, data)
        finally:
            self._pace.ended(call, self.now())

    async def _send(self, event: str, answer: bytes, reply: Reply | None) -> None:
        if reply is None:
            return
        budget = (self._link.budget if self._link is not None else 0) - FRAME
        fitting = answers.within_budget(event, answer, max(budget, FRAME))
        if fitting is not answer:
            logger.error("the answer to %s has %d bytes and was replaced by an error", event, len(answer))
        if len(fitting) < LARGE and event != CLIENT_PUT_BLOB:
            await reply.send(fitting)
            return
        async with self._large:
            # An upload goes on when its chunk is acknowledged, so this paces both directions.
            await anyio.sleep(self._pace.wait(self.now()))
            await reply.send(fitting)
            self._pace.left(self.now())

    async def _cancel(self, data: msgspec.Raw | None) -> None:
        """Passes a cancellation on; one that is malformed, or for a call not in flight here, is nobody's."""
        try:
            notice = decode_payload(AgentCallData, bytes(data or b""))
        except InvalidPayload:
            return
        self.tell_nowait(TOOLS, CancelTool(notice.req_id))

    # -- ending well ------------------------------------------------------------------------

    async def _drain(self, grace: float) -> None:
        """Refuses new work, lets what runs end within `grace` seconds, answers the rest (DEC-26)."""
        self._membership.draining = True
        if not self._in_flight:
            return
        until = self.now() + grace
        try:
            await self._drain_calls(grace)
            await self._in_flight.until_idle(until - self.now())
        finally:
            # Also of a drain cut short: an office that is left is worked for no longer.
            self._in_flight.interrupt()
        await self._in_flight.until_idle(ANSWERS_LIMIT)

    async def _drain_calls(self, grace: float) -> None:
        try:
            await self.ask(TOOLS, DrainCalls(grace), timeout=grace + ANSWERS_LIMIT)
        except BusError as error:
            logger.info("the calls could not be drained: %s", error.code)

    async def _resume(self) -> None:
        self._membership.draining = False
        with anyio.CancelScope(shield=True):
            try:
                await self.ask(TOOLS, ResumeCalls(), timeout=GOODBYE_LIMIT)
            except BusError as error:
                logger.info("the calls could not be resumed: %s", error.code)

    async def _give_up(self, generation: int) -> None:
        """Calls of a lost connection have nobody to answer: after a grace they end (R-LIFE-14)."""
        await anyio.sleep(self._settings.drain_timeout)
        self._in_flight.interrupt(generation)

    # -- facts of others ------------------------------------------------------------------------

    @observer
    def committed(self, fact: Committed) -> None:
        """There may be something to announce."""
        self._announcer.committed(fact)

    @observer
    def contents_changed(self, fact: SliceChanged) -> None:
        """Contents changed without a commit; their owner reads them anew from now on."""
        self._announcer.changed(fact)

    @observer
    async def on_up(self, fact: ActorUp) -> None:
        """A `blobs` that lost what it was told hears it again."""
        if fact.address == BLOBS and fact.incarnation > 1:
            self.tasks.start_soon(self._news.again)
