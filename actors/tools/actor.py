"""`tools`: answers the Agent's tool list and tool calls from the last commit it applied.

A call passes the checks of W-CALL-4 in order, waits for its confirmation and its server
within its own time limit, and always ends in a CallToolResult, whatever happens to the
server, its actor or the Agent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from ...wire import results
from ...wire.base import to_json
from ...wire.codec import Attachment
from ...wire.envelope import Address
from ...wire.errors import BusError, DeadlineExceeded, SmcpError, Undeliverable
from ...wire.messages.blobs import BlobTicket, SpoolBytes
from ...wire.messages.mcp import CallTool, ServerStatus, ServerStatusChanged, ToolOutcome
from ...wire.messages.projection import SeatServer
from ...wire.messages.tools import (
    Applied,
    ApplyTools,
    CallEnded,
    CallFinished,
    CallHistory,
    CallOutcome,
    CallQueued,
    CallRecord,
    CancelTool,
    DrainCalls,
    GetCallHistory,
    ListTools,
    ResumeCalls,
    RunTool,
    ToolAnswer,
    ToolList,
    ToolsRead,
)
from ...wire.protocol import ACK_BUDGET, TOOL_TIMEOUT_MAX, TOOL_TIMEOUT_MIN
from ..kernel import Actor, handler, observer
from ..kernel.news import say_new
from . import audit, lazy, outcome, vrl
from .calls import Call, InFlight
from .confirmation import Confirmations, ConfirmTool, request_of
from .exposure import Catalogue, Lost, Refused, Route, build
from .history import LENGTH, History
from .offload import OffloadLimits, offload
from .script_host import ScriptHost
from .script_run import ScriptRun

logger = logging.getLogger(__name__)

BLOBS = Address("blobs")
RECONCILE = Address("reconcile")

_FRAME_RESERVE = 4_096
"""Bytes of the acknowledgement that are not the list itself: `req_id`, keys, Socket.IO framing."""


class ToolSettings(msgspec.Struct, frozen=True):
    """Limits of the actor. Times in seconds, sizes in bytes.

    Attributes:
        longest_timeout: Upper bound of a call's `timeout` (W-CALL-4).
        answer_grace: How much later than the call's limit this actor gives up on a server actor that does not
            keep to it (W-CALL-10).
        rebuild_wait: How long a request waits for the first commit after a start (D-47).
        relist_every: At most one `ToolsRead` in this time (DEC-4).
        vrl_timeout, vrl_processes: Limit of one script run, and how many run at a time.
    """

    longest_timeout: int = TOOL_TIMEOUT_MAX
    answer_grace: float = 0.5
    rebuild_wait: float = 5.0
    relist_every: float = 5.0
    vrl_timeout: float = 5.0
    vrl_processes: int = 2
    ack_budget: int = ACK_BUDGET
    offload: OffloadLimits = OffloadLimits()
    history: int = LENGTH


class ToolActor(Actor):
    """Owns the tool catalogue and the calls in flight.

    Args:
        confirmation: Asked before a tool runs that is not `auto_apply`; `None` refuses all of those.
        wall_clock: Unix seconds, for the times other people read.
    """

    def __init__(
        self,
        settings: ToolSettings | None = None,
        *,
        confirmation: ConfirmTool | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings or ToolSettings()
        self._confirmations = Confirmations(confirmation)
        self._wall_clock = wall_clock
        self._catalogue = Catalogue()
        self._capacity: dict[str, int] = {}
        self._commit = 0
        self._ready = anyio.Event()
        self._calls = InFlight()
        self._draining = False
        self._drains: list[anyio.Event] = []
        self._history = History(self._settings.history)
        self._states: dict[str, ServerStatus] = {}
        self._relist_after = -float("inf")
        self._scripts = ScriptHost(self._settings.vrl_processes)

    # -- the projection ---------------------------------------------------------------

    @handler
    def apply(self, message: ApplyTools) -> Applied:
        """Replaces the catalogue as a whole."""
        before = self._catalogue
        budget = self._settings.ack_budget - _FRAME_RESERVE
        self._catalogue = build(message.servers, before, budget)
        self._capacity = {server.policy.bundle_id: server.policy.capacity for server in message.servers}
        self._states = {bundle_id: said for bundle_id, said in self._states.items() if bundle_id in self._capacity}
        self._commit = message.number
        self._ready.set()
        if any(server.policy.vrl for server in message.servers):
            self._scripts.begin(self.tasks.start_soon)
        say_new(logger, self._catalogue.notes, frozenset(before.notes))
        return Applied(self._catalogue.tools != before.tools, self._catalogue.notes, self._catalogue.signature)

    @handler(concurrent=1024)
    async def list_tools(self, _: ListTools) -> ToolList:
        """The committed list; only an actor that has not applied any commit yet waits, and not for long."""
        await self._first_commit(self._settings.rebuild_wait)
        if self.now() >= self._relist_after:
            self._relist_after = self.now() + self._settings.relist_every
            self.publish(ToolsRead())
        return ToolList(Attachment(self._catalogue.tools), self._commit)

    @observer
    def on_status(self, fact: ServerStatusChanged) -> None:
        """Remembers why a server is not connected, for the text of DEC-25."""
        self._states[fact.status.bundle_id] = fact.status

    # -- calls ------------------------------------------------------------------------

    @handler(concurrent=2048)
    async def run(self, message: RunTool) -> ToolAnswer:
        """Runs one call to its end; every way it can end is a result, never an error (W-CMP-2)."""
        began = self.now()
        ended: CallOutcome = "abandoned"
        if message.tool_name == lazy.CALL:
            # It counts as a call of the tool it names, in everything that is asked, checked and told of it.
            with suppress(lazy.Misused):
                message = lazy.unwrapped(message)
        try:
            result = await self._run(message)
            ended = audit.outcome_of(result)
        finally:
            self._audit(message, ended, self.now() - began)
        return ToolAnswer(Attachment(result if isinstance(result, bytes) else to_json(result)))

    @handler
    def cancel(self, message: CancelTool) -> None:
        """Interrupts a call; its ask is cancelled with it, which reaches the MCP server (DEC-12)."""
        self._calls.cancel(message.req_id)

    @handler
    def queued(self, message: CallQueued) -> None:
        """Keeps track of calls that their server has not seen yet."""
        self._calls.note_queue(message.bundle_id, message.req_id, waiting=message.waiting)

    @handler(concurrent=4)
    async def drain(self, message: DrainCalls) -> None:
        """Refuses new calls, then waits for the running ones; what is left after the grace ends now."""
        self._draining = True
        with anyio.move_on_after(message.grace):
            await self._no_calls()
        self._calls.end_all()
        await self._no_calls()

    @handler
    def resume(self, _: ResumeCalls) -> None:
        """Ends the refusal that a drain began."""
        self._draining = False

    @handler
    def history(self, _: GetCallHistory) -> CallHistory:
        """The last finished calls."""
        return self._history.snapshot()

    async def _run(self, message: RunTool) -> bytes | dict[str, Any]:
        if not TOOL_TIMEOUT_MIN <= message.timeout <= self._settings.longest_timeout:
            return results.malformed_request(field="timeout")
        call = self._calls.admit(message.req_id, message.timeout, self.now())
        if call is None:
            return results.malformed_request("A call with this req_id is in flight already", field="req_id")
        try:
            with anyio.CancelScope() as scope:
                call.interrupt = scope.cancel
                return await self._decide(call, message)
            return outcome.interrupted(call)
        finally:
            self._calls.end(call)
            if self._drains and not len(self._calls):
                for drained in self._drains:
                    drained.set()
                self._drains.clear()

    async def _decide(self, call: Call, message: RunTool) -> bytes | dict[str, Any]:
        """Resolves the name and says no, or goes on with the server that owns it."""
        if self._draining:
            return results.failed("The computer takes no calls now", None, "not_executed")
        await self._first_commit(min(self._settings.rebuild_wait, call.timeout))
        if not self._ready.is_set():
            return results.failed("The computer does not know its tools yet", None, "not_executed")
        has_own = self._catalogue.has_lazy
        if has_own and message.tool_name in lazy.NAMES and not message.indirect:
            return await self._answer_itself(message)
        found = self._catalogue.find(message.tool_name) if has_own or not message.indirect else None
        if not isinstance(found, Route):
            return self._refuse(message.tool_name, found)
        return await self._admit(call, found, message)

    async def _admit(self, call: Call, found: Route, message: RunTool) -> bytes | dict[str, Any]:
        """Lets a call go to its server once that has room for it and whoever has to confirm it has."""
        if not self._calls.assign(call, found, self._capacity[found.bundle_id]):
            return results.busy("The MCP server has too many calls waiting", found.bundle_id)
        if not found.auto_apply:
            verdict = await self._confirmations.ask(request_of(call, found, message, self.now()))
            if verdict != "confirmed":
                return results.unconfirmed(message.tool_name, verdict)
        return await self._execute(call, found, message)

    async def _answer_itself(self, message: RunTool) -> bytes | dict[str, Any]:
        """The result of one of the tools that stand for those of lazy servers (F-68)."""
        params = message.params.data
        try:
            if message.tool_name == lazy.SEARCH:
                result = lazy.search(params, self._catalogue.unlisted())
            elif message.tool_name == lazy.DESCRIBE:
                name = lazy.described_name(params)
                found = self._catalogue.find(name)
                if not isinstance(found, Route):
                    return self._refuse(name, found)
                result = lazy.describe(self._catalogue.definition(name))
            else:
                lazy.unwrapped(message)  # which it could not be
                return results.unknown_tool(message.tool_name)
        except lazy.Misused as error:
            return results.malformed_request(f"{message.tool_name}: {error}", field="params")
        return await offload(to_json(result), self._settings.ack_budget, self._settings.offload, self._spool)

    def _refuse(self, name: str, found: Refused | Lost | None) -> dict[str, Any]:
        match found:
            case Refused():
                return results.disabled_tool(name, found.bundle_id)
            case Lost():
                state = outcome.state_text(self._states.get(found.bundle_id), self._wall_clock())
                return results.not_connected(state, found.bundle_id)
            case None:
                return results.unknown_tool(name)

    async def _execute(self, call: Call, route: Route, message: RunTool) -> bytes | dict[str, Any]:
        ended = "cancelled"
        try:
            answer, ended = await self._hand_over(call, route, message)
            if isinstance(answer, bytes) and ended == "answered" and route.vrl and route.vrl.strip():
                answer = await self._transform(answer, call, route, message)
            if not isinstance(answer, bytes):
                return answer
            return await offload(answer, self._settings.ack_budget, self._settings.offload, self._spool)
        finally:
            self._record(call, route, ended)

    async def _hand_over(self, call: Call, route: Route, message: RunTool) -> tuple[bytes | dict[str, Any], str]:
        remaining = call.remaining(self.now())
        ask = CallTool(route.original, message.params, remaining, message.req_id, route.repeatable, wake=route.lazy)
        call.handed_over = True
        try:
            target = Address(f"mcp/{route.bundle_id}")
            reported = await self._asked(target, ask, remaining + self._settings.answer_grace, call, route)
        except BusError as error:
            return outcome.lost(error, call), error.code
        except SmcpError as error:
            logger.warning("%s could not be called: %s", route.exposed, error.code)
            return results.failed("The MCP server could not be called", route.bundle_id, "unknown"), "failed"
        return outcome.answer(reported, route, call), reported.ended

    async def _asked(self, target: Address, ask: CallTool, limit: float, call: Call, route: Route) -> ToolOutcome:
        """What the server's actor reports; a lazy server may have none before it is called (F-68)."""
        try:
            return await self.ask(target, ask, timeout=limit)
        except Undeliverable:
            if not route.lazy:
                raise
        call.handed_over = False
        try:
            await self.ask(RECONCILE, SeatServer(route.bundle_id), timeout=call.remaining(self.now()))
        except DeadlineExceeded:
            return ToolOutcome("timeout", executed="no")
        except SmcpError as error:
            logger.warning("%s could not be given an actor: %s", route.bundle_id, error.code)
            return ToolOutcome("not_connected", executed="no", text="it could not be started")
        call.handed_over = True
        left = call.remaining(self.now())
        again = msgspec.structs.replace(ask, timeout=left)
        return await self.ask(target, again, timeout=left + self._settings.answer_grace)

    async def _transform(self, result: bytes, call: Call, route: Route, message: RunTool) -> bytes:
        """The result with what its script made of it, or as it was when the script did not get that far."""
        limit = min(self._settings.vrl_timeout, call.remaining(self.now()))
        try:
            with anyio.fail_after(call.remaining(self.now())):
                run = ScriptRun(
                    route.vrl or "", result, route.original, message.params.data, self._settings.offload.inline
                )
                event = await self._scripts.run(run, limit)
        except (vrl.ScriptFailed, vrl.EngineMissing, TimeoutError) as error:
            logger.warning("the script of %s did not transform a result: %s", route.bundle_id, type(error).__name__)
            return result
        return vrl.attach(result, event)

    async def _spool(self, data: bytes, mime_type: str) -> BlobTicket:
        return await self.ask(BLOBS, SpoolBytes(Attachment(data), mime_type))

    def _record(self, call: Call, route: Route, ended: str) -> None:
        duration = self.now() - call.began
        record = CallRecord(call.req_id, route.bundle_id, route.original, ended, self._wall_clock(), duration)
        self._history.add(record)
        self.publish(CallFinished(record))

    def _audit(self, message: RunTool, ended: CallOutcome, duration: float) -> None:
        found = self._catalogue.find(message.tool_name)
        bundle_id = found.bundle_id if found is not None else ""
        call = CallEnded(
            message.req_id, message.agent, message.tool_name, bundle_id, ended, self._wall_clock(), duration
        )
        audit.write(call)
        self.publish(call)

    # -- waiting ----------------------------------------------------------------------

    async def _first_commit(self, limit: float) -> None:
        if not self._ready.is_set():
            with anyio.move_on_after(limit):
                await self._ready.wait()

    async def _no_calls(self) -> None:
        while len(self._calls):
            drained = anyio.Event()
            self._drains.append(drained)
            await drained.wait()
