"""Every event by name, and what travels with it (01 §5).

A `Call` is asked of a Computer through the Server, an `Update` is told to the Server and
broadcast, an `OfficeEvent` is answered by the Server itself. Names match exactly: the
spelling with underscores is not ours (W-GEN-4).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from .base import Structure, convert
from .blobs import GetBlobReq, GetBlobRet, PutBlobReq, PutBlobRet
from .config import GetComputerConfigReq, GetComputerConfigRet
from .documents import GetDpeReq, GetDpeRet, ListFinderReq, ListFinderRet
from .errors import InvalidPayload, MalformedReplyError
from .payload import raise_for_error
from .resources import GetDeskTopReq, GetDeskTopRet, GetResourcesReq, GetResourcesRet
from .rooms import (
    AgentCallData,
    EnterOfficeNotification,
    EnterOfficeReq,
    LeaveOfficeNotification,
    LeaveOfficeReq,
    ListRoomReq,
    ListRoomRet,
    Role,
    UpdateComputerConfigReq,
    UpdateDesktopNotification,
    UpdateFinderNotification,
    UpdateMCPConfigNotification,
    UpdateSkillsNotification,
    UpdateToolListNotification,
)
from .skills import GetSkillReq, GetSkillRet, GetSkillsReq, GetSkillsRet
from .tools import GetToolsReq, GetToolsRet, ToolCallReq

CLIENT_PREFIX: Final = "client:"
SERVER_PREFIX: Final = "server:"
NOTIFY_PREFIX: Final = "notify:"

CLIENT_TOOL_CALL: Final = "client:tool_call"
CLIENT_GET_TOOLS: Final = "client:get_tools"
CLIENT_GET_CONFIG: Final = "client:get_config"
CLIENT_GET_DESKTOP: Final = "client:get_desktop"
CLIENT_GET_RESOURCES: Final = "client:get_resources"
CLIENT_GET_SKILLS: Final = "client:get_skills"
CLIENT_GET_SKILL: Final = "client:get_skill"
CLIENT_GET_BLOB: Final = "client:get_blob"
CLIENT_PUT_BLOB: Final = "client:put_blob"
CLIENT_LIST_FINDER: Final = "client:list_finder"
CLIENT_GET_DPE: Final = "client:get_dpe"

SERVER_JOIN_OFFICE: Final = "server:join_office"
SERVER_LEAVE_OFFICE: Final = "server:leave_office"
SERVER_LIST_ROOM: Final = "server:list_room"
SERVER_TOOL_CALL_CANCEL: Final = "server:tool_call_cancel"
SERVER_UPDATE_CONFIG: Final = "server:update_config"
SERVER_UPDATE_TOOL_LIST: Final = "server:update_tool_list"
SERVER_UPDATE_DESKTOP: Final = "server:update_desktop"
SERVER_UPDATE_SKILLS: Final = "server:update_skills"
SERVER_UPDATE_FINDER: Final = "server:update_finder"

NOTIFY_ENTER_OFFICE: Final = "notify:enter_office"
NOTIFY_LEAVE_OFFICE: Final = "notify:leave_office"
NOTIFY_TOOL_CALL_CANCEL: Final = "notify:tool_call_cancel"
NOTIFY_UPDATE_CONFIG: Final = "notify:update_config"
NOTIFY_UPDATE_TOOL_LIST: Final = "notify:update_tool_list"
NOTIFY_UPDATE_DESKTOP: Final = "notify:update_desktop"
NOTIFY_UPDATE_SKILLS: Final = "notify:update_skills"
NOTIFY_UPDATE_FINDER: Final = "notify:update_finder"

Req = TypeVar("Req", bound=Structure)
Ret = TypeVar("Ret")


class Call(msgspec.Struct, Generic[Req, Ret], frozen=True):
    """A `client:*` event: request and reply of one A1 exchange.

    Attributes:
        id: Row of the event catalogue.
        request: Structure of the request.
        reply: Structure of a success; `dict` for the CallToolResult of a tool call.
        echoes: Whether a success repeats the `req_id` (W-EVT-1).
    """

    id: str
    event: str
    request: type[Req]
    reply: type[Ret]
    echoes: bool = True

    def read_reply(self, ack: object, req_id: str) -> Ret:
        """The success in an acknowledgement.

        Args:
            ack: The one argument of the ack frame, `None` when it had none (A0).
            req_id: That of the request.
        Raises:
            PeerError: The peer answered with an ErrorPayload (W-ERR-3).
            MalformedReplyError: Neither a success nor an error; code `unsupported` for A0 (W-EVT-3, W-ERR-5).
        """
        if ack is None:
            raise MalformedReplyError(f"{self.event} is not supported by the peer", code="unsupported")
        raise_for_error(ack, event=self.event)
        try:
            reply: Ret = convert(self.reply, ack)
        except InvalidPayload as fault:
            raise MalformedReplyError(
                f"the reply to {self.event} is malformed: {fault.message}", field=fault.field, details=fault.details
            ) from None
        if self.echoes and getattr(reply, "req_id", None) != req_id:
            raise MalformedReplyError(f"the reply to {self.event} belongs to another request", field="req_id")
        return reply


class OfficeEvent(msgspec.Struct, Generic[Req], frozen=True):
    """A `server:*` event the Server answers itself: A2 for join and leave, A1 for the room list."""

    id: str
    event: str
    request: type[Req]
    ack: Literal["A1", "A2"]


class Update(msgspec.Struct, Generic[Req], frozen=True):
    """A fire-and-forget `server:*` event, and the broadcast it causes (W-EVT-10).

    `sender` is the only role that may send it.
    """

    id: str
    event: str
    request: type[Req]
    sender: Role
    notify_id: str
    notify: str
    notification: type[Structure]


TOOL_CALL: Final[Call[ToolCallReq, dict[str, Any]]] = Call(
    "E-1", CLIENT_TOOL_CALL, ToolCallReq, dict[str, Any], echoes=False
)
GET_TOOLS: Final = Call("E-2", CLIENT_GET_TOOLS, GetToolsReq, GetToolsRet)
GET_CONFIG: Final = Call("E-3", CLIENT_GET_CONFIG, GetComputerConfigReq, GetComputerConfigRet, echoes=False)
GET_DESKTOP: Final = Call("E-4", CLIENT_GET_DESKTOP, GetDeskTopReq, GetDeskTopRet)
GET_RESOURCES: Final = Call("E-5", CLIENT_GET_RESOURCES, GetResourcesReq, GetResourcesRet)
GET_SKILLS: Final = Call("E-6", CLIENT_GET_SKILLS, GetSkillsReq, GetSkillsRet)
GET_SKILL: Final = Call("E-7", CLIENT_GET_SKILL, GetSkillReq, GetSkillRet)
GET_BLOB: Final = Call("E-8", CLIENT_GET_BLOB, GetBlobReq, GetBlobRet)
PUT_BLOB: Final = Call("E-9", CLIENT_PUT_BLOB, PutBlobReq, PutBlobRet)
LIST_FINDER: Final = Call("E-30", CLIENT_LIST_FINDER, ListFinderReq, ListFinderRet)
GET_DPE: Final = Call("E-33", CLIENT_GET_DPE, GetDpeReq, GetDpeRet)

JOIN_OFFICE: Final = OfficeEvent("E-10", SERVER_JOIN_OFFICE, EnterOfficeReq, "A2")
LEAVE_OFFICE: Final = OfficeEvent("E-11", SERVER_LEAVE_OFFICE, LeaveOfficeReq, "A2")
LIST_ROOM: Final = OfficeEvent("E-12", SERVER_LIST_ROOM, ListRoomReq, "A1")

_CALLS: tuple[Call[Any, Any], ...] = (
    TOOL_CALL,
    GET_TOOLS,
    GET_CONFIG,
    GET_DESKTOP,
    GET_RESOURCES,
    GET_SKILLS,
    GET_SKILL,
    GET_BLOB,
    PUT_BLOB,
    LIST_FINDER,
    GET_DPE,
)
CALLS: Final[Mapping[str, Call[Any, Any]]] = MappingProxyType({call.event: call for call in _CALLS})
"""Every `client:*` event by name."""

OFFICE_EVENTS: Final[Mapping[str, OfficeEvent[Any]]] = MappingProxyType(
    {event.event: event for event in (JOIN_OFFICE, LEAVE_OFFICE, LIST_ROOM)}
)
"""The `server:*` events with an answer, by name."""


def _update(id: str, name: str, notify_id: str, notification: type[Structure]) -> Update[UpdateComputerConfigReq]:
    notify = notify_name(SERVER_PREFIX + name)
    return Update(id, SERVER_PREFIX + name, UpdateComputerConfigReq, "computer", notify_id, notify, notification)


def notify_name(event: str) -> str:
    """The broadcast a fire-and-forget `server:*` event causes: the same name under `notify:`."""
    return NOTIFY_PREFIX + event.removeprefix(SERVER_PREFIX)


_UPDATES: tuple[Update[Any], ...] = (
    Update("E-13", SERVER_TOOL_CALL_CANCEL, AgentCallData, "agent", "E-26", NOTIFY_TOOL_CALL_CANCEL, AgentCallData),
    _update("E-14", "update_config", "E-22", UpdateMCPConfigNotification),
    _update("E-15", "update_tool_list", "E-23", UpdateToolListNotification),
    _update("E-16", "update_desktop", "E-24", UpdateDesktopNotification),
    _update("E-17", "update_skills", "E-25", UpdateSkillsNotification),
    _update("E-31", "update_finder", "E-32", UpdateFinderNotification),
)
UPDATES: Final[Mapping[str, Update[Any]]] = MappingProxyType({update.event: update for update in _UPDATES})
"""The fire-and-forget `server:*` events by name."""

NOTIFICATIONS: Final[Mapping[str, type[Structure]]] = MappingProxyType(
    {
        NOTIFY_ENTER_OFFICE: EnterOfficeNotification,
        NOTIFY_LEAVE_OFFICE: LeaveOfficeNotification,
        **{update.notify: update.notification for update in _UPDATES},
    }
)
"""The structure of every `notify:*` event by name."""


def may_emit(role: Role, event: str) -> bool:
    """Whether a role may send an event at all: nobody sends `notify:*`, a Computer no `client:*` (W-ARCH-4)."""
    if event.startswith(NOTIFY_PREFIX):
        return False
    if event.startswith(CLIENT_PREFIX):
        return role == "agent"
    update = UPDATES.get(event)
    return update is None or update.sender == role


def read_room(ack: object, req_id: str) -> ListRoomRet:
    """The room list in an acknowledgement of `server:list_room`.

    Raises:
        PeerError, MalformedReplyError: As `Call.read_reply`.
    """
    return Call("E-12", SERVER_LIST_ROOM, ListRoomReq, ListRoomRet).read_reply(ack, req_id)
