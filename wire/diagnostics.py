"""The public view of a running Computer: everything that can be known of it without reading a log (R-LIFE-23)."""

from __future__ import annotations

import msgspec

from .errors import Failure
from .lifecycle import Operation, Phase, State
from .messages.mcp import ServerStatus
from .messages.projection import Degradation, PendingApproval
from .messages.socket import LinkStatus
from .protocol import PROTOCOL_VERSION


class ActorStatus(msgspec.Struct, frozen=True):
    """One actor: its state (starting, up, waiting, parked, stopped), its lives, and why the last one ended."""

    address: str
    state: str
    incarnation: int
    restarts_in_window: int
    reason: str | None = None


class Diagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot; local, never sent to an Agent (R-LIFE-25), and never holding a secret.

    Attributes:
        sequence: Number of the last state change.
        office: The office it is in.
        commit: Number of the last commit of the projection.
        findings: What was found in configuration and files, one line each.
        pending: Servers that wait for an approval.
        failures: The last failure of each operation since its last success.
        link_failure: Why the connection was lost or the office given up.
    """

    name: str
    protocol_version: str = PROTOCOL_VERSION
    phase: Phase
    state: State
    sequence: int
    office: str | None = None
    commit: int = 0
    servers: tuple[ServerStatus, ...] = ()
    degradations: tuple[Degradation, ...] = ()
    findings: tuple[str, ...] = ()
    pending: tuple[PendingApproval, ...] = ()
    failures: dict[Operation, Failure] = {}
    link: LinkStatus = LinkStatus()
    link_failure: Failure | None = None
    actors: tuple[ActorStatus, ...] = ()
