"""What is installed, made ready again from intent alone (R-PLUGIN-26, R-CORE-7). Blocking, idempotent, additive.

Nothing is taken over from an earlier life: the ledger only saves work. A plugin that cannot
be made ready is wholly inert, with a finding; the others are not held up by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ...wire.errors import Finding, SmcpError
from ..reconcile.files.atomic import make_private_directory
from ..reconcile.files.intent import change_intent, read_intent
from ..reconcile.scopes.settings import Settings
from .bundle import Bundle
from .catalogs import Catalog, Catalogs, finding_of, reconcile_catalogs, restore
from .ids import PluginId, parse_plugin_id
from .ledger import (
    LEDGER_FILE,
    MARKETPLACES_FILE,
    Ledger,
    change_ledger,
    ledger_keys,
    raw_knowns,
    read_ledger,
)
from .materialise import Materialised, materialise
from .migrations import migration
from .site import Site
from .trees import stamp_of

INSTALL_FIELDS = (
    "installedPlugins",
    "extraKnownMarketplaces",
    "trustedMarketplaces",
    "blockedMarketplaces",
    "strictKnownMarketplaces",
)
"""Settings that decide what is installed."""


class Plugin(msgspec.Struct, frozen=True):
    """One installed plugin: what it brings, or why it lies inert; `stamp` is that of its tree when it was read."""

    id: PluginId
    bundle: Bundle | None = None
    fault: Finding | None = None
    stamp: str | None = None


class Recovered(msgspec.Struct, frozen=True):
    """All installed plugins, in the merged order of installation, and the catalogs they come from.

    Attributes:
        notes: What was odd in the derived records.
    """

    plugins: tuple[Plugin, ...] = ()
    catalogs: Catalogs = Catalogs()
    notes: tuple[str, ...] = ()

    def find(self, plugin_id: PluginId) -> Plugin | None:
        """An installed plugin."""
        return next((plugin for plugin in self.plugins if plugin.id == plugin_id), None)

    @property
    def losses(self) -> dict[tuple[str, str], Finding]:
        """What is declared and cannot be had, by component and identity; a degradation each."""
        report = self.catalogs.report
        lost = {("marketplace", name): finding for name, finding in (report.failed | report.skipped).items()}
        lost |= {("plugin", str(plugin.id)): plugin.fault for plugin in self.plugins if plugin.fault is not None}
        return lost

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything worth knowing that loses nothing as a whole."""
        catalogs = self.catalogs.catalogs.values()
        of_catalogs = (labelled(finding, catalog.name) for catalog in catalogs for finding in catalog.warnings)
        bundles = (plugin.bundle for plugin in self.plugins if plugin.bundle is not None)
        of_bundles = (labelled(finding, str(bundle.plugin_id)) for bundle in bundles for finding in bundle.warnings)
        return (*self.losses.values(), *of_catalogs, *of_bundles)


def recover(
    site: Site,
    settings: Settings,
    *,
    boot: bool = False,
    refresh: frozenset[str] = frozenset(),
    record: bool = True,
) -> Recovered:
    """Everything that settings call installed.

    Args:
        boot: Whether `autoUpdate` counts and rests of killed processes are swept.
        refresh: Marketplaces to bring up to date.
        record: Whether what was done may be written down.
    """
    installed = settings.names("installedPlugins")
    if not installed and not settings.merged.get("extraKnownMarketplaces"):
        return Recovered()
    make_private_directory(site.home)
    if boot:
        restore(site.home)
    catalogs = reconcile_catalogs(site, settings, refresh=refresh, boot=boot, record=record)
    ledger, notes = read_ledger(site.home)
    made: dict[str, Materialised] = {}

    def ready(plugin_id: PluginId, catalog: Catalog) -> Bundle:
        fresh = catalog.is_new or plugin_id.marketplace in refresh
        made[str(plugin_id)] = one = materialise(site, plugin_id, catalog, ledger, fresh=fresh)
        return one.bundle

    plugins = tuple(_plugins(installed, catalogs, ready))
    if record and made:
        notes = (*notes, *write_records(site, made))
    return Recovered(plugins, catalogs, notes)


def write_records(site: Site, made: Mapping[str, Materialised]) -> tuple[str, ...]:
    """Writes what lies ready into the ledger; why that could not be done, if it could not."""
    records = {key: one.record for key, one in made.items() if one.record is not None}

    def change(ledger: Ledger) -> Ledger:
        for key, record in records.items():
            ledger[key] = (record, *(other for other in ledger.get(key, ()) if other.scope != "user"))
        return ledger

    if not records:
        return ()
    try:
        change_ledger(site.home, change)
    except SmcpError as error:
        return (f"the ledger could not be written: {error.code}",)
    return ()


def differing(recovered: Recovered) -> dict[str, str]:
    """Trees of plugins that are not as they were read: changed or removed (R-PLUGIN-26)."""
    found = {}
    for plugin in recovered.plugins:
        if plugin.bundle is not None and (now := stamp_of(plugin.bundle.root)) != plugin.stamp:
            found[str(plugin.bundle.root)] = "removed" if now is None else "changed"
    return found


def migrate(site: Site, settings: Settings) -> bool:
    """Brings the user's settings of an earlier version up to date, once; whether they changed.

    A home in which nothing was ever managed, and nothing shall be, is left alone.

    Raises:
        SmcpError: The user's settings cannot be understood or written; nothing may be recorded then.
    """
    due = {
        "installedPlugins": (site.home / LEDGER_FILE).exists() or bool(settings.names("installedPlugins")),
        "extraKnownMarketplaces": (site.home / MARKETPLACES_FILE).exists()
        or bool(settings.merged.get("extraKnownMarketplaces")),
    }
    path = site.places.settings("user")
    tree = read_intent(path, "settings").tree if any(due.values()) else {}
    missing = frozenset(marker for marker, is_due in due.items() if is_due and marker not in tree)
    if not missing:
        return False
    keys, knowns = ledger_keys(site.home), raw_knowns(site.home)
    opinions = settings.merged.get("enabledPlugins", {})
    return change_intent(path, "settings", lambda now: migration(now, opinions, keys, knowns, missing)).changed


def labelled(finding: Finding, owner: str) -> Finding:
    """A finding with whose it is."""
    source = f"{owner}/{finding.source}" if finding.source else owner
    return msgspec.structs.replace(finding, source=source)


def _plugins(
    installed: tuple[str, ...], catalogs: Catalogs, ready: Callable[[PluginId, Catalog], Bundle]
) -> list[Plugin]:
    plugins: list[Plugin] = []
    taken: dict[str, str] = {}
    for text in installed:
        plugin_id = parse_plugin_id(text)
        owner = taken.setdefault(plugin_id.plugin, text)
        if owner != text:
            reason = f"the name {plugin_id.plugin!r} is taken by {owner}"
            plugins.append(Plugin(plugin_id, fault=Finding(text, reason, "conflict", "plugin_name_taken", text)))
            continue
        catalog = catalogs.catalogs.get(plugin_id.marketplace)
        if catalog is None:
            plugins.append(Plugin(plugin_id, fault=_no_catalog(plugin_id, catalogs)))
            continue
        try:
            bundle = ready(plugin_id, catalog)
            plugins.append(Plugin(plugin_id, bundle, stamp=stamp_of(bundle.root)))
        except SmcpError as error:
            plugins.append(Plugin(plugin_id, fault=finding_of(error, text)))
    return plugins


def _no_catalog(plugin_id: PluginId, catalogs: Catalogs) -> Finding:
    report, name = catalogs.report, plugin_id.marketplace
    cause = report.failed.get(name) or report.skipped.get(name)
    reason = f"there is no catalog of {name}" + (f": {cause.reason}" if cause is not None else ", it is not declared")
    category, code = (cause.category, cause.code) if cause is not None else ("validation", "unknown_marketplace")
    return Finding(str(plugin_id), reason, category, code, str(plugin_id))
