"""What may be deleted, and deleting it: nothing outside the home, no intent without a word (R-PLUGIN-32, 03 §7.9).

Blocking.
"""

from __future__ import annotations

import msgspec

from ..reconcile.files.elements import without_element
from ..reconcile.files.intent import change_intent
from ..reconcile.scopes.settings import Settings
from .catalogs import declarations
from .ids import parse_plugin_id
from .ledger import read_knowns, read_ledger
from .marketplaces import forget_marketplace
from .operations import discard, sweep_versions
from .recovery import Recovered
from .site import Site

REASONS = {
    "unknown_marketplace": "marketplace-not-added",
    "source_refused": "marketplace-not-added",
    "manifest_unreadable": "manifest-unreadable",
    "unknown_plugin": "entry-missing",
}
"""Why a plugin can never be had as things stand; any other failure may heal by itself."""


class Collected(msgspec.Struct, frozen=True):
    """What a collection found and did.

    Attributes:
        removed: Records and trees that no intent stands for, now deleted.
        dangling: Intents that cannot be fulfilled, with why.
        pruned: Of those, the ones removed from the user's settings.
        residual: Of the pruned, those another scope still declares.
        recoverable: Intents the next boot may fulfil.
    """

    removed: tuple[str, ...] = ()
    dangling: dict[str, str] = {}
    pruned: tuple[str, ...] = ()
    residual: tuple[str, ...] = ()
    recoverable: tuple[str, ...] = ()


def collect(site: Site, settings: Settings, recovered: Recovered, *, prune_dangling: bool = False) -> Collected:
    """Deletes what is derived from nothing; dangling intents only on a user's word."""
    installed = settings.names("installedPlugins")
    ledger, _ = read_ledger(site.home)
    orphans = tuple(key for key in ledger if key not in installed)
    for key in orphans:
        discard(site, parse_plugin_id(key))
    bundles = tuple(plugin.bundle for plugin in recovered.plugins if plugin.bundle is not None)
    swept = sweep_versions(site, bundles)
    failed = {str(plugin.id): plugin.fault for plugin in recovered.plugins if plugin.fault is not None}
    dangling = {key: REASONS[fault.code] for key, fault in failed.items() if fault.code in REASONS}
    pruned: tuple[str, ...] = ()
    if prune_dangling:
        pruned = tuple(key for key in dangling if _prune(site, key))
    others = [layer for layer in settings.layers if layer.origin != "user"]
    residual = tuple(key for key in pruned if any(key in layer.values.get("installedPlugins", ()) for layer in others))
    recoverable = tuple(key for key in failed if key not in dangling)
    return Collected((*orphans, *swept), dangling, pruned, residual, recoverable)


def orphan_marketplaces(site: Site, settings: Settings) -> tuple[str, ...]:
    """Catalogs that were fetched and that nobody declares any more."""
    knowns, _ = read_knowns(site.home)
    return tuple(name for name in knowns if name not in declarations(settings))


def prune(site: Site, settings: Settings) -> tuple[str, ...]:
    """Deletes catalogs, trees and records of marketplaces that nobody declares; their names. On a user's word only."""
    orphans = orphan_marketplaces(site, settings)
    for name in orphans:
        forget_marketplace(site, name)
    return orphans


def _prune(site: Site, key: str) -> bool:
    path = site.places.settings("user")
    return change_intent(path, "settings", lambda now: without_element(now, "installedPlugins", key)).changed
