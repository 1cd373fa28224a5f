"""What `reconcile` answers and announces: the authoritative server set, its commits and renderings."""

from __future__ import annotations

from typing import Literal

from ..codec import Attachment
from ..message import Ask, Fact, Record
from .mcp import LaunchPlan, ServerStatus

Slice = Literal["config", "tool_list", "desktop", "skills", "finder"]
"""A part of the projection whose change is announced by the `server:update_*` of the same name."""


class Committed(Fact):
    """Commit `number` is applied everywhere; `changed` names the slices an Agent would see differently (R-PROJ-3).

    `filled` names the slices that are not empty now: what peers forget when our connection is lost (DEC-27).
    """

    number: int
    changed: tuple[Slice, ...]
    filled: tuple[Slice, ...] = ()


class ProjectedConfig(Record):
    """`config` is the GetComputerConfigRet of the last commit as JSON, masked (W-CFG, DEC-30)."""

    config: Attachment
    commit: int = 0


class GetConfig(Ask[ProjectedConfig]):
    """The committed configuration projection; waits for nothing."""


class GetLaunchPlan(Ask[LaunchPlan]):
    """Renders one server anew from its raw entry, for one actual start (R-INPUT-20).

    Raises `MissingInputError`, `InvalidSelectionError`, `ConfigValidationError`, `StartupError` (`identity_drift`).
    """

    bundle_id: str
    interactive: bool = False


class GrantStart(Ask[None]):
    """Waits for a place under the start caps (DEC-3); `launcher` is the file name of the command, or `""`.

    The place is given back by `EndStart`, or when the asker goes down.
    """

    bundle_id: str
    launcher: str = ""


class EndStart(Ask[None]):
    """Gives the place of `GrantStart` back."""

    lane = "control"
    bundle_id: str


class Degradation(Record):
    """One open degradation (R-LIFE-24). `since` in Unix seconds."""

    component: str
    identity: str
    category: str
    code: str
    since: float
    reason: str = ""
    retry_hint: str | None = None


class PendingApproval(Record):
    """A server that waits for a person's word, with everything to decide by (R-GATE-12). Local; holds no secret.

    `target` is the raw command line or URL, `inputs` and `variables` the ids and `${env:…}` names it refers to.
    `differences` says what is not as it was approved, as far as that is still known (DEC-14).
    """

    bundle_id: str
    name: str
    origin: str
    source: str
    transport: str
    target: str
    fingerprint: str
    reason: str = ""
    inputs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    plugin_id: str | None = None
    differences: tuple[str, ...] = ()


class ProjectionStatus(Record):
    """Public diagnostics of the Computer's server set (R-LIFE-23). `filled` as in `Committed`."""

    commit: int
    servers: tuple[ServerStatus, ...] = ()
    degradations: tuple[Degradation, ...] = ()
    findings: tuple[str, ...] = ()
    filled: tuple[Slice, ...] = ()
    pending: tuple[PendingApproval, ...] = ()


class DegradationsMoved(Fact):
    """What is degraded is not what it was; `GetProjectionStatus` tells what is."""

    def coalesce_key(self) -> str:
        return "degradations"


class GetProjectionStatus(Ask[ProjectionStatus]):
    """The diagnostics; waits for no server."""

    lane = "control"


class ChangeResult(Record):
    """What a change of the server set did, by bundle_id (R-LIFE-15)."""

    commit: int
    started: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    remeta: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class SyncConfig(Ask[ChangeResult]):
    """Replaces the held configuration; `config` is the canonical ComputerConfig as JSON (R-LIFE-15)."""

    config: Attachment


class MountServer(Ask[ChangeResult]):
    """Adds or replaces one server for this run (R-CORE-9); `server` is a server object as JSON."""

    server: Attachment


class UnmountServer(Ask[ChangeResult]):
    """Removes one mounted server."""

    bundle_id: str


class ControlServer(Ask[ServerStatus]):
    """Starts, stops or restarts one server of the set by its bundle_id (R-MGMT-4).

    A start is waited for until it is decided, for as long as it may take; one that goes on longer answers with the
    status of a server on its way. One that failed raises the error of its category, `AuthError`
    (`authorization_required`) for a missing authorization (R-MCP-25); the server is tried again by the restart law.
    Raises `ConfigValidationError` (`unknown_server`), `PolicyError` (`not_enabled`), `ConflictError`
    (`managed_by_plugin`).
    """

    bundle_id: str
    action: Literal["start", "stop", "restart"]


class SeatServer(Ask[None]):
    """Sees to it that a lazy server has its actor, which the call that comes next starts it by (F-68).

    A server that is not wanted gets none, which is no error. Raises what became of an actor that did not start.
    """

    bundle_id: str


class HaltServers(Ask[None]):
    """Ends all servers side by side, each with at most `drain` seconds for its calls; no start is let in afterwards.

    What is queued for a start ends at once (DEC-3, R-LIFE-19). The projection is empty then.
    """

    lane = "control"
    drain: float
