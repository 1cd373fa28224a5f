"""The ReconcileActor's plugin operations: written first, absorbed by one commit, taken back when that fails (03 §7.5).

Operations take turns with all others that change the set; nobody holds the turn while a
server starts (DEC-37).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio

from ...wire.envelope import Address
from ...wire.errors import ConfigValidationError, PartialFailureError, SmcpError, error_like
from ...wire.messages.management import GetPendingDifferences, ManagementResult, PendingDifferences
from ...wire.messages.mcp import ServerStatus
from ...wire.messages.plugins import (
    AddMarketplace,
    CollectedPlugins,
    CollectPlugins,
    DisablePlugin,
    EnablePlugin,
    InstallPlugin,
    ListMarketplaces,
    ListPlugins,
    MarketplaceViews,
    PluginViews,
    PruneMarketplaces,
    RefreshMarketplaces,
    RemoveMarketplace,
    SetMarketplace,
    UninstallPlugin,
    WorkMoved,
)
from ...wire.messages.projection import ChangeResult
from ...wire.messages.skills import RescanSkills
from ..kernel import handler
from ..reconcile.commits.degradations import Degradations
from ..reconcile.loading import Loaded, load_again, settings_of, with_plugins
from ..reconcile.management.absorbing import Management
from ..reconcile.running.lanes import Lanes
from . import gc, marketplaces, operations
from .baseline import refuse_denied
from .catalogs import declarations
from .ids import PluginId, check_marketplace_name, parse_plugin_id
from .ledger import read_knowns
from .operations import Departure
from .recovery import Plugin, differing
from .recycling import reclaimed
from .site import Site
from .threads import in_thread
from .views import marketplace_views, plugin_views, satisfied

R = TypeVar("R")

LOOK_EVERY = 0.05
"""Seconds between two looks at a server that is starting."""
LAUNCH_SLACK = 5.0
"""Seconds beside its budget for a server's first start to be decided."""
RESCAN_LIMIT = 10.0


class PluginDesk(Management):
    """Part of the ReconcileActor, which provides what is named here."""

    _site: Site
    _lanes: Lanes
    _degradations: Degradations

    # -- what there is ----------------------------------------------------------------------

    @handler
    def list_plugins(self, _: ListPlugins) -> PluginViews:
        """Installed and offered plugins."""
        picture = self._composition.picture
        return PluginViews(plugin_views(picture.loaded.plugins, picture.base, picture.settings, picture.servers))

    @handler(concurrent=16)
    async def list_marketplaces(self, _: ListMarketplaces) -> MarketplaceViews:
        """Declared and fetched marketplaces."""
        knowns, _notes = await self._at_work(lambda site: read_knowns(site.home))
        picture = self._composition.picture
        return MarketplaceViews(marketplace_views(picture.loaded.plugins, picture.settings, knowns))

    @handler(concurrent=16)
    async def pending_differences(self, message: GetPendingDifferences) -> PendingDifferences:
        """What happened on disk since, to files and to trees of plugins."""
        found = await super().pending_differences(message)
        recovered = self._composition.picture.loaded.plugins
        trees = await self._at_work(lambda _: differing(recovered))
        return PendingDifferences({**found.files, **trees})

    # -- plugins ------------------------------------------------------------------------------

    @handler(concurrent=16)
    async def install_plugin(self, message: InstallPlugin) -> ManagementResult:
        """Makes it lie ready; the projection stays as it is."""
        plugin_id = parse_plugin_id(message.plugin_id)
        async with self._turn:
            settings = self._composition.picture.settings
            made = await self._at_work(lambda site: operations.install(site, settings, plugin_id, message.version))
            there = satisfied(made.bundle.bundle_ids, self._held.servers)
            await self._absorb()
        notes = tuple(f"dependency satisfied: {one} is there already and stays as it is" for one in there)
        return ManagementResult(made.changed, written_scope="user", diagnostics=notes)

    @handler(concurrent=16)
    async def enable_plugin(self, message: EnablePlugin) -> ManagementResult:
        """Projects all of it, or takes everything back (R-PLUGIN-19)."""
        plugin_id = parse_plugin_id(message.plugin_id)
        async with self._turn:
            if self._composition.picture.loaded.plugins.find(plugin_id) is None:
                await self._absorb()  # somebody else may have installed it
            before = self._composition.picture
            self._refuse_inert(before.loaded.plugins.find(plugin_id), plugin_id)
            opinion = await self._at_work(
                lambda site: operations.write_opinion(site, before.settings, plugin_id, True, message.scope),
            )
            try:
                await self._absorb()
                self._refuse_inert(self._composition.picture.loaded.plugins.find(plugin_id), plugin_id)
                fault = self._composition.picture.base.suppressed.get(str(plugin_id))
                if fault is not None:
                    raise error_like(fault.category, fault.reason, fault.code)
            except SmcpError:
                await self._take_back(plugin_id, opinion)
                raise
            added = self._mounted_by(plugin_id) - before.servers.keys()
        if message.launch and self._options.auto_start:
            await self._watch_first_starts(plugin_id, added, opinion)
        settings = self._composition.picture.settings
        above = settings.shadow_of(("enabledPlugins", str(plugin_id)), opinion.scope)
        shadow = (
            above.label if above is not None and settings.merged["enabledPlugins"][str(plugin_id)] is False else None
        )
        return ManagementResult(opinion.changed, shadow is None, shadow, opinion.scope)

    @handler(concurrent=16)
    async def disable_plugin(self, message: DisablePlugin) -> ManagementResult:
        """Withdraws it; tree and installation stay."""
        plugin_id = parse_plugin_id(message.plugin_id)
        async with self._turn:
            settings = self._composition.picture.settings
            opinion = await self._at_work(
                lambda site: operations.write_opinion(site, settings, plugin_id, False, message.scope)
            )
            await self._absorb()
        settings = self._composition.picture.settings
        above = settings.shadow_of(("enabledPlugins", str(plugin_id)), opinion.scope)
        shadow = (
            above.label if above is not None and settings.merged["enabledPlugins"][str(plugin_id)] is True else None
        )
        return ManagementResult(opinion.changed, shadow is None, shadow, opinion.scope)

    @handler(concurrent=16)
    async def uninstall_plugin(self, message: UninstallPlugin) -> ManagementResult:
        """Intent, projection, servers, trees, record: in this order (R-PLUGIN-29)."""
        plugin_id = parse_plugin_id(message.plugin_id)
        async with self._turn:
            departure = await self._uninstall(plugin_id, keep_servers=message.keep_servers)
        return _departed(departure)

    @handler(concurrent=16)
    async def collect_plugins(self, message: CollectPlugins) -> CollectedPlugins:
        """Deletes what no intent stands for."""
        async with self._turn:
            picture = self._composition.picture
            found = await self._at_work(
                lambda site: gc.collect(
                    site, picture.settings, picture.loaded.plugins, prune_dangling=message.prune_dangling
                ),
            )
            if found.pruned:
                await self._absorb()
        return collected(found)

    # -- marketplaces -------------------------------------------------------------------------

    @handler(concurrent=16)
    async def add_marketplace(self, message: AddMarketplace) -> ManagementResult:
        """Declares and fetches it."""
        config, loaded = self._held.config, self._composition.picture.loaded

        def add(site: Site) -> marketplaces.Added:
            return marketplaces.add_marketplace(
                site,
                lambda: settings_of(config, load_again(self._options, loaded)),
                message.url,
                message.name,
                trust=message.trust,
                auto_update=message.auto_update,
                fetch=message.fetch,
            )

        async with self._turn:
            added = await self._at_work(add)
            await self._absorb()
        return ManagementResult(added.changed, written_scope="user", diagnostics=added.notes)

    @handler(concurrent=16)
    async def remove_marketplace(self, message: RemoveMarketplace) -> ManagementResult:
        """Takes its plugins along, unless they shall stay."""
        name = check_marketplace_name(message.name)
        async with self._turn:
            picture = self._composition.picture
            plugins = [plugin.id for plugin in picture.loaded.plugins.plugins if plugin.id.marketplace == name]
            leaving = () if message.keep_plugins else plugins
            changed = await self._at_work(
                lambda site: marketplaces.undeclare_marketplace(site, picture.settings, name, leaving)
            )
            for plugin_id in leaving:
                await self._uninstall(plugin_id, keep_servers=False)
            await self._absorb()
            after, keep = self._composition.picture.settings, message.keep_plugins
            return await self._at_work(
                lambda site: marketplaces.end_removal(site, after, name, changed=changed, keep_plugins=keep)
            )

    @handler(concurrent=16)
    async def set_marketplace(self, message: SetMarketplace) -> ManagementResult:
        """Takes effect at the next boot."""
        async with self._turn:
            settings = self._composition.picture.settings
            result = await self._at_work(
                lambda site: marketplaces.set_auto_update(site, settings, message.name, message.auto_update),
            )
            await self._absorb()
        return result

    @handler(concurrent=16)
    async def refresh_marketplaces(self, message: RefreshMarketplaces) -> ManagementResult:
        """Brings them up to date; what changed is absorbed in one commit."""
        async with self._turn:
            before = self._composition.picture
            declared = declarations(before.settings)
            names = frozenset(message.names or declared)
            for name in sorted(names - declared.keys()):
                raise ConfigValidationError(f"no marketplace {name!r} is declared", code="unknown_marketplace")
            await self._absorb(names)
            after = self._composition.picture.loaded.plugins
            report = after.catalogs.report
            for plugin in after.plugins:
                if plugin.id.marketplace in names:
                    await self._rescan(plugin)
        failed = {name: finding for name, finding in (report.failed | report.skipped).items() if name in names}
        done = (*report.installed, *report.updated, *(name for name in report.up_to_date if name in names))
        if failed:
            reasons = "; ".join(f"{name}: {finding.reason}" for name, finding in failed.items())
            raise PartialFailureError(
                f"not everything could be refreshed: {reasons}", applied=sorted(done), failed=sorted(failed)
            )
        changed = bool(report.updated or report.installed)
        return ManagementResult(changed, diagnostics=tuple(f"{name} is updated" for name in report.updated))

    @handler(concurrent=16)
    async def prune_marketplaces(self, _: PruneMarketplaces) -> ManagementResult:
        """Deletes what nobody declares."""
        async with self._turn:
            settings = self._composition.picture.settings
            gone = await self._at_work(lambda site: gc.prune(site, settings))
            await self._absorb()
        return ManagementResult(bool(gone), diagnostics=tuple(f"{name} is deleted" for name in gone))

    # -- inside -------------------------------------------------------------------------------

    async def _at_work(self, work: Callable[[Site], R]) -> R:
        return await in_thread(self._site, work, self._moved)

    def _moved(self, what: str, step: str, size: int | None) -> None:
        """What is being worked on, for whoever waits for it."""
        self.publish(WorkMoved(what, step, size))

    async def _absorb(self, refresh: frozenset[str] = frozenset()) -> ChangeResult:
        """Makes the set out of what is on disk now, plugins included. Holds the turn."""
        known = self._composition.picture

        def read(site: Site) -> Loaded:
            again = load_again(self._options, known.loaded)
            return with_plugins(site, self._options, known.config, again, refresh=refresh)

        loaded = await self._at_work(read)
        return await self._change(known.config, self._held.mounts, loaded)

    def _mounted_by(self, plugin_id: PluginId) -> set[str]:
        """Members of the set that a plugin supplies."""
        base = self._composition.picture.base
        return {one for one, member in self._held.servers.items() if base.plugin_of(member) == str(plugin_id)}

    def _refuse_inert(self, known: Plugin | None, plugin_id: PluginId) -> None:
        """Refuses to enable what is not installed, cannot be had, or would be denied, before anything is written."""
        if known is None:
            raise ConfigValidationError(f"{plugin_id} is not installed", code="not_installed", plugin_id=str(plugin_id))
        if known.fault is not None or known.bundle is None:
            fault = known.fault
            assert fault is not None
            raise error_like(fault.category, fault.reason, fault.code)
        refuse_denied(known.bundle, self._composition.picture.rules)

    async def _take_back(self, plugin_id: PluginId, opinion: operations.Opinion) -> None:
        """Restores the opinion and the set. Holds the turn."""
        await self._at_work(lambda site: operations.take_back(site, plugin_id, opinion))
        await self._absorb()

    async def _watch_first_starts(self, plugin_id: PluginId, added: set[str], opinion: operations.Opinion) -> None:
        """Waits until each new server is up; the first that fails takes the whole plugin back (B4)."""
        waiting = {one for one in added if self._held.servers[one].may_run}
        for bundle_id in sorted(waiting):
            self._moved(bundle_id, "starting", None)
        limit = self._options.server_start_timeout_s + LAUNCH_SLACK
        failed: ServerStatus | None = None
        with anyio.move_on_after(limit):
            while waiting and failed is None:
                for bundle_id in sorted(waiting):
                    status = self._held.facts.status(bundle_id)
                    if bundle_id not in self._held.servers or (status is not None and _is_up(status)):
                        waiting.discard(bundle_id)
                    elif status is not None and status.connection == "error":
                        failed = status
                    elif (lost := self._degradations.of("server", bundle_id)) is not None:
                        failed = ServerStatus(bundle_id, reason=lost.reason, category=lost.category, code=lost.code)
                if waiting and failed is None:
                    await anyio.sleep(LOOK_EVERY)
        if failed is None and waiting:
            bundle_id = min(waiting)
            failed = ServerStatus(bundle_id, reason="it did not come up in time", category="startup", code="timeout")
        if failed is None:
            return
        async with self._turn:
            await self._take_back(plugin_id, opinion)
        error = error_like(
            failed.category or "startup", f"{failed.bundle_id}: {failed.reason}", failed.code or "startup"
        )
        error.plugin_id, error.bundle_id = str(plugin_id), failed.bundle_id
        raise error

    async def _uninstall(self, plugin_id: PluginId, *, keep_servers: bool) -> Departure:
        """Holds the turn."""
        picture = self._composition.picture
        recovered = picture.loaded.plugins
        known = recovered.find(plugin_id)
        departure = await self._at_work(
            lambda site: operations.withdraw(site, picture.settings, plugin_id, known.bundle if known else None),
        )
        others = {
            str(plugin.id): plugin.bundle.bundle_ids
            for plugin in recovered.plugins
            if plugin.bundle is not None and plugin.id != plugin_id
        }
        leaving = reclaimed(departure.servers, others, picture.layers)
        if keep_servers:
            # From now on they are there because this run wants them, like any server it mounted itself. What may not
            # run goes: a mount needs no approval, and nobody gave one (R-GATE-4).
            members = (self._held.servers[one] for one in leaving if one in self._held.servers)
            kept = {member.bundle_id: member.entry for member in members if member.may_run}
            self._held.mounts = {**self._held.mounts, **kept}
        await self._absorb()
        if not departure.remaining:
            await self._at_work(lambda site: operations.discard(site, plugin_id))
        return departure

    async def _rescan(self, plugin: Plugin) -> None:
        """The tree of a version may be another one now; what skills it has is read again."""
        try:
            await self.ask(Address("skills"), RescanSkills(plugin.id.plugin), timeout=RESCAN_LIMIT)
        except SmcpError:
            return  # that actor scans everything when it lives again


def collected(found: gc.Collected) -> CollectedPlugins:
    """What a collection did, with words for people."""
    notes = [f"removed {one}" for one in found.removed]
    notes += [f"dangling {key}: {reason}" for key, reason in found.dangling.items()]
    notes += [f"pruned {key}" for key in found.pruned]
    notes += [f"{key} is still declared by another scope" for key in found.residual]
    notes += [f"recoverable {key}" for key in found.recoverable]
    result = ManagementResult(bool(found.removed or found.pruned), diagnostics=tuple(notes))
    return CollectedPlugins(
        result, found.removed, dict(found.dangling), found.pruned, found.residual, found.recoverable
    )


def _departed(departure: Departure) -> ManagementResult:
    label = departure.remaining[0] if departure.remaining else None
    return ManagementResult(departure.changed, label is None, label, "user")


def _is_up(status: ServerStatus) -> bool:
    return status.connection in ("connected", "authorization_required")
