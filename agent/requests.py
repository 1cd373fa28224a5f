"""Every request an Agent can make, one typed method each.

A method returns the structure of a success or raises; an empty or foreign acknowledgement
is never taken for an empty result (W-ERR-3, W-ERR-5). Higher-level reading and writing
of the channels builds on these in `channels.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import UNSET

from ..bus.link import SmcpLink
from ..wire import tracing
from ..wire.base import to_json
from ..wire.blobs import GetBlobReq, GetBlobRet, PutBlobChunk, PutBlobRet
from ..wire.config import GetComputerConfigReq, GetComputerConfigRet, read_config
from ..wire.documents import GetDpeReq, GetDpeRet, ListFinderReq, ListFinderRet
from ..wire.errors import InvalidPayload, MalformedReplyError, NetworkError, SmcpError
from ..wire.events import (
    CLIENT_GET_CONFIG,
    CLIENT_TOOL_CALL,
    GET_BLOB,
    GET_DESKTOP,
    GET_DPE,
    GET_RESOURCES,
    GET_SKILL,
    GET_SKILLS,
    GET_TOOLS,
    LIST_FINDER,
    PUT_BLOB,
    SERVER_LIST_ROOM,
    SERVER_TOOL_CALL_CANCEL,
    Call,
    read_room,
)
from ..wire.protocol import (
    AGENT_TOOL_MARGIN,
    DPE_TIMEOUT,
    DPE_TIMEOUT_MAX,
    FINDER_PAGE,
    TOOL_TIMEOUT_MAX,
    TOOL_TIMEOUT_MIN,
)
from ..wire.resources import GetDeskTopReq, GetDeskTopRet, GetResourcesReq, GetResourcesRet
from ..wire.results import timed_out_locally
from ..wire.rooms import AgentCallData, ListRoomReq, ListRoomRet
from ..wire.skills import GetSkillReq, GetSkillRet, GetSkillsReq, GetSkillsRet
from ..wire.tools import GetToolsReq, GetToolsRet, ToolCallReq
from . import replies
from .tool_result import CallToolResult

Ret = TypeVar("Ret")

DEFAULT_TOOL_TIMEOUT = 60
CANCEL_WAIT = 5.0

_log = logging.getLogger(__name__)


class Requests:
    """The requests of one Agent over its link. Base of `AsyncAgent`.

    Every method but `tool_call` raises `PeerError` (the peer's ErrorPayload), `MalformedReplyError`, and
    `NetworkError` for no answer in time (`no_answer`), no office (`not_joined`) or a lost connection.
    """

    _link: SmcpLink

    def __init__(self, *, name: str, office: str, ack_timeout: float, tool_margin: float) -> None:
        self._name = name
        self._office = office
        self._ack_timeout = ack_timeout
        self._tool_margin = tool_margin
        # A prefix nobody else draws, and a counter: unique, never reused, and cheap to make.
        self._request_prefix = uuid.uuid4().hex
        self._request_numbers = itertools.count(1)
        self._background: set[asyncio.Task[Any]] = set()
        self._cancelling: set[asyncio.Task[Any]] = set()

    def new_req_id(self) -> str:
        """A request id that was never used before, for calls that shall be cancelled from elsewhere."""
        return f"{self._request_prefix}-{next(self._request_numbers):x}"

    # --- the office ---

    async def list_room(self) -> ListRoomRet:
        """Everybody in the office, this Agent included (W-ROOM-40)."""
        req_id = self.new_req_id()
        request = ListRoomReq(agent=self._name, req_id=req_id, office_id=self._office)
        values = await self._answered(SERVER_LIST_ROOM, to_json(request), self._ack_timeout)
        return read_room(replies.read_object(SERVER_LIST_ROOM, values), req_id)

    # --- tools ---

    async def get_tools(self, computer: str) -> GetToolsRet:
        """The tools of a Computer, ordered by exposed name."""
        req_id = self.new_req_id()
        return await self._ask(GET_TOOLS, GetToolsReq(agent=self._name, req_id=req_id, computer=computer), req_id)

    async def tool_call(
        self,
        computer: str,
        tool_name: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: int = DEFAULT_TOOL_TIMEOUT,
        req_id: str | None = None,
        fetch: bool = True,
    ) -> CallToolResult:
        """Calls a tool; a call that failed returns too, with `is_error`.

        Cancelling the task that waits cancels the call at the Computer. A call without an answer in
        `timeout` seconds plus a margin is cancelled as well and returns a result that says so (W-CALL-11).

        Args:
            computer: Where the tool is.
            tool_name: Its exposed name, as listed.
            params: Its arguments, JSON values.
            timeout: Whole seconds the Computer may take, 1 to 3600.
            req_id: An id of `new_req_id`, for a call that `cancel` may end.
            fetch: Whether large binaries are fetched and put into the result (W-CALL-26).
        Raises:
            PeerError: The call was refused on its way, `details["a2c_outcome"]` says whether it can have run.
            NetworkError: Not joined, or the connection was lost meanwhile; with `a2c_outcome` as well.
            MalformedReplyError: The answer is no result.
            InvalidPayload: `params` or `timeout` cannot be sent.
        """
        req_id = req_id or self.new_req_id()
        payload = self._tool_request(computer, tool_name, params, timeout, req_id)
        try:
            values = await self._sent(CLIENT_TOOL_CALL, payload, timeout + self._tool_margin, req_id)
            result = CallToolResult.read(replies.read_object(CLIENT_TOOL_CALL, values), req_id)
        except TimeoutError:
            await self._send_cancel(req_id)
            return CallToolResult.read(timed_out_locally(timeout + self._tool_margin), req_id)
        except asyncio.CancelledError:
            # This task may not wait any more, so the cancellation travels without it.
            sending = self._in_background(self._send_cancel(req_id))
            self._cancelling.add(sending)
            sending.add_done_callback(self._cancelling.discard)
            raise
        except SmcpError as error:
            error.details["req_id"] = req_id
            raise replies.with_outcome(error) from error.__cause__
        return await self._resolved(computer, result) if fetch else result

    def _tool_request(
        self, computer: str, tool_name: str, params: Mapping[str, Any] | None, timeout: int, req_id: str
    ) -> bytes:
        whole = isinstance(timeout, int | float) and not isinstance(timeout, bool)
        if not (whole and TOOL_TIMEOUT_MIN <= timeout <= TOOL_TIMEOUT_MAX and int(timeout) == timeout):
            raise InvalidPayload("timeout", f"whole seconds in {TOOL_TIMEOUT_MIN}…{TOOL_TIMEOUT_MAX}")
        try:
            return to_json(
                ToolCallReq(
                    agent=self._name,
                    req_id=req_id,
                    computer=computer,
                    tool_name=tool_name,
                    params=dict(params or {}),
                    timeout=int(timeout),
                )
            )
        except (TypeError, ValueError, RecursionError):
            raise InvalidPayload("params", "an object of JSON values") from None

    async def _resolved(self, computer: str, result: CallToolResult) -> CallToolResult:
        """The result with its large binaries in place; the class that can read blobs does it."""
        return result

    async def cancel(self, req_id: str) -> None:
        """Asks the Computer to end a running call; its outcome is the answer to that call (W-CALL-15).

        Raises:
            NetworkError: Not joined, or the connection is lost.
        """
        request = AgentCallData(agent=self._name, req_id=req_id)
        try:
            await self._link.emit(SERVER_TOOL_CALL_CANCEL, to_json(request), CANCEL_WAIT)
        except TimeoutError:
            raise NetworkError("the network takes no more", code="no_answer") from None

    async def _send_cancel(self, req_id: str) -> None:
        try:
            await self.cancel(req_id)
        except SmcpError as error:
            _log.info("call %s could not be cancelled: %s", req_id, error)

    # --- configuration, resources ---

    async def get_config(self, computer: str) -> GetComputerConfigRet:
        """The configuration a Computer shows, secrets masked. Entries in unknown forms are left out and logged."""
        request = GetComputerConfigReq(agent=self._name, req_id=self.new_req_id(), computer=computer)
        values = await self._answered(CLIENT_GET_CONFIG, to_json(request), self._ack_timeout)
        answer = replies.read_object(CLIENT_GET_CONFIG, values)
        try:
            config, notes = read_config(answer)
        except InvalidPayload as fault:
            raise MalformedReplyError(f"the reply to {CLIENT_GET_CONFIG} is malformed: {fault.message}") from None
        for note in notes:
            _log.warning("configuration of %s: %s", computer, note)
        return config

    async def get_resources(self, computer: str, mcp_server: str, cursor: str | None = None) -> GetResourcesRet:
        """One page of the resources of one MCP server, named by its bundle_id."""
        req_id = self.new_req_id()
        request = GetResourcesReq(
            agent=self._name, req_id=req_id, computer=computer, mcp_server=mcp_server, cursor=_given(cursor)
        )
        return await self._ask(GET_RESOURCES, request, req_id)

    # --- channels ---

    async def get_desktop(self, computer: str, *, size: int | None = None, window: str | None = None) -> GetDeskTopRet:
        """The windows of a Computer: at most `size`, or those equal to `window`."""
        req_id = self.new_req_id()
        request = GetDeskTopReq(
            agent=self._name, req_id=req_id, computer=computer, desktop_size=_given(size), window=_given(window)
        )
        return await self._ask(GET_DESKTOP, request, req_id)

    async def get_skills(self, computer: str) -> GetSkillsRet:
        """The active skills of a Computer."""
        req_id = self.new_req_id()
        return await self._ask(GET_SKILLS, GetSkillsReq(agent=self._name, req_id=req_id, computer=computer), req_id)

    async def get_skill(self, computer: str, name: str, rel_path: str | None = None) -> GetSkillRet:
        """One file of a skill, `SKILL.md` by default: its text, or a handle for its bytes."""
        req_id = self.new_req_id()
        request = GetSkillReq(agent=self._name, req_id=req_id, computer=computer, name=name, rel_path=_given(rel_path))
        ret = await self._ask(GET_SKILL, request, req_id)
        if (ret.body is UNSET) == (ret.blob_handle is UNSET):
            raise MalformedReplyError("a skill file comes as text or as a handle, and as one of them")
        return ret

    async def get_blob(
        self, computer: str, blob_handle: str, *, offset: int = 0, max_bytes: int | None = None
    ) -> GetBlobRet:
        """One chunk of a blob, from `offset` on."""
        req_id = self.new_req_id()
        request = GetBlobReq(
            agent=self._name,
            req_id=req_id,
            computer=computer,
            blob_handle=blob_handle,
            chunk_offset=offset,
            max_chunk_bytes=_given(max_bytes),
        )
        return await self._ask(GET_BLOB, request, req_id)

    async def put_blob(
        self,
        computer: str,
        blob: str,
        *,
        offset: int,
        eof: bool,
        upload_id: str | None = None,
        total_size: int | None = None,
        sha256: str | None = None,
        name_hint: str | None = None,
    ) -> PutBlobRet:
        """One chunk of an upload, in base64; size and hash are declared with the first one (C-UP-1)."""
        req_id = self.new_req_id()
        request = PutBlobChunk(
            agent=self._name,
            req_id=req_id,
            computer=computer,
            chunk_offset=offset,
            eof=eof,
            blob=blob,
            upload_id=_given(upload_id),
            total_size=_given(total_size),
            sha256=_given(sha256),
            name_hint=_given(name_hint),
        )
        return await self._ask(PUT_BLOB, request, req_id)

    # --- documents ---

    async def list_finder(
        self,
        computer: str,
        *,
        tags: Sequence[str] = (),
        file_type: str | None = None,
        offset: int = 0,
        limit: int = FINDER_PAGE,
    ) -> ListFinderRet:
        """One page of the document catalogue of a Computer.

        Raises:
            MalformedReplyError: Also when the peer has no document channel, code `unsupported` (W-DOC-2, C-DOC-1).
        """
        req_id = self.new_req_id()
        request = ListFinderReq(
            agent=self._name,
            req_id=req_id,
            computer=computer,
            tags=tuple(tags),
            file_type=_given(file_type),
            offset=offset,
            limit=limit,
        )
        return await _documents(self._ask(LIST_FINDER, request, req_id))

    async def get_dpe(self, computer: str, uri: str, *, timeout: float = DPE_TIMEOUT) -> GetDpeRet:
        """Where the content of a `dpe://` URI can be read; `timeout` seconds cover reading and resolving.

        Raises:
            MalformedReplyError: Also when the peer has no document channel, code `unsupported` (W-DOC-2, C-DOC-1).
        """
        req_id = self.new_req_id()
        request = GetDpeReq(agent=self._name, req_id=req_id, computer=computer, uri=uri, timeout=timeout)
        wait = min(timeout, DPE_TIMEOUT_MAX) + AGENT_TOOL_MARGIN
        return await _documents(self._ask(GET_DPE, request, req_id, wait))

    # --- how ---

    async def _ask(self, call: Call[Any, Ret], request: Any, req_id: str, timeout: float | None = None) -> Ret:
        try:
            payload = to_json(request)
        except (TypeError, ValueError, RecursionError):
            raise InvalidPayload("$", "JSON values of whole characters") from None
        values = await self._answered(call.event, payload, self._ack_timeout if timeout is None else timeout)
        return replies.read(call, values, req_id)

    async def _answered(self, event: str, payload: bytes, timeout: float) -> list[Any]:
        try:
            return await self._sent(event, payload, timeout)
        except TimeoutError:
            raise NetworkError(
                f"no answer to {event} within {timeout:g} s", code=NO_ANSWER, details={"executed": "unknown"}
            ) from None

    async def _sent(self, event: str, payload: bytes, timeout: float, req_id: str = "") -> list[Any]:
        """One request and its acknowledgement, as a span where the application traces."""
        if not tracing.is_on() or not event.startswith("client:"):
            return await self._link.call(event, payload, timeout)
        with tracing.span(event, "client", smcp__req_id=req_id, smcp__office=self._office) as span:
            return await self._link.call(event, tracing.stamped(payload, span.traceparent), timeout)

    def _in_background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs something this Agent owns; `close` ends what is left."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


NO_ANSWER = "no_answer"


async def _documents(answer: Coroutine[Any, Any, Ret]) -> Ret:
    """An answer of the document channel; a peer without it acknowledges with nothing, or not at all (C-DOC-1)."""
    try:
        return await answer
    except (MalformedReplyError, NetworkError) as error:
        if error.code not in ("unsupported", NO_ANSWER):
            raise
        raise MalformedReplyError("document channel not supported by peer", code="unsupported") from error


def _given(value: Any) -> Any:
    """An optional argument as an optional field: absent rather than null (W-GEN-3)."""
    return UNSET if value is None else value
