"""What `socket` answers and announces: the connection to a Server, and the office."""

from __future__ import annotations

from typing import Literal

from ..errors import Failure
from ..message import Ask, Fact, Record

LinkPhase = Literal["offline", "connecting", "connected", "joined"]
"""`connecting` also while a lost connection is repaired; `connected` is in no office."""


class LinkTarget(Record):
    """Where a Server is. `headers` may hold credentials: never logged, the repr hides them."""

    url: str
    namespace: str = "/smcp"
    socketio_path: str = "/socket.io"
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"LinkTarget({self.url!r}, {self.namespace!r}, {self.socketio_path!r})"


class LinkStatus(Record):
    """The connection now.

    `change` is the number of the last `LinkChanged`, `generation` counts connections, `office` is also the one to be
    joined again. `unannounced` names slices whose change the office was not told yet, `unsent` counts announcements
    that could not be sent.
    """

    phase: LinkPhase = "offline"
    change: int = 0
    office: str | None = None
    generation: int = 0
    transport: str | None = None
    in_flight: int = 0
    unannounced: tuple[str, ...] = ()
    unsent: int = 0


class Connect(Ask[LinkStatus]):
    """Makes the connection in one attempt; from then on it heals by itself (R-LIFE-10, R-LIFE-12, DEC-17).

    Raises `ProtocolVersionError`, `AuthError`, `NetworkError`, `ConfigValidationError`, `ConflictError`.
    """

    lane = "control"
    target: LinkTarget


class Join(Ask[LinkStatus]):
    """Enters an office; from then on returned to after a lost connection. Raises the errors of R-LIFE-12."""

    lane = "control"
    office: str


class Leave(Ask[None]):
    """Drains for at most `grace` seconds, then leaves the office and gives the wish for it up (DEC-26)."""

    lane = "control"
    grace: float


class Disconnect(Ask[None]):
    """Drains for at most `grace` seconds, leaves, and ends the connection (DEC-26, R-LIFE-14)."""

    lane = "control"
    grace: float


class GetLinkStatus(Ask[LinkStatus]):
    """The present status; waits for nothing."""

    lane = "control"


class LinkChanged(Fact):
    """The link moved to another phase. `error` says why when it was not on request; `restored` follows a loss.

    `number` grows with every change, also over restarts of the actor, so that an older fact is recognised.
    """

    number: int
    phase: LinkPhase
    generation: int
    office: str | None = None
    restored: bool = False
    error: Failure | None = None
