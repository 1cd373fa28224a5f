"""What lies ready just now, without fetching, building or writing anything; for who only wants to look. Blocking."""

from __future__ import annotations

from ...wire.errors import Finding, SmcpError
from ..reconcile.scopes.settings import Settings
from .bundle import Bundle, read_bundle
from .catalogs import Catalog, Catalogs, declarations, read_catalog
from .ids import PluginId, parse_plugin_id
from .ledger import Ledger, read_knowns, read_ledger
from .recovery import Plugin, Recovered
from .site import Site
from .store import catalog_path, plugin_path
from .trust import refusal, url_of


def standing(site: Site, settings: Settings) -> Recovered:
    """The installed plugins as far as they lie ready; the others are inert with a reason."""
    catalogs = standing_catalogs(site, settings)
    ledger, notes = read_ledger(site.home)
    plugins = tuple(_plugin(site, text, catalogs, ledger) for text in settings.names("installedPlugins"))
    return Recovered(plugins, catalogs, notes)


def standing_catalogs(site: Site, settings: Settings) -> Catalogs:
    """The catalogs that were fetched and may contribute."""
    knowns, notes = read_knowns(site.home)
    found = {}
    for name, declaration in declarations(settings).items():
        known, url = knowns.get(name), url_of(declaration) or ""
        if refusal(name, settings) is not None or (known is not None and known.url != url):
            continue
        path = catalog_path(site.home, name)
        try:
            marketplace, warnings = read_catalog(path)
        except SmcpError:
            continue
        commit = known.commit_sha if known is not None else None
        found[name] = Catalog(name, path, url, marketplace, commit, warnings=warnings)
    return Catalogs(found, notes=notes)


def _plugin(site: Site, text: str, catalogs: Catalogs, ledger: Ledger) -> Plugin:
    plugin_id = parse_plugin_id(text)
    bundle = _bundle(site, plugin_id, catalogs, ledger)
    if bundle is not None:
        return Plugin(plugin_id, bundle)
    reason = "does not lie ready; the next start of a Computer makes it so if it can"
    return Plugin(plugin_id, fault=Finding(text, reason, code="not_ready", source=text))


def _bundle(site: Site, plugin_id: PluginId, catalogs: Catalogs, ledger: Ledger) -> Bundle | None:
    catalog = catalogs.catalogs.get(plugin_id.marketplace)
    entry = catalog.marketplace.plugins.get(plugin_id.plugin) if catalog is not None else None
    record = next((one for one in ledger.get(str(plugin_id), ()) if one.version is not None), None)
    if entry is None or record is None or record.version is None:
        return None
    place = plugin_path(site.home, plugin_id, record.version)
    try:
        return read_bundle(place, plugin_id, entry, record.version, record.commit_sha) if place.is_dir() else None
    except SmcpError:
        return None
