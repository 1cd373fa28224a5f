"""One life of a server: from rendering its plan to the end of its process, all in one owner task (F-30).

The owner opens the connection, negotiates, lists, serves and closes, in that order and in that task;
everybody else sets a mark or awaits an answer. It reports what happens to the supervision table and is
told when to end. Every life ends with exactly one report of its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import PurePath
from typing import Any, Protocol

import anyio
import msgspec

from ...wire.messages.mcp import LaunchPlan
from ...wire.redaction import Redaction
from .calls import Calls
from .failures import AuthorizationFailed, ConnectionLost, RequestFailed, StartLimitReached
from .session.listing import Kind
from .session.lists import Lists
from .session.session import HTTP_PATIENCE, STDIO_PATIENCE, Session
from .session.subscriptions import Subscriptions
from .supervision.health import Health
from .supervision.lifecycle import Cause, Closed, Event, Lost, Placed, Started, StartFailed
from .supervision.restart_law import backoff
from .supervision.start_failure import cause_of
from .transports.connection import Connection
from .transports.opener import Opener
from .transports.tail import Tail

logger = logging.getLogger(__name__)

STDERR_SHOWN = 20
"""Lines of stderr in the status."""
LAUNCHERS = frozenset({"npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "docker", "podman"})
"""Commands that fetch or build before a server runs; each has a cap of its own (R 2.3)."""
CLOSE_BOUND = 6.0
"""Seconds after which a connection that does not close is left to the launcher."""


class Host(Protocol):
    """What a life needs from the actor it belongs to."""

    async def render(self) -> LaunchPlan: ...
    async def take_place(self, launcher: str) -> None: ...
    def give_place_back(self) -> None: ...
    def report(self, event: Event) -> None: ...
    def notified(self, method: str, params: msgspec.Raw) -> None: ...
    def updated(self, uri: str) -> None: ...
    def listed(self, kind: Kind, items: bytes, notes: tuple[str, ...]) -> None: ...
    def session_began(self) -> None: ...
    def call_queued(self, req_id: str, waiting: bool) -> None: ...


class StartGivenUp(Exception):
    """The life was told to end before it had a session."""


class OlderHandshakeOnly(Exception):
    """The server ended at the first question of the newer era and is to be asked the older way."""


class Life:
    """One attempt to have a session, and the session.

    Args:
        plan: Rendered just now by somebody else; `None` to have it rendered.

    Attributes:
        session, calls: There from the moment it is ready.
        older_only: Whether the server ends when it is asked anything but the older handshake.
    """

    def __init__(self, host: Host, opener: Opener, *, plan: LaunchPlan | None = None, older_only: bool = False) -> None:
        self._host = host
        self._opener = opener
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._drain = 0.0
        self._opening: anyio.CancelScope | None = None
        self._connection: Connection | None = None
        self._watched: Collection[str] = ()
        self._redaction = Redaction()
        self._lists: Lists | None = None
        self._breaker_opened = asyncio.Event()
        self._placed = self._ready = False
        self.subscriptions: Subscriptions | None = None
        self.tail = Tail()
        self.plan = plan
        self.session: Session | None = None
        self.calls: Calls | None = None
        self.pid: int | None = None
        self.older_only = older_only

    # -- from outside -------------------------------------------------------------------

    @property
    def serving(self) -> bool:
        """Whether a call would be handed to the server now."""
        connection = self._connection
        return self.calls is not None and connection is not None and not connection.dispatcher.closed.done()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The lists that the server has."""
        return self._lists.kinds if self._lists is not None else ()

    def end(self, drain: float) -> None:
        """Ends the life; calls in flight get `drain` seconds."""
        self._drain = drain
        self._end.set()
        if self._opening is not None:
            self._opening.cancel()
        if self.session is None and self._connection is not None:
            self._connection.dispatcher.close(ConnectionLost("the start was given up"))

    def watch(self, uris: Collection[str]) -> None:
        """The resources to be subscribed to, as a whole."""
        self._watched = uris
        if self.subscriptions is not None:
            self.subscriptions.want(uris)

    def changed(self, kind: Kind) -> None:
        """The server announced that a list has changed. Only marks it (R-MCP-27)."""
        if self._lists is not None:
            self._lists.mark(kind)

    def suspect_lists(self) -> None:
        """Lists were handed out, or a tool was called: what is not announced may have changed (DEC-4)."""
        if self._lists is not None:
            self._lists.suspect()

    async def fresh(self, kind: Kind) -> bytes | None:
        """A list, once nothing about it is known or suspected to be out of date; `None` if there is none."""
        return await self._lists.fresh(kind) if self._lists is not None else None

    def notes(self) -> tuple[str, ...]:
        """Diagnostics of this life, for people."""
        sources = (self._connection, self._lists, self.subscriptions)
        return self._redaction.texts(note for source in sources if source is not None for note in source.notes())

    def stderr(self) -> tuple[str, ...]:
        """The last lines of stderr."""
        return self._redaction.texts(self.tail.lines(STDERR_SHOWN))

    # -- the owner task -----------------------------------------------------------------

    async def run(self) -> None:
        """Lives, and reports the end."""
        end: Event = Closed()
        try:
            await self._live()
        except StartGivenUp:
            pass
        except Exception as error:
            # every life needs an end that the table knows; what a foreign error says is not shown
            if not self._ready:
                end = StartFailed(self._redacted(cause_of(error, self.stderr())))
            elif self.plan is not None:
                logger.warning("%s ended with %s", self.plan.bundle_id, type(error).__name__)
        self._host.report(end)

    async def _live(self) -> None:
        plan = await self._get_place()
        deadline = self._loop.time() + plan.start_timeout
        try:
            try:
                await self._connect_and_serve(plan, deadline)
            except OlderHandshakeOnly:
                self.older_only = True
                self.tail = Tail(redaction=self._redaction)
                try:
                    await self._connect_and_serve(plan, deadline)
                finally:
                    self.older_only = self._ready  # a server that just crashes keeps its chance of the newer era
        finally:
            self._give_place_back()

    def _give_place_back(self) -> None:
        if self._placed:
            self._placed = False
            self._host.give_place_back()

    async def _get_place(self) -> LaunchPlan:
        """Renders the plan and waits for a place under the start caps."""
        with anyio.CancelScope() as scope:
            self._opening = scope
            plan = self.plan = self.plan or await self._host.render()
            self._redaction = Redaction(plan.secrets)
            self.tail = Tail(redaction=self._redaction)
            await self._host.take_place(launcher_of(plan))
        self._opening = None
        if self._end.is_set() or self.plan is None:
            self._host.give_place_back()  # harmless if none was taken
            raise StartGivenUp
        self._placed = True
        self._host.report(Placed())
        return self.plan

    async def _connect_and_serve(self, plan: LaunchPlan, deadline: float) -> None:
        with anyio.move_on_after(deadline - self._loop.time()) as scope:
            self._opening = scope
            self._connection = await self._opener.open(
                plan, self._host.notified, tail=self.tail, on_forgotten=self._forgotten
            )
        self._opening = None
        if self._connection is None:
            if self._end.is_set():
                raise StartGivenUp
            raise StartLimitReached(plan.start_timeout)
        connection = self._connection
        gentle = True
        try:
            await self._negotiate_and_serve(plan, connection, deadline)
        except asyncio.CancelledError:
            gentle = False  # the actor itself is being killed, and nobody has time
            raise
        except ConnectionLost as lost:
            first_words = connection.dispatcher.messages == 0 and plan.transport == "stdio"
            if first_words and not self.older_only and not self._end.is_set() and self._loop.time() < deadline:
                raise OlderHandshakeOnly from lost
            raise
        finally:
            self.session = self.calls = None
            with anyio.move_on_after(CLOSE_BOUND, shield=True):
                await connection.close(gentle=gentle)
            self._connection = None

    async def _negotiate_and_serve(self, plan: LaunchPlan, connection: Connection, deadline: float) -> None:
        self.pid = connection.pid
        # a scope would have to close before the session's own; ending the connection ends whatever waits on it
        over = StartLimitReached(plan.start_timeout)
        timer = self._loop.call_at(deadline, connection.dispatcher.close, over)
        if self._end.is_set():
            raise StartGivenUp
        patience = STDIO_PATIENCE if plan.transport == "stdio" else HTTP_PATIENCE
        session = Session(connection, patience=patience, older_only=self.older_only, on_renewed=self._session_renewed)
        try:
            async with session:
                self._lists = Lists(session, self._host.listed, plan.health.interval)
                self._host.session_began()
                if not session.capabilities.tools:
                    await self._lists.find_undeclared_tools()
                if "tools" in self._lists.kinds:
                    await self._lists.read("tools")
                if connection.dispatcher.closed.done():
                    raise connection.dispatcher.closed.result()
                timer.cancel()
                self._give_place_back()
                await self._serve(plan, connection, session, self._lists)
        except RequestFailed:
            if self._end.is_set():
                raise StartGivenUp from None
            raise
        finally:
            timer.cancel()

    async def _serve(self, plan: LaunchPlan, connection: Connection, session: Session, lists: Lists) -> None:
        """From ready to the end that somebody orders."""
        delays = backoff(plan.reconnect)
        self.calls = Calls(
            session,
            plan.limits,
            delays.delay,
            on_breaker=self._breaker_opened.set,
            on_queued=self._host.call_queued,
            clean=self._redaction.text,
        )
        self.subscriptions = Subscriptions(session, on_gap=self._gap)
        self.subscriptions.want(self._watched)
        self.session = session
        self._ready = True
        self._host.report(Started())
        async with anyio.create_task_group() as group:
            group.start_soon(session.keep)
            group.start_soon(self.subscriptions.keep)
            group.start_soon(self._watch_health, plan, connection, session, lists)
            group.start_soon(self._heal_breaker, plan, session, self.calls)
            for kind in lists.kinds:
                group.start_soon(lists.keep, kind)
            if "resources" in lists.kinds:
                lists.mark("resources")
            ending = self._loop.create_task(self._end.wait())
            first: set[asyncio.Future[Any]] = {ending, connection.dispatcher.closed}
            try:
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
                if not ending.done():
                    self.calls.refuse_waiting()
                    self._host.report(Lost(self._loss(connection.dispatcher.closed.result())))
                    await ending
            finally:
                ending.cancel()
            await self.calls.drain(self._drain)
            group.cancel_scope.cancel()

    # -- health -------------------------------------------------------------------------

    async def _watch_health(self, plan: LaunchPlan, connection: Connection, session: Session, lists: Lists) -> None:
        declared: dict[Kind, int | None] = {kind: lists.size(kind) for kind in lists.kinds}
        if not declared and session.capabilities.prompts:
            declared = {"prompts": None}
        health = Health(plan.health, modern=session.modern, declared=declared)
        dispatcher = connection.dispatcher
        while True:
            due = health.due(last_received=dispatcher.last_received, last_work=dispatcher.last_work())
            now = self._loop.time()
            if due > now:
                await asyncio.sleep(due - now)
                continue
            for kind in lists.kinds:
                health.declared[kind] = lists.size(kind)
            if not await self._probed(plan, connection, session, health):
                return

    async def _probed(self, plan: LaunchPlan, connection: Connection, session: Session, health: Health) -> bool:
        """Probes until there is a verdict; whether to go on watching."""
        dispatcher = connection.dispatcher
        while (method := health.request()) is not None:
            asked_at = self._loop.time()
            health.asked(asked_at)
            try:
                await session.probe(method, timeout=plan.health.timeout)
            except AuthorizationFailed:
                health.answered(method)  # somebody is there to refuse
            except RequestFailed:
                work = dispatcher.last_work()
                verdict = health.unanswered(
                    method,
                    heard=dispatcher.last_received > asked_at,
                    working=work is not None and self._loop.time() - work < plan.health.interval,
                )
                if verdict == "unhealthy":
                    dispatcher.close(ConnectionLost("the server no longer answers"))
                    return False
                if verdict == "ask_again":
                    continue
                return True
            else:
                health.answered(method)
            return True
        return False

    async def _heal_breaker(self, plan: LaunchPlan, session: Session, calls: Calls) -> None:
        """Probes a server whose breaker has opened, and closes it when it answers (DEC-29)."""
        breaker = calls.breakers.server
        method = "server/discover" if session.modern else "ping"
        while True:
            await self._breaker_opened.wait()
            self._breaker_opened.clear()
            while (until := breaker.open_until) is not None:
                await asyncio.sleep(max(0.0, until - self._loop.time()))
                if not breaker.admits(self._loop.time()):
                    continue
                try:
                    await session.probe(method, timeout=plan.health.timeout)
                except RequestFailed:
                    breaker.failure(self._loop.time())
                else:
                    breaker.success()

    # -- what happens meanwhile -----------------------------------------------------------

    def _forgotten(self, session_id: str) -> None:
        if self.session is not None:
            self.session.forgotten(session_id)

    def _session_renewed(self) -> None:
        self._host.session_began()
        if self.subscriptions is not None:
            self.subscriptions.renewed()
        if self._lists is not None:
            self._lists.forget()

    def _gap(self, missed: Collection[str]) -> None:
        for kind in self.kinds:
            self.changed(kind)
        for uri in missed:
            self._host.updated(uri)

    def _loss(self, failure: RequestFailed) -> Cause:
        return self._redacted(Cause(str(failure), "network", "lost"))

    def _redacted(self, cause: Cause) -> Cause:
        return Cause(self._redaction.text(cause.text), cause.category, cause.code, cause.nature)


def launcher_of(plan: LaunchPlan) -> str:
    """The launcher that a plan starts its server with, `""` if it starts it directly."""
    name = PurePath(plan.command).name if plan.transport == "stdio" else ""
    stem = name.removesuffix(".exe").removesuffix(".cmd")
    return stem if stem in LAUNCHERS else ""
