"""AsyncAgent: a connection to an office, and everything that can be done there."""

from __future__ import annotations

import asyncio
import functools
import logging
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal

import anyio
import msgspec

from ..bus.link import AuthSource, LinkChange, LinkOptions, Reply, SmcpLink
from ..wire.backoff import Backoff
from ..wire.documents import DocumentSummary
from ..wire.errors import ConfigValidationError, SmcpError
from ..wire.events import NOTIFY_UPDATE_DESKTOP, NOTIFY_UPDATE_FINDER, NOTIFY_UPDATE_SKILLS
from ..wire.protocol import (
    AGENT_ACK_WAIT,
    AGENT_TOOL_MARGIN,
    DEFAULT_TRANSPORTS,
    NAMESPACE,
    PROTOCOL_VERSION,
    SOCKETIO_PATH,
)
from ..wire.skills import A2CSkillRef
from .channels import Channels
from .follow import follow
from .notices import Notices
from .room import Room
from .tool_cache import ToolCache

CLOSE_WAIT = 5.0

_log = logging.getLogger(__name__)


class AsyncAgent(Channels):
    """An Agent in one office.

    Use it as ``async with AsyncAgent(url, name="planner", office="room-1") as agent: …``, which connects and
    joins, or call `connect` and `close`. It is bound to the event loop (asyncio) it connects on.

    Args:
        url: `http(s)://host[:port][?query]` of the Server.
        name: Unique among everybody joined to the Server.
        office: Office to join; an Agent is alone of its kind there.
        auth: Credentials for the `auth` object, or a function asked at every attempt.
        headers: HTTP headers of every request.
        tls: An SSL context, `True` for the system's trust, `False` to trust anybody.
        namespace, socketio_path, transports, version: As deployed.
        connect_timeout: Seconds a connection attempt may take, and before it the function that gives the credentials.
        reconnect, backoff, rejoin_budget: How a lost connection is repaired (DEC-17).
        ack_timeout: Seconds to wait for any answer but that of a tool call.
        tool_margin: Seconds a tool call waits beyond its own limit (W-CALL-11).
        watch_tools: Whether `tools` is kept current.
    Raises:
        ConfigValidationError: A value is unusable.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        office: str,
        auth: AuthSource = None,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | bool = True,
        namespace: str = NAMESPACE,
        socketio_path: str = SOCKETIO_PATH,
        transports: tuple[str, ...] = DEFAULT_TRANSPORTS,
        version: str = PROTOCOL_VERSION,
        connect_timeout: float = 10.0,
        reconnect: bool = True,
        backoff: Backoff = Backoff(),  # noqa: B008  frozen
        rejoin_budget: float = 60.0,
        ack_timeout: float = AGENT_ACK_WAIT,
        tool_margin: float = AGENT_TOOL_MARGIN,
        watch_tools: bool = True,
    ) -> None:
        for field, value in (("name", name), ("office", office)):
            if not (isinstance(value, str) and value and value == value.encode(errors="replace").decode()):
                raise ConfigValidationError(f"the {field} of an Agent is some text of whole characters", field=field)
        if tool_margin < 0:
            raise ConfigValidationError("a margin is not negative", field="tool_margin")
        super().__init__(name=name, office=office, ack_timeout=ack_timeout, tool_margin=tool_margin)
        options = LinkOptions(
            url=url,
            namespace=namespace,
            socketio_path=socketio_path,
            headers=dict(headers or {}),
            auth=auth,
            transports=transports,
            tls=tls,
            connect_timeout=connect_timeout,
            reconnect=reconnect,
            backoff=backoff,
            rejoin_budget=rejoin_budget,
            version=version,
        )
        self._link = SmcpLink(options, on_event=self._on_event, on_change=self._on_change)
        self._room = Room(office, self, self._in_background, watch_tools=watch_tools)

    # --- life ---

    async def connect(self) -> None:
        """Connects and joins.

        Raises:
            ProtocolVersionError: The Server speaks another version; it is not asked again.
            AuthError: The Server refused the credentials.
            NetworkError: The Server cannot be reached or does not answer.
            ConflictError: The office has an Agent already, or the name is taken.
            PolicyError: The Server refused for another reason.
        """
        await self._link.connect()
        try:
            await self._link.join("agent", self._name, self._office)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Leaves and disconnects, in bounded time. Cancellations on their way are sent first. Safe to call twice."""
        with anyio.move_on_after(CLOSE_WAIT, shield=True):
            if self._cancelling:
                await asyncio.wait(self._cancelling, timeout=CLOSE_WAIT / 2)
            work = list(self._background)
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await self._link.disconnect()
        self._room.close()

    async def __aenter__(self) -> AsyncAgent:
        await self.connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def wait_joined(self) -> None:
        """Waits until the office is joined, for example after a lost connection.

        Raises:
            SmcpError: It will not be, and why.
        """
        await self._link.wait_for("joined")

    # --- what is known ---

    @property
    def name(self) -> str:
        """The name it joined under, `agent` in all its requests (W-AGT-8)."""
        return self._name

    @property
    def office(self) -> str:
        """The office it belongs to."""
        return self._office

    @property
    def state(self) -> Literal["idle", "connecting", "connected", "joined", "ended"]:
        """State of the connection; requests can be made while `joined`."""
        return self._link.state

    @property
    def transport(self) -> str | None:
        """`websocket` or `polling`, while connected."""
        return self._link.transport

    @property
    def failure(self) -> SmcpError | None:
        """Why it is out of its office for good."""
        return self._link.failure

    @property
    def tools(self) -> ToolCache:
        """The tools of every Computer present, kept current by notifications."""
        return self._room.tools

    async def wait_tools(self) -> ToolCache:
        """`tools`, once those of everybody present are known or known to be unavailable.

        Raises:
            ConfigValidationError: The Agent was made with `watch_tools=False`.
            SmcpError: They will not be, and why.
        """
        await self._room.settled()
        return self.tools

    def notifications(self) -> Notices:
        """Everything the office tells from now on; ends when the Agent does, at once if it has ended."""
        return self._room.subscribe()

    def follow_desktop(
        self, computer: str, *, size: int | None = None, window: str | None = None
    ) -> AsyncGenerator[tuple[str, ...], None]:
        """`desktop` now, and again after each change (E-24)."""
        fetch = functools.partial(self.desktop, computer, size=size, window=window)
        return follow(self.notifications(), computer, NOTIFY_UPDATE_DESKTOP, fetch)

    def follow_skills(self, computer: str) -> AsyncGenerator[tuple[A2CSkillRef, ...], None]:
        """`skills` now, and again after each change (E-25, C-SKILL-78)."""
        fetch = functools.partial(self.skills, computer)
        return follow(self.notifications(), computer, NOTIFY_UPDATE_SKILLS, fetch)

    def follow_documents(
        self, computer: str, *, tags: Sequence[str] = (), file_type: str | None = None
    ) -> AsyncGenerator[tuple[DocumentSummary, ...], None]:
        """`documents` now, and again after each change (E-32, C-DOC-30)."""
        fetch = functools.partial(self.documents, computer, tags=tags, file_type=file_type)
        return follow(self.notifications(), computer, NOTIFY_UPDATE_FINDER, fetch)

    async def sole_computer(self) -> str:
        """The name of the Computer, if there is exactly one in the office.

        Raises:
            ConfigValidationError: There is none, or one has to be chosen.
        """
        room = await self.list_room()
        computers = sorted(member.name for member in room.sessions if member.role == "computer")
        if len(computers) != 1:
            found = f"choose one of {', '.join(computers)}" if computers else "no Computer is there"
            hint = "name the Computer" if computers else "have a Computer join the office, or look in another office"
            raise ConfigValidationError(
                f"office {self._office}: {found}", code="computer", field="computer", retry_hint=hint
            )
        return computers[0]

    # --- what arrives ---

    def _on_event(self, event: str, data: msgspec.Raw | None, reply: Reply | None) -> None:
        if reply is not None:
            # Nothing is asked of an Agent; an empty acknowledgement says so (W-EVT-3).
            self._in_background(reply.send())
        self._room.on_event(event, data)

    def _on_change(self, change: LinkChange) -> None:
        self._room.on_change(change)
