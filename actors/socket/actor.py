"""`socket`: owns the connection to the Server, takes every event in, and tells the office what changed.

A shell over pure modules: `service` answers, `announcements` decides when to speak,
`membership` whether requests are executed at all. Each request runs in a task of its own,
so that a slow tool never delays a cancel (W-ARCH-6).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator

import anyio
import msgspec

from ...bus.link import AuthSource, LinkChange, Reply, SmcpLink
from ...wire.base import decode_payload, to_json
from ...wire.errors import BusError, ConflictError, InvalidPayload, NetworkError, SmcpError, to_failure
from ...wire.events import CALLS, CLIENT_PUT_BLOB, CLIENT_TOOL_CALL, NOTIFY_LEAVE_OFFICE, NOTIFY_TOOL_CALL_CANCEL
from ...wire.messages.channels import SliceChanged
from ...wire.messages.kernel import ActorUp
from ...wire.messages.projection import Committed, GetProjectionStatus, Slice
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
from ...wire.rejoin import Rejoin
from ...wire.rooms import AgentCallData, UpdateComputerConfigReq
from ..kernel import Actor, handler, observer
from . import answers
from .announcements import EVENTS, Announcements
from .in_flight import InFlight, Work
from .membership import Membership
from .office import BLOBS, OfficeNews
from .pace import Pace
from .service import RECONCILE, TOOLS, Service
from .settings import ANSWERS_LIMIT, EMIT_LIMIT, GOODBYE_LIMIT, SocketSettings, link_options
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
        self._wish = wish or Wish()
        self._changes = changes
        self._change = 0
        self._link: SmcpLink | None = None
        self._membership = Membership()
        self._announcements = Announcements(settings.coalesce, settings.coalesce_longest)
        self._bell = anyio.Event()
        self._service = Service(settings.computer, self.ask)
        self._news = OfficeNews(self.ask)
        self._in_flight = InFlight()
        self._large = anyio.Lock()
        self._pace = Pace()
        self._unsent = 0
        self._update = to_json(UpdateComputerConfigReq(computer=settings.computer))

    async def started(self) -> None:
        """Starts announcing, learns what there is to announce, and returns to where an earlier life was."""
        self.tasks.start_soon(self._announce)
        self.tasks.start_soon(self._hang_up_at_the_end)
        self.tasks.start_soon(self._catch_up)
        if self._wish.target is not None:
            self.tasks.start_soon(self._return, self._wish.target, self._wish.office)

    # -- the connection -----------------------------------------------------------------

    @handler(concurrent=4)
    async def connect(self, message: Connect) -> LinkStatus:
        """One attempt; its error is the answer."""
        if self._link is not None:
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
        """Drains, then leaves; the wish ends even if the Server does not answer."""
        if self._link is None or self._link.office is None:
            return
        try:
            await self._drain(message.grace)
            await self._link.leave()
        finally:
            await self._out_of_office()
            await self._resume()

    @handler(concurrent=4)
    async def disconnect(self, message: Disconnect) -> None:
        """Drains, leaves, and ends the connection, in a bounded time."""
        link = self._link
        if link is None:
            return
        try:
            await self._drain(message.grace)
            with anyio.move_on_after(GOODBYE_LIMIT):
                await link.leave()
        except SmcpError as error:
            logger.info("the leave before disconnecting was not confirmed: %s", error.code)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(GOODBYE_LIMIT):
                await link.disconnect()
            self._link = None
            await self._out_of_office()
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
        with anyio.CancelScope(shield=True):
            await self._news.leave()

    async def _return(self, target: LinkTarget, office: str | None) -> None:
        """Connects and joins again for a restarted actor, as patiently as the link itself would."""
        retries = 0
        try:
            while True:
                try:
                    link = await self._open(target)
                    break
                except NetworkError as error:
                    logger.warning("returning to the Server failed: %s", error)
                await anyio.sleep(self._settings.backoff.delay(retries))
                retries += 1
            budget = Rejoin(self._settings.rejoin_budget, self._settings.backoff, self.now())
            while office is not None and self._link is link and link.office is None:
                try:
                    await self._enter(link, office)
                except SmcpError as error:
                    wait = budget.wait_after(error, self.now())
                    if wait is None:
                        raise
                    await anyio.sleep(wait)
            self._wish = Wish()
        except SmcpError as error:
            self._wish = Wish()
            logger.error("not back at the Server: %s", error)
            self._publish(self._membership.phase, error=error)

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
        if phase == "joined":
            self._announcements.joined(self.now())
        elif phase == "connected":
            self._announcements.left()
        elif was_joined:
            self._announcements.lost()
        if phase in ("connecting", "offline") and self._in_flight:
            self.tasks.start_soon(self._give_up, change.generation)
        if self._news.office and link.office is None and not self._membership.joining:
            self.tasks.start_soon(self._news.leave)
        if change.state == "ended":
            self._link = None
        self._bell.set()
        self._publish(phase, restored=change.restored, error=change.error)

    def _publish(self, phase: LinkPhase, *, restored: bool = False, error: SmcpError | None = None) -> None:
        self._change = next(self._changes)
        link, failure = self._link, None if error is None else to_failure(error)
        office, generation = (None, 0) if link is None else (link.office, link.generation)
        phase, office = self._wish.upheld(phase, office)
        self.publish(LinkChanged(self._change, phase, generation, office, restored, failure))

    def _status(self) -> LinkStatus:
        link = self._link
        return LinkStatus(
            phase=self._membership.phase,
            change=self._change,
            office=link.office if link else None,
            generation=link.generation if link else 0,
            transport=link.transport if link else None,
            in_flight=len(self._in_flight),
            unannounced=self._announcements.owed,
            unsent=self._unsent,
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
            await self.ask(TOOLS, DrainCalls(grace), timeout=grace + ANSWERS_LIMIT)
        except BusError as error:
            logger.info("the calls could not be drained: %s", error.code)
        await self._in_flight.until_idle(until - self.now())
        self._in_flight.interrupt()
        await self._in_flight.until_idle(ANSWERS_LIMIT)

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

    # -- announcing ---------------------------------------------------------------------------

    @observer
    def committed(self, fact: Committed) -> None:
        """Everything an Agent can read has changed already; now it may be told (R-PROJ-3)."""
        self._announcements.committed(fact.changed, fact.filled, self.now())
        self._bell.set()

    @observer
    def contents_changed(self, fact: SliceChanged) -> None:
        """Contents changed without a commit; their owner reads them anew from now on."""
        self._announcements.changed(fact.slice, fact.signature, self.now())
        self._bell.set()

    @observer
    async def on_up(self, fact: ActorUp) -> None:
        """A `blobs` that lost what it was told hears it again."""
        if fact.address == BLOBS and fact.incarnation > 1:
            self.tasks.start_soon(self._news.again)

    async def _catch_up(self) -> None:
        """Owes the office all there is: commits before this life were announced by nobody."""
        try:
            status = await self.ask(RECONCILE, GetProjectionStatus(), timeout=EMIT_LIMIT)
        except BusError:
            return  # not up yet; its first commit will say what there is
        self._announcements.committed(status.filled, status.filled, self.now())
        self._bell.set()

    async def _announce(self) -> None:
        while True:
            self._bell = anyio.Event()
            for slice in self._announcements.take_due(self.now()):
                await self._emit(slice)
            due = self._announcements.next_due()
            with anyio.move_on_after(math.inf if due is None else max(0.0, due - self.now())):
                await self._bell.wait()

    async def _emit(self, slice: Slice) -> None:
        for _ in range(2):
            link = self._link
            try:
                if link is not None:
                    await link.emit(EVENTS[slice], self._update, EMIT_LIMIT)
                    return
            except (SmcpError, TimeoutError) as error:
                logger.info("%s was not sent: %s", EVENTS[slice], type(error).__name__)
        self._unsent += 1
        self._announcements.unsent(slice)
