"""Who is where: the tables of members, names and offices, and the checks of a join (W-ROOM-1…19).

Pure state. Every check comes before any change, so a refused request leaves no trace
(W-ROOM-5). Offices live in tables of their own and never meet the rooms of Socket.IO, so
an office that bears somebody's session id is just an office (W-ROOM-2).
"""

from __future__ import annotations

from collections.abc import Collection

from ..wire.rooms import EnterOfficeReq, Role
from .refusals import ROOM_FULL, ROOM_UNKNOWN, Refusal, forbidden
from .session import Session


class Offices:
    """Membership of all offices of one Server.

    Args:
        known: Offices that exist from the start; `None` lets any office come into being with its first member
            (W-ROOM-1, W-ROOM-17).
    """

    def __init__(self, known: Collection[str] | None = None) -> None:
        self._known = None if known is None else frozenset(known)
        self._members: dict[str, dict[str, Session]] = {}
        self._names: dict[str, Session] = {}
        self._agents: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._members)

    def by_name(self, name: str) -> Session | None:
        """The member of that name, in whatever office and role (W-ROOM-6)."""
        return self._names.get(name)

    def members(self, office: str) -> list[Session]:
        """All members of an office, in order of joining."""
        return list(self._members.get(office, {}).values())

    def others(self, session: Session) -> tuple[str, ...]:
        """Connections of the other members of a session's office; none while it is outside (W-ROOM-32, W-ROOM-33)."""
        if session.office is None:
            return ()
        return tuple(sid for sid in self._members[session.office] if sid != session.sid)

    def is_member_already(self, session: Session, request: EnterOfficeReq) -> bool:
        """Whether a join would change nothing: same office, same name, same role (W-ROOM-12)."""
        return session.office == request.office_id and session.name == request.name and session.role == request.role

    def why_not_join(self, session: Session, request: EnterOfficeReq) -> Refusal | None:
        """The first reason to refuse a join, in the order of W-ROOM-11…17."""
        if session.role not in (None, request.role):
            return forbidden(f"Role mismatch: this connection is already '{session.role}'", abuse=True)
        if session.office == request.office_id and session.name != request.name:
            return forbidden("Already in this office under another name")
        if request.role == "agent" and (refusal := self._why_not_agent(session, request.office_id)):
            return refusal
        if self._names.get(request.name) not in (None, session):
            return forbidden("Name already in use")
        if self._known is not None and request.office_id not in self._known:
            return ROOM_UNKNOWN
        return None

    def _why_not_agent(self, session: Session, office: str) -> Refusal | None:
        """An Agent does not switch offices, and an office has one Agent (W-ROOM-14, W-ROOM-15)."""
        if session.office not in (None, office):
            return forbidden("Agent must leave its office first")
        return None if self._agents.get(office) in (None, session) else ROOM_FULL

    def enter(self, session: Session, role: Role, name: str, office: str) -> None:
        """Makes a session that is in no office a member; `why_not_join` has agreed."""
        session.role, session.name, session.office = role, name, office
        self._members.setdefault(office, {})[session.sid] = session
        self._names[name] = session
        if role == "agent":
            self._agents[office] = session

    def leave(self, session: Session) -> None:
        """Takes a member out and frees its name; its role stays (W-ROOM-6, W-ROOM-7)."""
        office = session.office
        if office is None:
            return
        members = self._members[office]
        del members[session.sid]
        if not members:
            del self._members[office]
        del self._names[session.name]
        if self._agents.get(office) is session:
            del self._agents[office]
        session.office, session.name = None, ""
