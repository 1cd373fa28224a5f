"""What management asks of `reconcile` about plugins and marketplaces (03 §7, §11). Local; no Agent can send these."""

from __future__ import annotations

from typing import Literal

from ..message import Ask, Fact, Record
from .management import ManagementResult, WritableScope

PluginState = Literal["available", "installed_disabled", "installed_enabled"]


class PluginView(Record):
    """One plugin as an operator sees it.

    `contributes` says whether it does now; if an enabled one does not, `fault` says why. `servers` are bundle_ids it
    brings, `satisfied` those of them that somebody else declares. `opinions` are the scopes that say something of it.
    """

    id: str
    state: PluginState
    contributes: bool = False
    trusted: bool = False
    version: str | None = None
    commit_sha: str | None = None
    root: str | None = None
    description: str = ""
    servers: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    satisfied: tuple[str, ...] = ()
    opinions: dict[str, bool] = {}
    fault: str | None = None


class PluginViews(Record):
    """Installed plugins in their order, then those that catalogs offer, by id."""

    plugins: tuple[PluginView, ...]


class ListPlugins(Ask[PluginViews]):
    """What is installed and what is offered, as of the last commit."""


class InstallPlugin(Ask[ManagementResult]):
    """Makes a plugin lie ready; activates nothing. Notes in the result name dependencies that are there already.

    Raises `ConfigValidationError`, `ConflictError` (`plugin_name_taken`), `PolicyError`, `NetworkError`, `AuthError`.
    """

    plugin_id: str
    version: str | None = None


class UninstallPlugin(Ask[ManagementResult]):
    """Takes a plugin away, with the servers nobody else needs; `keep_servers` lets their processes go on.

    Raises `PolicyError` (`policy_forced`), `ConflictError`.
    """

    plugin_id: str
    keep_servers: bool = False


class EnablePlugin(Ask[ManagementResult]):
    """Projects a plugin, all of it or nothing (R-PLUGIN-19). `launch` starts its servers and waits for each.

    Raises `ConfigValidationError` (`not_installed`), `PolicyError`, and what kept a server from its first start.
    """

    plugin_id: str
    scope: WritableScope | None = None
    launch: bool = True


class DisablePlugin(Ask[ManagementResult]):
    """Takes a plugin out of the projection; tree and intent stay."""

    plugin_id: str
    scope: WritableScope | None = None


class MarketplaceView(Record):
    """One marketplace as an operator sees it. One that is not `declared` lies there and may be pruned."""

    name: str
    url: str | None = None
    auto_update: bool | None = None
    declared: bool = True
    trusted: bool = False
    materialised: bool = False
    commit_sha: str | None = None
    last_updated: str | None = None
    plugins: tuple[str, ...] = ()
    fault: str | None = None


class MarketplaceViews(Record):
    """Marketplaces by name."""

    marketplaces: tuple[MarketplaceView, ...]


class ListMarketplaces(Ask[MarketplaceViews]):
    """What is declared and what lies there."""


class AddMarketplace(Ask[ManagementResult]):
    """Declares a marketplace in user settings and fetches it; without `trust` it is refused (R-PLUGIN-9).

    Without `fetch` the next boot or refresh brings it.
    """

    url: str
    name: str | None = None
    trust: bool = False
    auto_update: bool | None = None
    fetch: bool = True


class RemoveMarketplace(Ask[ManagementResult]):
    """Takes declaration, trust and catalog of a marketplace away, and its plugins unless `keep_plugins`."""

    name: str
    keep_plugins: bool = False


class SetMarketplace(Ask[ManagementResult]):
    """Says whether a marketplace is brought up to date at each boot."""

    name: str
    auto_update: bool


class RefreshMarketplaces(Ask[ManagementResult]):
    """Brings marketplaces up to date and absorbs what changed; all declared ones when none is named.

    Raises `PartialFailureError` with the names that could not be refreshed.
    """

    names: tuple[str, ...] = ()


class PruneMarketplaces(Ask[ManagementResult]):
    """Deletes what was fetched from marketplaces that nobody declares any more; on a person's word only."""


class CollectedPlugins(Record):
    """What a collection did.

    Attributes:
        removed: Records and trees that no intent stood for.
        dangling: Intents that cannot be fulfilled, and why: `marketplace-not-added`, `catalog-missing`,
            `manifest-unreadable` or `entry-missing`.
        pruned: Those of them that were removed from the user's settings.
        residual: Those of the pruned that another scope still declares.
        recoverable: Intents that the next boot may fulfil.
    """

    result: ManagementResult
    removed: tuple[str, ...] = ()
    dangling: dict[str, str] = {}
    pruned: tuple[str, ...] = ()
    residual: tuple[str, ...] = ()
    recoverable: tuple[str, ...] = ()


class CollectPlugins(Ask[CollectedPlugins]):
    """Deletes what no intent stands for; `prune_dangling` also intents that cannot be fulfilled (03 §7.9)."""

    prune_dangling: bool = False


class WorkMoved(Fact):
    """What an operation that takes long is at, for people who wait for it.

    `what` is a plugin, a marketplace or a server, `step` a word for what is done with it, `size` the bytes that a
    fetch has brought so far.
    """

    what: str
    step: str
    size: int | None = None

    def coalesce_key(self) -> str:
        return self.what
