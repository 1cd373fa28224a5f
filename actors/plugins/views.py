"""What an operator sees of plugins and marketplaces. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...wire.messages.plugins import MarketplaceView, PluginView
from ..reconcile.config.masking import mask_url
from ..reconcile.scopes.settings import Settings
from ..reconcile.server_set import SetEntry
from .baseline import Baseline
from .catalogs import declarations
from .ledger import Knowns
from .recovery import Plugin, Recovered
from .trust import is_trust_enabled, url_of


def plugin_views(
    recovered: Recovered, base: Baseline, settings: Settings, servers: Mapping[str, SetEntry]
) -> tuple[PluginView, ...]:
    """Installed plugins in their order, then those that catalogs offer, by id."""
    installed = [_installed(plugin, recovered, base, settings, servers) for plugin in recovered.plugins]
    known = {view.id for view in installed}
    offered = [
        PluginView(f"{name}@{catalog.name}", "available", version=entry.version, description=entry.description)
        for _, catalog in sorted(recovered.catalogs.catalogs.items())
        for name, entry in sorted(catalog.marketplace.plugins.items())
    ]
    return (*installed, *(view for view in offered if view.id not in known))


def satisfied(bundle_ids: tuple[str, ...], servers: Mapping[str, SetEntry]) -> tuple[str, ...]:
    """Servers of a plugin that somebody else supplies already (R-PLUGIN-18)."""
    return tuple(one for one in bundle_ids if one in servers and servers[one].origin != "plugin")


def marketplace_views(recovered: Recovered, settings: Settings, knowns: Knowns) -> tuple[MarketplaceView, ...]:
    """Everything declared or recorded, by name."""
    declared, report = declarations(settings), recovered.catalogs.report
    faults = report.failed | report.skipped
    views = []
    for name in sorted(declared.keys() | knowns.keys()):
        catalog, known, declaration = recovered.catalogs.catalogs.get(name), knowns.get(name), declared.get(name)
        fault = faults.get(name)
        url = url_of(declaration) if declaration is not None else known.url if known is not None else None
        views.append(
            MarketplaceView(
                name,
                mask_url(url) if url is not None else None,
                declaration.get("autoUpdate") if declaration is not None else None,
                declaration is not None,
                name in settings.names("trustedMarketplaces"),
                catalog is not None,
                known.commit_sha if known is not None else None,
                known.last_updated if known is not None else None,
                tuple(catalog.marketplace.plugins) if catalog is not None else (),
                fault.reason if fault is not None else None,
            )
        )
    return tuple(views)


def _installed(
    plugin: Plugin, recovered: Recovered, base: Baseline, settings: Settings, servers: Mapping[str, SetEntry]
) -> PluginView:
    text, bundle = str(plugin.id), plugin.bundle
    enabled = settings.merged.get("enabledPlugins", {}).get(text) is True
    catalog = recovered.catalogs.catalogs.get(plugin.id.marketplace)
    entry = catalog.marketplace.plugins.get(plugin.id.plugin) if catalog is not None else None
    fault = plugin.fault or base.suppressed.get(text)
    opinions: dict[str, bool] = {
        layer.origin: layer.values["enabledPlugins"][text]
        for layer in settings.layers
        if text in layer.values.get("enabledPlugins", {})
    }
    return PluginView(
        text,
        "installed_enabled" if enabled else "installed_disabled",
        any(one.plugin_id == plugin.id for one in base.bundles),
        is_trust_enabled(text, settings),
        bundle.version if bundle is not None else None,
        bundle.commit_sha if bundle is not None else None,
        str(bundle.root) if bundle is not None else None,
        entry.description if entry is not None else "",
        bundle.bundle_ids if bundle is not None else (),
        tuple(one.id for one in bundle.inputs) if bundle is not None else (),
        satisfied(bundle.bundle_ids, servers) if bundle is not None else (),
        opinions,
        fault.reason if fault is not None else None,
    )
