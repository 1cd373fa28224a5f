"""What people do with plugins: intent first, derived things after it (R-CORE-3, 03 §7.5). Blocking.

Every operation works on files alone, so that it is the same for a Computer that runs and
for one that does not. Preconditions fail before anything is written; what is written and
cannot be carried out is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...wire.errors import ConfigValidationError, ConflictError, PolicyError, error_like
from ...wire.messages.management import WritableScope
from ..reconcile.files.elements import with_element, without_element
from ..reconcile.files.intent import change_intent, read_intent
from ..reconcile.scopes.places import WRITABLE
from ..reconcile.scopes.settings import Settings
from .bundle import Bundle
from .catalogs import check_source, reconcile_catalogs
from .ids import PluginId
from .ledger import Record, change_ledger, read_ledger
from .materialise import entry_of, materialise, other_versions
from .moving import moving
from .opinions import opinion_in
from .recovery import write_records
from .site import Site, refuses
from .store import legacy_path, versions_path
from .trees import remove_tree


class Installed(msgspec.Struct, frozen=True):
    """What an install did."""

    bundle: Bundle
    changed: bool


def install(site: Site, settings: Settings, plugin_id: PluginId, version: str | None = None) -> Installed:
    """Makes a plugin lie ready, and says so in the user's settings; activates nothing.

    Raises:
        ConfigValidationError: Unknown marketplace, plugin or version, or a faulty plugin; nothing of it is left.
        PolicyError: The source or the plugin is refused.
        ConflictError: Another plugin has the name (`plugin_name_taken`).
        NetworkError, AuthError, StartupError: It could not be fetched or kept.
    """
    text = str(plugin_id)
    check_source(site, plugin_id.marketplace, settings)
    _refuse_name_twice(plugin_id, settings)
    if refuses(site.plugin_approval, {"plugin": text, "operation": "install"}):
        raise PolicyError(f"the application refuses {text}", code="plugin_refused", plugin_id=text)
    catalogs = reconcile_catalogs(site, settings)
    catalog = catalogs.catalogs.get(plugin_id.marketplace)
    if catalog is None:
        finding = catalogs.report.failed[plugin_id.marketplace]
        raise error_like(finding.category, finding.reason, finding.code)
    entry = entry_of(plugin_id, catalog)
    if entry.version is not None and version not in (None, entry.version):
        reason = f"{text} is offered as {entry.version}, not {version}"
        raise ConfigValidationError(reason, code="unknown_version", plugin_id=text)
    path = site.places.settings("user")
    change = change_intent(path, "settings", lambda now: with_element(now, "installedPlugins", text))
    try:
        ledger, _ = read_ledger(site.home)
        made = materialise(site, plugin_id, catalog, ledger, version=version)
    except BaseException:
        if change.changed:
            change_intent(path, "settings", lambda now: without_element(now, "installedPlugins", text))
        raise
    write_records(site, {text: made})
    return Installed(made.bundle, change.changed)


class Opinion(msgspec.Struct, frozen=True):
    """An opinion about a plugin that was written; `before` is what stood there."""

    scope: WritableScope
    changed: bool
    before: bool | None


def write_opinion(
    site: Site, settings: Settings, plugin_id: PluginId, value: bool, scope: WritableScope | None = None
) -> Opinion:
    """Enables or disables a plugin in a scope.

    Raises:
        ConfigValidationError: It is not installed (`not_installed`).
        PolicyError: The administrator decides otherwise (`policy_forced`).
    """
    text = str(plugin_id)
    if text not in settings.names("installedPlugins"):
        raise ConfigValidationError(f"{text} is not installed", code="not_installed", plugin_id=text)
    forced = settings.of("policy").get("enabledPlugins", {}).get(text)
    if forced is not None and forced is not value:
        word = "enabled" if forced else "disabled"
        raise PolicyError(f"{text} is {word} by policy", code="policy_forced", plugin_id=text)
    if value and refuses(site.plugin_approval, {"plugin": text, "operation": "enable"}):
        raise PolicyError(f"the application refuses {text}", code="plugin_refused", plugin_id=text)
    where = scope or scope_for(settings, text)
    path = site.places.settings(where)
    before = opinion_in(read_intent(path, "settings").tree, text)
    change = change_intent(path, "settings", lambda _: {"enabledPlugins": {text: value}})
    return Opinion(where, change.changed, before)


def take_back(site: Site, plugin_id: PluginId, opinion: Opinion) -> None:
    """Puts the opinion back that stood there before; none stays none."""
    text, before = str(plugin_id), opinion.before
    change_intent(site.places.settings(opinion.scope), "settings", lambda now: _opinion_patch(now, text, before))


def scope_for(settings: Settings, plugin_id: str) -> WritableScope:
    """Where an opinion belongs that was given no scope (R-PLUGIN-14)."""
    held = (scope for scope in reversed(WRITABLE) if plugin_id in settings.of(scope).get("enabledPlugins", {}))
    return next(held, "user")


class Departure(msgspec.Struct, frozen=True):
    """A plugin that is not installed any more, whose files are still there.

    Attributes:
        servers: Its bundle_ids, as the ledger has them.
        changed: Whether an intent was removed.
        remaining: Scopes that still declare it and are not ours to write.
    """

    plugin_id: PluginId
    servers: tuple[str, ...]
    changed: bool
    remaining: tuple[str, ...] = ()


def withdraw(site: Site, settings: Settings, plugin_id: PluginId, known: Bundle | None) -> Departure:
    """Removes a plugin from all intents that may be written (R-PLUGIN-29, steps 1 and 3).

    Args:
        known: The plugin as it lies ready, for a record that has to be made again first.
    Raises:
        PolicyError: The administrator keeps it enabled (`policy_forced`).
        ConflictError, ConfigValidationError, StartupError: A settings file is held, faulty or refused.
    """
    text = str(plugin_id)
    refuse_forced(settings, plugin_id)
    ledger, _ = read_ledger(site.home)
    records = ledger.get(text, ())
    servers = tuple(dict.fromkeys(bundle_id for record in records for bundle_id in record.mcp_servers))
    if not records and known is not None:
        servers = known.bundle_ids
    changed = False
    for path in _settings_files(site, records):
        changed |= change_intent(path, "settings", lambda now: _departing(now, text)).changed
    visible = (layer for layer in settings.layers if layer.origin in ("embed", "flag", "policy"))
    remaining = tuple(layer.label for layer in visible if text in layer.values.get("installedPlugins", ()))
    return Departure(plugin_id, servers, changed, remaining)


def discard(site: Site, plugin_id: PluginId) -> tuple[str, ...]:
    """Deletes the trees of a plugin, and its record last; what was deleted."""
    places = (versions_path(site.home, plugin_id), legacy_path(site.home, plugin_id))
    with moving(site.home):
        gone = tuple(str(place) for place in places if remove_tree(place, site.home))
    change_ledger(site.home, lambda ledger: {key: ledger[key] for key in ledger if key != str(plugin_id)})
    return gone


def sweep_versions(site: Site, bundles: tuple[Bundle, ...]) -> tuple[str, ...]:
    """Deletes trees of versions that nothing means any more."""
    gone = (place for bundle in bundles for place in other_versions(site, bundle))
    with moving(site.home):
        return tuple(str(place) for place in gone if remove_tree(place, site.home))


def refuse_forced(settings: Settings, plugin_id: PluginId) -> None:
    """Refuses to take away what the administrator keeps enabled.

    Raises:
        PolicyError: It is so (`policy_forced`).
    """
    text = str(plugin_id)
    if settings.of("policy").get("enabledPlugins", {}).get(text) is True:
        raise PolicyError(f"{text} is enabled by policy", code="policy_forced", plugin_id=text)


def _refuse_name_twice(plugin_id: PluginId, settings: Settings) -> None:
    for other in settings.names("installedPlugins"):
        if other.partition("@")[0] == plugin_id.plugin and other != str(plugin_id):
            raise ConflictError(
                f"the name {plugin_id.plugin!r} is taken by {other}; uninstall that first",
                code="plugin_name_taken",
                plugin_id=str(plugin_id),
            )


def _settings_files(site: Site, records: tuple[Record, ...]) -> list[Path]:
    """The settings files that may say something of a plugin and exist; the user's last, as it holds the install."""
    user = site.places.settings("user")
    roots = [Path(record.project_path) / ".tfrobot" for record in records if record.project_path]
    here = [site.places.settings("local"), site.places.settings("project")]
    there = [root / name for root in roots for name in ("settings.local.json", "settings.json")]
    return [path for path in dict.fromkeys((*here, *there, user)) if path.is_file()]


def _departing(now: Mapping[str, Any], text: str) -> dict[str, Any]:
    return {**without_element(now, "installedPlugins", text), **_opinion_patch(now, text, None)}


def _opinion_patch(now: Mapping[str, Any], text: str, value: bool | None) -> dict[str, Any]:
    if value is None and opinion_in(now, text) is None:
        return {}
    return {"enabledPlugins": {text: value}}
