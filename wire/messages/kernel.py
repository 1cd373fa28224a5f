"""What supervisors announce about the actors they keep."""

from __future__ import annotations

from ..message import Fact


class ActorUp(Fact):
    """An actor started and takes messages. `incarnation` counts its lives from 1."""

    address: str
    incarnation: int

    def coalesce_key(self) -> str:
        return self.address


class ActorDown(Fact):
    """An actor went down: queued messages were not executed, the one in work is unknown.

    `reason` names what happened (`stopped`, `killed`, or the exception type), `next_try` the seconds until its
    restart, `None` when it will not be restarted.
    """

    address: str
    incarnation: int
    reason: str
    next_try: float | None = None

    def coalesce_key(self) -> str:
        return self.address


class ActorParked(Fact):
    """An actor exceeded its restart intensity and is given up for now (DEC-35).

    `next_try` in seconds, `None` for never.
    """

    address: str
    reason: str
    next_try: float | None = None

    def coalesce_key(self) -> str:
        return self.address
