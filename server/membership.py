"""Joining, leaving and listing an office, and who is told about it (01 §4.2…§4.5)."""

from __future__ import annotations

from msgspec import UNSET, Raw

from ..wire.events import NOTIFY_ENTER_OFFICE, NOTIFY_LEAVE_OFFICE
from ..wire.rooms import (
    EnterOfficeReq,
    LeaveOfficeReq,
    ListRoomReq,
    ListRoomRet,
    SessionInfo,
    member_notification,
)
from .limits import Limits
from .offices import Offices
from .orders import Emit, Log, Order
from .refusals import DONE, NOT_JOINED, OTHER_OFFICE, Refusal, array, too_long
from .requests import read
from .session import Incoming, Session


class Membership:
    """Decides the three room requests; all state is in `offices`."""

    def __init__(self, offices: Offices, limits: Limits) -> None:
        self._offices = offices
        self._limits = limits

    def join(self, event: Incoming) -> list[Order]:
        """`server:join_office`. The others hear of it before the joiner has its acknowledgement (W-ROOM-30)."""
        session, request = event.session, self._read_join(event.payload)
        if isinstance(request, Refusal):
            return event.refuse_as_text(request)
        if self._offices.is_member_already(session, request):
            return event.acknowledge(DONE)
        refusal = self._offices.why_not_join(session, request)
        if refusal is not None:
            return event.refuse_as_text(refusal)
        orders = self.depart(session)
        self._offices.enter(session, request.role, request.name, request.office_id)
        orders += self._announce(session, NOTIFY_ENTER_OFFICE)
        orders.append(Log(session.record("info", "joined", event=event.name)))
        return orders + event.acknowledge(DONE)

    def leave(self, event: Incoming) -> list[Order]:
        """`server:leave_office` (W-ROOM-21…24)."""
        request = read(LeaveOfficeReq, event.payload)
        if isinstance(request, Refusal):
            return event.refuse_as_text(request)
        refusal = _why_not_here(event.session, request.office_id)
        if refusal is not None:
            return event.refuse_as_text(refusal)
        return self.depart(event.session) + event.acknowledge(DONE)

    def list_room(self, event: Incoming) -> list[Order]:
        """`server:list_room`: the caller's own office and no other (W-ROOM-40, W-ROOM-41)."""
        request = read(ListRoomReq, event.payload)
        if isinstance(request, Refusal):
            return event.refuse(request)
        if len(request.req_id) > self._limits.identifier_chars:
            return event.refuse(too_long("req_id", self._limits.identifier_chars))
        refusal = _why_not_here(event.session, request.office_id)
        if refusal is not None:
            return event.refuse(refusal)
        sessions = tuple(_info(member) for member in self._offices.members(request.office_id))
        return event.acknowledge(array(ListRoomRet(sessions=sessions, req_id=request.req_id)))

    def depart(self, session: Session) -> list[Order]:
        """Tells the others, then takes the session out of its office, if it is in one (W-ROOM-30)."""
        if session.office is None:
            return []
        orders = self._announce(session, NOTIFY_LEAVE_OFFICE)
        orders.append(Log(session.record("info", "left")))
        self._offices.leave(session)
        return orders

    def _read_join(self, payload: Raw | None) -> EnterOfficeReq | Refusal:
        request = read(EnterOfficeReq, payload)
        if isinstance(request, Refusal):
            return request
        for field in ("name", "office_id"):
            if len(getattr(request, field)) > self._limits.identifier_chars:
                return too_long(field, self._limits.identifier_chars)
        return request

    def _announce(self, session: Session, event: str) -> list[Order]:
        """A coming or going: to the others only, under exactly one of the two keys (W-ROOM-32, W-ROOM-34)."""
        others = self._offices.others(session)
        if not others or session.role is None or session.office is None:
            return []
        return [Emit(others, array(event, member_notification(session.role, session.name, session.office)))]


def _why_not_here(session: Session, office: str) -> Refusal | None:
    """A request about an office is for its members, whether or not it exists (W-ROOM-22, W-ROOM-23, W-ROOM-41)."""
    if session.office is None:
        return NOT_JOINED
    return OTHER_OFFICE if session.office != office else None


def _info(member: Session) -> SessionInfo:
    return SessionInfo(
        sid=member.sid,
        name=member.name,
        office_id=member.office or "",
        role=member.role or "agent",
        a2c_version=UNSET if member.version is None else member.version,
    )
