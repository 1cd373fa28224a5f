"""What people do with marketplaces: intent first, what is fetched after it (R-CORE-3, 03 §7.4). Blocking.

As `operations`, on files alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from ...wire.errors import ConfigValidationError, ConflictError, PolicyError, error_like
from ...wire.messages.management import ManagementResult, WritableScope
from ..reconcile.files.elements import elements, with_element, without_element
from ..reconcile.files.intent import change_intent, read_intent
from ..reconcile.files.patch import replacing
from ..reconcile.scopes.places import WRITABLE
from ..reconcile.scopes.settings import Settings, has, value_at
from .catalogs import Catalog, check_source, declarations, reconcile_catalogs
from .git_urls import expanded, holds_credentials, is_git_url
from .ids import PluginId, check_marketplace_name
from .ledger import Ledger, change_knowns, change_ledger
from .moving import moving
from .operations import refuse_forced
from .opinions import mapping, opinion_in
from .site import Site
from .store import catalog_path, catalogs_root
from .trees import remove_tree

DECLARED = "extraKnownMarketplaces"
PERSONAL_FIRST: tuple[WritableScope, ...] = ("user", "local", "project")
"""Where to write what no scope says yet: a project's file is shared with others."""


class Added(msgspec.Struct, frozen=True):
    """A marketplace that was declared."""

    name: str
    changed: bool
    notes: tuple[str, ...] = ()


def add_marketplace(
    site: Site,
    settings: Callable[[], Settings],
    url: str,
    name: str | None = None,
    *,
    trust: bool = False,
    auto_update: bool | None = None,
    fetch: bool = True,
) -> Added:
    """Declares a marketplace in the user's settings and fetches it; one that cannot be fetched leaves all as it was.

    Args:
        settings: The settings as they are on disk at that moment.
        fetch: Whether to fetch it now rather than at the next boot.
        trust: The user's explicit word (R-PLUGIN-9).
    Raises:
        ConfigValidationError, PolicyError, ConflictError: It may not be added.
        NetworkError, AuthError, StartupError: It could not be fetched or kept.
    """
    before, source = settings(), _source(url)
    wanted = check_marketplace_name(name or name_of(source))
    _refuse_to_add(before, wanted, trust=trust)
    path = site.places.settings("user")
    tree = read_intent(path, "settings").tree
    former = mapping(tree.get(DECLARED)).get(wanted)
    declaration: dict[str, Any] = {"source": {"type": "git", "url": source}}
    if auto_update is not None:
        declaration["autoUpdate"] = auto_update
    if former is not None and mapping(mapping(former).get("source")).get("url") not in (None, source):
        raise ConflictError(f"{wanted} is declared with another url", code="marketplace_name_taken")
    was_trusted = wanted in (tree.get("trustedMarketplaces") or ())

    def declare(now: Mapping[str, Any]) -> dict[str, Any]:
        trusted = with_element(now, "trustedMarketplaces", wanted)
        return {DECLARED: {wanted: declaration}, **trusted}

    # A catalog that is there belongs to another scope, or to nobody until somebody prunes it (R-PLUGIN-10).
    was_there = os.path.lexists(catalog_path(site.home, wanted))
    change = change_intent(path, "settings", declare)
    if not fetch:
        return Added(wanted, change.changed, (f"{wanted} is fetched at the next start or refresh",))
    try:
        catalog = _fetched(site, settings(), wanted)
    except BaseException:  # also when whoever asked for it has gone
        if change.changed:
            change_intent(path, "settings", lambda now: _restored(now, wanted, former, keep_trust=was_trusted))
        if not was_there and os.path.lexists(catalog_path(site.home, wanted)):
            _forget_catalog(site, wanted)
        raise
    return Added(wanted, change.changed, (f"{wanted} offers {len(catalog.marketplace.plugins)} plugins",))


def undeclare_marketplace(site: Site, settings: Settings, name: str, leaving: Collection[PluginId] = ()) -> bool:
    """Removes a marketplace and the trust in it from the user's settings; whether it was there.

    Args:
        leaving: Its plugins that go with it. One write for all: a process that dies here leaves no plugin without the
            marketplace it comes from.
    Raises:
        ConfigValidationError: Nobody declares it (`unknown_marketplace`).
        PolicyError: The administrator keeps one of the plugins enabled (`policy_forced`).
    """
    if name not in declarations(settings) and not catalog_path(site.home, name).exists():
        raise _unknown(name)
    gone = frozenset(map(str, leaving))
    for plugin_id in leaving:
        refuse_forced(settings, plugin_id)

    def change(now: Mapping[str, Any]) -> dict[str, Any]:
        patch = _undeclared(now, name, keep_trust=False)
        if gone.intersection(installed := elements(now, "installedPlugins")):
            patch["installedPlugins"] = [one for one in installed if one not in gone]
        if opinions := {one: None for one in gone if opinion_in(now, one) is not None}:
            patch["enabledPlugins"] = opinions
        return patch

    return change_intent(site.places.settings("user"), "settings", change).changed


def end_removal(
    site: Site, settings: Settings, name: str, *, changed: bool, keep_plugins: bool = False
) -> ManagementResult:
    """What became of a marketplace that was undeclared: forgotten, unless another scope declares it (R-FILE-13).

    Args:
        settings: The settings as they are now.
        changed: Whether the user's settings declared it.
        keep_plugins: Leave what was fetched.
    """
    still = settings.source_of((DECLARED, name))
    if still is None and not keep_plugins:
        forget_marketplace(site, name)
    return ManagementResult(changed, still is None, still.label if still is not None else None, "user")


def forget_marketplace(site: Site, name: str) -> None:
    """Deletes plugin trees and catalog of a marketplace, and its record last."""
    check_marketplace_name(name)
    root, suffix = catalogs_root(site.home), f"@{name}"
    with moving(site.home):
        for place in (root / ".store" / name, root / ".plugins" / name):
            remove_tree(place, site.home)

    def keep(ledger: Ledger) -> Ledger:
        return {key: records for key, records in ledger.items() if not key.endswith(suffix)}

    change_ledger(site.home, keep)
    _forget_catalog(site, name)


def set_auto_update(site: Site, settings: Settings, name: str, value: bool) -> ManagementResult:
    """Says whether a marketplace is brought up to date at each boot.

    That alone is written, and where the marketplace is declared: its url in another scope would be that scope's word
    for it (R-PLUGIN-8).

    Raises:
        ConfigValidationError: Nobody declares it (`unknown_marketplace`).
        PolicyError: It may not be fetched (`source_refused`), or the administrator decides (`policy_shadowed`).
        ConflictError: No file that people write declares it (`read_only_scope`).
    """
    check_source(site, name, settings)
    scope, place = _scope_to_set(settings, name), (DECLARED, name, "autoUpdate")
    above = settings.shadow_of(place, scope)
    if above is not None and value_at(above.values, place) is value:
        above = None
    if above is not None and above.origin == "policy":
        raise PolicyError(f"policy decides when {name} is brought up to date", code="policy_shadowed")

    def change(now: Mapping[str, Any]) -> dict[str, Any]:
        if name not in mapping(now.get(DECLARED)):
            raise _unknown(name)
        return {DECLARED: {name: {"autoUpdate": value}}}

    changed = change_intent(site.places.settings(scope), "settings", change).changed
    return ManagementResult(changed, above is None, above.label if above is not None else None, scope)


def name_of(url: str) -> str:
    """The name a url suggests for a marketplace."""
    last = url.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git").lower()
    return "-".join(filter(None, "".join(one if one.isalnum() and one.isascii() else "-" for one in last).split("-")))


def _source(url: str) -> str:
    source = expanded(url)
    if not is_git_url(source):
        raise ConfigValidationError("that is no git url this runtime fetches from", code="bad_git_url", field="url")
    if holds_credentials(source):
        reason = (
            "a url in settings may hold no password, and over http no user, which may be a token; "
            "git asks your credential helper or ssh key by itself"
        )
        raise ConfigValidationError(reason, code="secret_in_url", field="url")
    return source


def _refuse_to_add(settings: Settings, name: str, *, trust: bool) -> None:
    if name in settings.names("blockedMarketplaces"):
        raise PolicyError(f"{name} is blocked", code="source_refused")
    if not trust:
        raise PolicyError(f"{name} is added only with an explicit word of trust", code="trust_needed")
    if settings.flag("strictKnownMarketplaces") and name not in settings.names("trustedMarketplaces"):
        declared = settings.of("policy").get(DECLARED, {})
        if name not in declared:
            raise PolicyError(f"{name} is not among the marketplaces that policy allows", code="source_refused")


def _scope_to_set(settings: Settings, name: str) -> WritableScope:
    """The scope whose word about updates of a marketplace counts, among those that declare it and may be written."""
    declaring = [scope for scope in PERSONAL_FIRST if has(settings.of(scope), (DECLARED, name))]
    if not declaring:
        layer = settings.source_of((DECLARED, name))
        assert layer is not None
        if layer.origin == "policy":
            raise PolicyError(f"{name} is declared by policy", code="policy_shadowed")
        raise ConflictError(f"{name} is declared by {layer.label} alone; add it first", code="read_only_scope")
    saying = [scope for scope in declaring if has(settings.of(scope), (DECLARED, name, "autoUpdate"))]
    return max(saying, key=WRITABLE.index) if saying else declaring[0]


def _unknown(name: str) -> ConfigValidationError:
    return ConfigValidationError(f"no marketplace {name!r} is declared", code="unknown_marketplace")


def _undeclared(now: Mapping[str, Any], name: str, *, keep_trust: bool) -> dict[str, Any]:
    patch = {} if keep_trust else without_element(now, "trustedMarketplaces", name)
    if name in mapping(now.get(DECLARED)):
        patch[DECLARED] = {name: None}
    return patch


def _restored(now: Mapping[str, Any], name: str, former: object, *, keep_trust: bool) -> dict[str, Any]:
    """The change that brings back what a file said of a marketplace; `None` is nothing."""
    patch = _undeclared(now, name, keep_trust=keep_trust)
    if former is not None:
        current = mapping(now.get(DECLARED)).get(name)
        patch[DECLARED] = {name: replacing(current, former) if isinstance(former, Mapping) else former}
    return patch


def _fetched(site: Site, settings: Settings, name: str) -> Catalog:
    found = reconcile_catalogs(site, settings, refresh=frozenset({name}))
    finding = (found.report.failed | found.report.skipped).get(name)
    if finding is not None:
        raise error_like(finding.category, finding.reason, finding.code)
    return found.catalogs[name]


def _forget_catalog(site: Site, name: str) -> None:
    with moving(site.home):
        remove_tree(catalog_path(site.home, name), site.home)
    change_knowns(site.home, lambda knowns: {key: knowns[key] for key in knowns if key != name})
