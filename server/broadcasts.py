"""Fire-and-forget events and the notifications they become (E-13…17, E-31; W-EVT-10…12, W-CALL-13)."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from ..wire.base import Structure
from ..wire.events import UPDATES, Update
from ..wire.rooms import AgentCallData, ComputerChanged
from .limits import Limits
from .offices import Offices
from .orders import Emit, Order
from .refusals import NOT_JOINED, NOTHING, Refusal, array, forbidden, too_long
from .requests import read
from .session import Incoming, Session


class Broadcasts:
    """Turns what a member announces into one notification for the others of its office."""

    def __init__(self, offices: Offices, limits: Limits) -> None:
        self._offices = offices
        self._limits = limits

    def announce(self, event: Incoming) -> list[Order]:
        """Broadcasts a valid announcement; an invalid one only leaves a warning. An id is acknowledged either way."""
        orders: list[Order] = []
        body = self._body(event.session, UPDATES[event.name], event.payload)
        if isinstance(body, Refusal):
            orders.append(event.note(Refusal(body.payload, abuse=True)))
        elif others := self._offices.others(event.session):
            orders.append(Emit(others, body))
        return orders + event.acknowledge(NOTHING)

    def _body(self, session: Session, update: Update[Any], payload: Raw | None) -> str | Refusal:
        """The notification, or why there is none (W-EVT-11)."""
        if session.office is None:
            return NOT_JOINED
        if session.role != update.sender:
            return forbidden(f"Only for role '{update.sender}'")
        request = read(update.request, payload)
        return request if isinstance(request, Refusal) else self._notification(session, update, request)

    def _notification(self, session: Session, update: Update[Any], request: Structure) -> str | Refusal:
        """The broadcast, made of the defined fields alone, under the joined name (W-EVT-12)."""
        if isinstance(request, AgentCallData):
            if len(request.req_id) > self._limits.identifier_chars:
                return too_long("req_id", self._limits.identifier_chars)
            return array(update.notify, {"agent": session.name, "req_id": request.req_id})
        if not isinstance(request, ComputerChanged) or request.computer != session.name:
            return forbidden("Not the name of this Computer")
        return array(update.notify, {"computer": session.name})
