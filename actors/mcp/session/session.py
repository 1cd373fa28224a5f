"""One negotiated MCP session, in which servers of the handshake era and of 2026-07-28 look alike.

The library negotiates, which nobody outside this folder sees (F-52); calls, lists and reads go past it as
JSON text. Entered, used and left by one owner task (F-30); others only await its methods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from ....wire import tracing
from ....wire.messages.mcp import Completions
from ..failures import ConnectionLost, ErrorAnswer, RequestFailed, SessionForgotten, TimeLimitReached, UnusableAnswer
from ..transports.connection import Connection
from ..transports.dispatcher import NO_HEADERS
from ..transports.jsonrpc import RequestId, one_line
from .listing import PAGE_LIMIT, Kind, Listing, Page, read_page
from .loading import client_class
from .negotiated import Capabilities, Negotiated

if TYPE_CHECKING:
    from .sdk.client import Client

REQ_ID = "a2c_req_id"
"""Member of `_meta` with the id of the Agent's call, so that a server's log can be joined with everybody else's."""
LIST_LIMIT = 60.0
"""Seconds for all pages of a list."""
STDIO_PATIENCE = 0.15
HTTP_PATIENCE = 1.0
"""Seconds before the older handshake is tried beside the newer question. Over HTTP an unused handshake leaves a
session behind on the server, so it has the longer one."""
RENEW_LIMIT = 15.0
"""Seconds for the handshake that replaces a forgotten session."""
COMPLETIONS_MAX = 100
"""Values of one completion, the most that MCP lets a server propose."""


class _Result(msgspec.Struct):
    resultType: str = "complete"


def _result_type(result: bytes) -> str:
    try:
        return msgspec.json.decode(result, type=_Result).resultType
    except msgspec.MsgspecError as error:
        raise UnusableAnswer("the type of the result of the call cannot be read") from error


class _Proposed(msgspec.Struct):
    values: list[str]
    total: int | None = None
    hasMore: bool | None = None


class _Completed(msgspec.Struct):
    completion: _Proposed


class Session:
    """A session over an open connection. `async with` negotiates it; leaving ends the session, not the connection.

    Args:
        on_renewed: Called after a forgotten session was replaced (DEC-9): subscriptions are gone, lists may differ.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        patience: float,
        older_only: bool = False,
        on_renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self._connection = connection
        self._dispatcher = connection.dispatcher
        self._client: Client | None = None
        self._patience, self._older_only = patience, older_only
        self._names: dict[str, bytes] = {}
        self._on_renewed = on_renewed
        self._renewal: asyncio.Future[None] | None = None
        self._renewal_wanted = asyncio.Event()
        self._negotiated = Negotiated()

    async def __aenter__(self) -> Session:
        client = (await client_class.get())(self._dispatcher)
        self._settled(await client.open(patience=self._patience, older_only=self._older_only))
        self._client = client
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open_client.close()

    @property
    def modern(self) -> bool:
        """Whether the server speaks the era of 2026-07-28."""
        return self._negotiated.modern

    @property
    def protocol(self) -> str:
        """The version that was agreed on."""
        return self._negotiated.protocol

    @property
    def server_name(self) -> str | None:
        """What the server calls itself."""
        return self._negotiated.server_name

    @property
    def capabilities(self) -> Capabilities:
        """What it declared."""
        return self._negotiated.capabilities

    @property
    def _open_client(self) -> Client:
        assert self._client is not None, "the session has not been entered"
        return self._client

    def _settled(self, negotiated: Negotiated) -> None:
        self._negotiated = negotiated
        self._connection.negotiated(negotiated.protocol, modern=negotiated.modern)

    # -- a forgotten session --------------------------------------------------------------

    async def keep(self) -> None:
        """Replaces the session whenever the server has forgotten it; the owner runs this as long as it lasts (DEC-9).

        A handshake that fails ends the connection, because then the server is lost.
        """
        while True:
            await self._renewal_wanted.wait()
            self._renewal_wanted.clear()
            renewal, failure = self._renewal, None
            try:
                async with asyncio.timeout(RENEW_LIMIT):
                    await self._renew()
            except (RequestFailed, TimeoutError) as error:
                failure = ConnectionLost(f"no new session with the server ({type(error).__name__})", sent=False)
                self._dispatcher.close(failure)
            self._renewal = None
            if renewal is not None and not renewal.done():
                renewal.set_result(None)
            if failure is None:
                self._on_renewed()

    def forgotten(self, session_id: str) -> asyncio.Future[None] | None:
        """Asks for a new session in place of this one; what to wait for, `None` when it has been replaced already."""
        if self._renewal is None and session_id == self._connection.session_id and not self._dispatcher.closed.done():
            self._renewal = asyncio.get_running_loop().create_future()
            self._renewal_wanted.set()
        return self._renewal

    async def _renew(self) -> None:
        self._connection.renegotiate()
        self._settled(await self._open_client.renew(self.protocol))

    # -- requests -----------------------------------------------------------------------

    async def call(
        self,
        tool: str,
        arguments: bytes,
        *,
        timeout: float,
        idle: float | None = None,
        req_id: str = "",
        traceparent: str = "",
    ) -> bytes:
        """Calls a tool by its own name; its `CallToolResult` as the server sent it.

        Every call carries a progress token: a server that reports progress is known to be alive while it works. It
        also carries the id under which the Agent made it (F-72), and its place in a trace if there is one.

        Raises:
            RequestFailed: There is no result.
        """
        token = self._dispatcher.new_id()
        name = self._names.get(tool) or self._names.setdefault(tool, msgspec.json.encode(tool))
        parameters = b'{"name":%b,"arguments":%b,"_meta":{%b"progressToken":%d}}' % (
            name,
            one_line(arguments),
            self._negotiated.stamp + _origin(req_id, traceparent),
            token,
        )
        headers = NO_HEADERS
        if self.modern:
            headers = self._open_client.headers("tools/call", tool, arguments)
        result = await self._send("tools/call", parameters, timeout, headers, request_id=token, idle=idle, work=True)
        if not result.startswith(b"{"):
            raise UnusableAnswer("the result of the call is not an object")
        if self.modern and _result_type(result) == "input_required":
            raise UnusableAnswer("the tool asks for further input, which cannot be given here")
        return result

    async def page(self, kind: Kind, cursor: str | None = None, *, timeout: float = PAGE_LIMIT) -> Page:
        """One page of a list.

        Raises:
            RequestFailed: There is none.
        """
        result = await self._ask(f"{kind}/list", {} if cursor is None else {"cursor": cursor}, timeout)
        try:
            return read_page(result, kind)
        except msgspec.MsgspecError as error:
            raise UnusableAnswer(f"the answer to {kind}/list cannot be read") from error

    async def list_all(self, kind: Kind) -> Listing:
        """All pages of a list.

        Raises:
            RequestFailed: A page did not come; pages read before it are lost.
        """
        listing = Listing(kind)
        try:
            async with asyncio.timeout(LIST_LIMIT):
                cursor = listing.add(await self.page(kind))
                while cursor is not None:
                    cursor = listing.add(await self.page(kind, cursor))
        except TimeoutError as error:
            raise TimeLimitReached(LIST_LIMIT) from error
        if kind == "tools" and self.modern:
            self._open_client.absorb(listing)
        return listing

    async def read(self, uri: str, *, timeout: float) -> bytes:
        """The `contents` array of a resource, as sent.

        Raises:
            RequestFailed: There is none.
        """
        result = await self._ask("resources/read", {"uri": uri}, timeout, uri)
        try:
            contents = msgspec.json.decode(result, type=dict[str, msgspec.Raw])["contents"]
        except (msgspec.MsgspecError, KeyError) as error:
            raise UnusableAnswer("the answer to resources/read has no contents") from error
        return bytes(contents)

    async def complete(
        self, template: str, argument: str, value: str, known: Mapping[str, str], *, timeout: float
    ) -> Completions:
        """What the server proposes for an argument of a resource template.

        Args:
            known: Arguments that are settled already.
        Raises:
            RequestFailed: It proposes nothing.
        """
        members = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": argument, "value": value}}
        context = {"context": {"arguments": dict(known)}} if known else {}
        result = await self._ask("completion/complete", {**members, **context}, timeout)
        try:
            found = msgspec.json.decode(result, type=_Completed).completion
        except msgspec.MsgspecError as error:
            raise UnusableAnswer("the answer to completion/complete cannot be read") from error
        return Completions(tuple(found.values[:COMPLETIONS_MAX]), found.total, bool(found.hasMore))

    async def probe(self, request: str, *, timeout: float) -> None:
        """Any answer to `request` proves life, an error too.

        Raises:
            RequestFailed: There was none.
        """
        with suppress(ErrorAnswer, UnusableAnswer):
            await self._ask(request, {}, timeout)

    async def subscribe(self, uri: str, *, on: bool = True, timeout: float = PAGE_LIMIT) -> None:
        """Subscribes to a resource of a handshake-era server, or ends that.

        Raises:
            RequestFailed: The server did not agree.
        """
        await self._ask("resources/subscribe" if on else "resources/unsubscribe", {"uri": uri}, timeout)

    async def listen(self, uris: Sequence[str], on_open: Callable[[Collection[str]], None]) -> None:
        """Keeps a 2026-07-28 server announcing changes of its lists and of `uris`; returns when that has ended.

        What it announces comes like any other notification; `on_open` tells that it does from now on, and
        which of the URIs the server has agreed to.

        Raises:
            RequestFailed: The stream broke, or the server does not serve it.
        """
        await self._open_client.listen(self.capabilities, uris, on_open)

    async def _ask(self, method: str, members: Mapping[str, object], timeout: float, name: str | None = None) -> bytes:
        body = msgspec.json.encode(members)
        if self._negotiated.stamp:
            body = b'{"_meta":{%b}%b' % (self._negotiated.stamp[:-1], b"," + body[1:] if members else b"}")
        headers = self._open_client.headers(method, name) if self.modern else NO_HEADERS
        parameters = body if members or self._negotiated.stamp else None
        return await self._send(method, parameters, timeout, headers)

    async def _send(
        self,
        method: str,
        parameters: bytes | None,
        timeout: float,
        headers: Mapping[str, str],
        *,
        request_id: RequestId | None = None,
        idle: float | None = None,
        work: bool = False,
    ) -> bytes:
        """Sends a request, once more if it met a forgotten session; nothing that was executed is sent twice."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if self._renewal is not None:
            await asyncio.wait([self._renewal], timeout=timeout)
        for again in (True, False):
            try:
                return await self._dispatcher.request(
                    method,
                    parameters,
                    timeout=deadline - loop.time(),
                    request_id=request_id,
                    idle=idle,
                    headers=headers,
                    work=work,
                )
            except SessionForgotten as forgotten:
                if not again:
                    raise
                renewal = self.forgotten(forgotten.session_id)
                if renewal is not None:
                    await asyncio.wait([renewal], timeout=deadline - loop.time())
        raise AssertionError  # pragma: no cover - the loop returns or raises


def _origin(req_id: str, traceparent: str) -> bytes:
    """Members of `_meta` that say where a call comes from."""
    members = {REQ_ID: req_id, tracing.FIELD: traceparent}
    known = {name: value for name, value in members.items() if value}
    return msgspec.json.encode(known)[1:-1] + b"," if known else b""
