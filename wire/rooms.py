"""Rooms and sessions: joining, leaving, listing, and the notifications about them (01 §4, §6.1)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from .base import NonEmpty, Request, Structure

Role = Literal["agent", "computer"]


class EnterOfficeReq(Structure, frozen=True, kw_only=True):
    """`server:join_office`. The first accepted one fixes the role of the connection (W-ROOM-7)."""

    role: Role
    name: NonEmpty
    office_id: NonEmpty


class LeaveOfficeReq(Structure, frozen=True, kw_only=True):
    """`server:leave_office`."""

    office_id: str


class AgentCallData(Request, frozen=True, kw_only=True):
    """`server:tool_call_cancel` and its broadcast: which call of which Agent (W-CALL-13)."""


class ListRoomReq(Request, frozen=True, kw_only=True):
    """`server:list_room`. `agent` is not checked: a Computer may list its own office too (W-ROOM-44)."""

    office_id: str


class SessionInfo(Structure, frozen=True, kw_only=True):
    """One member of an office; `a2c_version` as it was sent in the handshake."""

    sid: str
    name: str
    office_id: str
    role: Role
    a2c_version: str | UnsetType = UNSET


class ListRoomRet(Structure, frozen=True, kw_only=True):
    """All members of the caller's office, its own entry included, in no promised order (W-ROOM-40)."""

    sessions: tuple[SessionInfo, ...]
    req_id: str


class MemberNotification(Structure, frozen=True, kw_only=True):
    """Who came or went; exactly one of `computer` and `agent` is present (W-ROOM-34)."""

    office_id: str
    computer: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET

    @property
    def role(self) -> Role | None:
        """The role of the member, or `None` when the sender named neither or both."""
        named: list[Role] = []
        if self.computer is not UNSET:
            named.append("computer")
        if self.agent is not UNSET:
            named.append("agent")
        return named[0] if len(named) == 1 else None


class EnterOfficeNotification(MemberNotification, frozen=True, kw_only=True):
    """`notify:enter_office`."""


class LeaveOfficeNotification(MemberNotification, frozen=True, kw_only=True):
    """`notify:leave_office`."""


class ComputerChanged(Structure, frozen=True, kw_only=True):
    """Names the Computer something changed at; the body of every update and of its broadcast (E-14…17, E-22…25)."""

    computer: str


class UpdateComputerConfigReq(ComputerChanged, frozen=True, kw_only=True):
    """`server:update_config`, `…_tool_list`, `…_desktop`, `…_skills`, `…_finder`."""


class UpdateMCPConfigNotification(ComputerChanged, frozen=True, kw_only=True):
    """`notify:update_config`."""


class UpdateToolListNotification(ComputerChanged, frozen=True, kw_only=True):
    """`notify:update_tool_list`."""


class UpdateDesktopNotification(ComputerChanged, frozen=True, kw_only=True):
    """`notify:update_desktop`."""


class UpdateSkillsNotification(ComputerChanged, frozen=True, kw_only=True):
    """`notify:update_skills`."""


class UpdateFinderNotification(ComputerChanged, frozen=True, kw_only=True):
    """`notify:update_finder`."""


def member_notification(role: Role, name: str, office_id: str) -> dict[str, str]:
    """The payload of enter and leave: the office, and the member's name under its role (W-ROOM-34)."""
    return {"office_id": office_id, role: name}
