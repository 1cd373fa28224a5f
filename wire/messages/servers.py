"""What management asks of `reconcile` about servers, by bundle_id alone (03 §11). Local; no Agent can send these."""

from __future__ import annotations

from ..message import Ask, Record
from .management import ManagementResult


class ServerView(Record):
    """One member of the set as an operator sees it. `owner` is `user`, a scope, `plugin:<plugin>` or `runtime`."""

    bundle_id: str
    name: str
    origin: str
    source: str
    owner: str
    disabled: bool = False
    verdict: str = "ENABLED"
    step: int = 0
    reason: str | None = None
    activation: str = "stopped"
    connection: str = "disconnected"
    plugin_id: str | None = None
    shadowed: tuple[str, ...] = ()


class ServerViews(Record):
    """All members by bundle_id, those that may not run included."""

    servers: tuple[ServerView, ...]


class ListServers(Ask[ServerViews]):
    """The set as of now; waits for no server."""


class RemoveServer(Ask[ManagementResult]):
    """Deletes a server from all files people may write.

    Raises `PolicyError`, `ConflictError` (`read_only_scope`, `managed_by_plugin`, `mounted`).
    """

    bundle_id: str


class SwitchServer(Ask[ManagementResult]):
    """Enables or disables a server in settings.

    Raises `ConflictError` (`managed_by_plugin`) where a plugin's would be disabled.
    """

    bundle_id: str
    enabled: bool


class AcceptTools(Ask[ManagementResult]):
    """Pins the tools of a server as they are listed now; those that were held are shown from then on (F-117)."""

    bundle_id: str
