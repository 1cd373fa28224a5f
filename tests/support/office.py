"""The rooms core under test: a clock we move, and what every connection was sent, in order."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from smcp_runtime.server.limits import Limits
from smcp_runtime.server.orders import Ack, Emit, Log, Order, Relay
from smcp_runtime.server.rooms import Rooms
from smcp_runtime.server.security_log import Record


class Sent(NamedTuple):
    """One packet that went out: to whom, what kind (`ack`, `relay`, `event`), its id, its JSON values."""

    sid: str
    kind: str
    id: int | None
    values: list[Any]


def ack(sid: str, id: int, *values: Any) -> Sent:
    return Sent(sid, "ack", id, list(values))


def relay(sid: str, id: int, event: str, payload: Any) -> Sent:
    return Sent(sid, "relay", id, [event, payload])


def notice(sid: str, event: str, payload: Any) -> Sent:
    return Sent(sid, "event", None, [event, payload])


DONE = (True, None)


class Office:
    """Drives a `Rooms` core by short calls; each returns what went out because of it."""

    def __init__(self, limits: Limits | None = None, **options: Any) -> None:
        self.rooms = Rooms(limits, **options)
        self.now = 1_000.0
        self.log: list[Record] = []
        self.orders: list[Order] = []

    def connect(self, *sids: str, version: str | None = "0.4.0") -> None:
        for sid in sids:
            self._carry_out(self.rooms.connected(sid, self.now, version=version, address="192.0.2.1"))

    def member(self, sid: str, role: str, office: str = "o1", name: str | None = None) -> None:
        """Connects a session named like its sid and joins it; forgets what was sent on the way."""
        self.connect(sid)
        assert self.join(sid, role, name or sid, office)[-1] == ack(sid, 1, *DONE)

    def join(self, sid: str, role: Any, name: Any, office: Any, *, id: int | None = 1) -> list[Sent]:
        return self.send(sid, "server:join_office", {"role": role, "name": name, "office_id": office}, id=id)

    def leave(self, sid: str, office: Any = "o1") -> list[Sent]:
        return self.send(sid, "server:leave_office", {"office_id": office})

    def call(self, sid: str, computer: str, event: str = "client:get_tools", *, id: int | None = 1, **more: Any) -> Any:
        return self.send(sid, event, request(computer, **more), id=id)

    def send(self, sid: str, event: str, *payload: Any, id: int | None = 1) -> list[Sent]:
        return self.raw(sid, json.dumps([event, *payload], ensure_ascii=False), id=id)

    def raw(self, sid: str, body: str, *, id: int | None = 1, binary: bool = False) -> list[Sent]:
        return self._carry_out(self.rooms.event(sid, body, id, self.now, binary=binary))

    def answer(self, sid: str, id: int, *values: Any, binary: bool = False) -> list[Sent]:
        return self._carry_out(self.rooms.acknowledged(sid, id, json.dumps(values), binary=binary))

    def disconnect(self, sid: str) -> list[Sent]:
        return self._carry_out(self.rooms.disconnected(sid))

    def after(self, seconds: float) -> list[Sent]:
        self.now += seconds
        return self._carry_out(self.rooms.expired(self.now))

    def state(self) -> dict[str, list[tuple[str, str | None]]]:
        """Every office with its members by name and role."""
        table = self.rooms.offices
        return {office: [(m.name, m.role) for m in table.members(office)] for office in list(table._members)}

    def warnings(self) -> list[Record]:
        return [record for record in self.log if record.level == "warning"]

    def _carry_out(self, orders: Any) -> list[Sent]:
        sent: list[Sent] = []
        self.orders = list(orders)
        for order in orders:
            if isinstance(order, Ack):
                sent.append(Sent(order.sid, "ack", order.id, _values(order.body)))
            elif isinstance(order, Relay):
                sent.append(Sent(order.sid, "relay", order.id, _values(order.body)))
            elif isinstance(order, Emit):
                sent += [Sent(sid, "event", None, _values(order.body)) for sid in order.sids]
            elif isinstance(order, Log):
                self.log.append(order.record)
        return sent


def request(computer: str = "pc", **more: Any) -> dict[str, Any]:
    return {"agent": "ag", "req_id": "r1", "computer": computer, **more}


def tool_call(computer: str = "pc", **more: Any) -> dict[str, Any]:
    return request(computer, **{"tool_name": "s__t", "params": {"x": 1}, "timeout": 30, **more})


def _values(body: str) -> list[Any]:
    values = json.loads(body)
    assert isinstance(values, list)
    return values
