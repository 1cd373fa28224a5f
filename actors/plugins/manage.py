"""Plugins and marketplaces of one running Computer, for who embeds it; reached as `computer.manage.plugins`.

Plugins are named by their id, marketplaces by name (R-MGMT-2). All raise `ConflictError`
(`lifecycle`) while the Computer is not running.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from ...wire.message import Ask
from ...wire.messages.management import ManagementResult, WritableScope
from ...wire.messages.plugins import (
    AddMarketplace,
    CollectedPlugins,
    CollectPlugins,
    DisablePlugin,
    EnablePlugin,
    InstallPlugin,
    ListMarketplaces,
    ListPlugins,
    MarketplaceView,
    PluginView,
    PruneMarketplaces,
    RefreshMarketplaces,
    RemoveMarketplace,
    SetMarketplace,
    UninstallPlugin,
)

R = TypeVar("R")


class Operate(Protocol):
    """Carries an operation out; one that `mutates` takes its turn among all operations (R-LIFE-2)."""

    async def __call__(self, message: Ask[R], *, mutates: bool) -> R: ...


class ManagePlugins:
    """The operations."""

    def __init__(self, operate: Operate) -> None:
        self._operate = operate

    async def list(self) -> tuple[PluginView, ...]:
        """Installed plugins in their order, then those that catalogs offer."""
        return (await self._operate(ListPlugins(), mutates=False)).plugins

    async def install(self, plugin_id: str, version: str | None = None) -> ManagementResult:
        """Makes a plugin lie ready; activates nothing.

        Raises:
            ConfigValidationError, ConflictError, PolicyError, NetworkError, AuthError: Nothing of it is left.
        """
        return await self._operate(InstallPlugin(plugin_id, version), mutates=True)

    async def uninstall(self, plugin_id: str, *, keep_servers: bool = False) -> ManagementResult:
        """Takes a plugin away, with the servers that nobody else declares.

        Args:
            keep_servers: Let these servers go on as servers mounted for this run.
        """
        return await self._operate(UninstallPlugin(plugin_id, keep_servers), mutates=True)

    async def enable(
        self, plugin_id: str, scope: WritableScope | None = None, *, launch: bool = True
    ) -> ManagementResult:
        """Projects a plugin, all of it or nothing (R-PLUGIN-19).

        Args:
            launch: Wait for the first start of its servers, and take everything back when one fails.
        Raises:
            ConfigValidationError: It is not installed (`not_installed`).
            PolicyError: It, or a server of it, is denied.
            SmcpError: What kept a server from its first start; the former state is back.
        """
        return await self._operate(EnablePlugin(plugin_id, scope, launch), mutates=True)

    async def disable(self, plugin_id: str, scope: WritableScope | None = None) -> ManagementResult:
        """Takes a plugin out of the projection."""
        return await self._operate(DisablePlugin(plugin_id, scope), mutates=True)

    async def collect(self, *, prune_dangling: bool = False) -> CollectedPlugins:
        """Deletes what no intent stands for; intents that cannot be fulfilled only with `prune_dangling`."""
        return await self._operate(CollectPlugins(prune_dangling), mutates=True)

    async def marketplaces(self) -> tuple[MarketplaceView, ...]:
        """Declared and fetched marketplaces, by name."""
        return (await self._operate(ListMarketplaces(), mutates=False)).marketplaces

    async def add_marketplace(
        self,
        url: str,
        name: str | None = None,
        *,
        trust: bool = False,
        auto_update: bool | None = None,
        fetch: bool = True,
    ) -> ManagementResult:
        """Declares a marketplace, and fetches it now or at the next start.

        Args:
            trust: The user's explicit word, without which it is refused.
        """
        return await self._operate(AddMarketplace(url, name, trust, auto_update, fetch), mutates=True)

    async def remove_marketplace(self, name: str, *, keep_plugins: bool = False) -> ManagementResult:
        """Takes a marketplace away, and its plugins with it unless they shall stay."""
        return await self._operate(RemoveMarketplace(name, keep_plugins), mutates=True)

    async def set_marketplace(self, name: str, *, auto_update: bool) -> ManagementResult:
        """Says whether a marketplace is brought up to date at each boot."""
        return await self._operate(SetMarketplace(name, auto_update), mutates=True)

    async def refresh(self, *names: str) -> ManagementResult:
        """Brings marketplaces up to date, all when none is named, and absorbs what changed.

        Raises:
            PartialFailureError: With the names that could not be refreshed; the others are.
        """
        return await self._operate(RefreshMarketplaces(names), mutates=True)

    async def prune(self) -> ManagementResult:
        """Deletes what was fetched from marketplaces that nobody declares any more."""
        return await self._operate(PruneMarketplaces(), mutates=True)
