"""Settings of all scopes as one: read with the trust each scope has, merged field by field (03 §3.3, §3.4). Pure.

A field that a scope may not supply is left out and reported; everything else of the same
file counts. What a project ships may make things stricter and never wider (F-08).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..config.computer_config import ComputerConfig
from ..config.findings import Findings, member
from ..config.settings_fields import read_settings
from ..layers import merge_settings
from ..server_set import PRECEDENCE, Origin

NOT_FROM_PROJECT = frozenset(
    {
        "trustedMarketplaces",
        "enabledMcpjsonServers",
        "enableAllProjectMcpServers",
        "landingRoot",
        "mcpServerRuntime",
        "approvedMcpServerFingerprints",
    }
)
"""Fields that widen a permission or steer this machine. `enabledPlugins` is not among them: its `false` must work."""

NOBODY = ""
"""Stands for no server in a list of allowed ones of which no element was valid; it is no legal bundle_id."""
_ALLOWED = "allowedMcpServers"


class SettingsLayer(msgspec.Struct, frozen=True):
    """What one scope says, checked and filtered; `label` is its file, or what else it comes from."""

    origin: Origin
    label: str
    values: dict[str, Any] = {}


class Settings(msgspec.Struct, frozen=True):
    """All scopes, lowest first, and what they come to."""

    layers: tuple[SettingsLayer, ...] = ()
    merged: dict[str, Any] = {}

    def of(self, origin: Origin) -> dict[str, Any]:
        """What one scope says."""
        return merge_all(layer.values for layer in self.layers if layer.origin == origin)

    def names(self, field: str) -> tuple[str, ...]:
        """A merged array of strings."""
        return tuple(self.merged.get(field, ()))

    def flag(self, field: str) -> bool:
        """A merged boolean; false when nobody says anything."""
        return self.merged.get(field) is True

    def source_of(self, path: tuple[str, ...]) -> SettingsLayer | None:
        """The highest layer with an opinion at a path of keys."""
        return next((layer for layer in reversed(self.layers) if has(layer.values, path)), None)

    def listing(self, field: str, element: str) -> SettingsLayer | None:
        """The highest layer whose array holds an element."""
        return next((layer for layer in reversed(self.layers) if element in layer.values.get(field, ())), None)

    def shadow_of(self, path: tuple[str, ...], origin: Origin) -> SettingsLayer | None:
        """The layer that keeps a value of `origin` at a path from being effective; `None` when it is (R-FILE-13).

        Objects and arrays are united with what others say, so only a single value can be shadowed.
        """
        source = self.source_of(path)
        if source is None or PRECEDENCE.index(source.origin) <= PRECEDENCE.index(origin):
            return None
        return None if isinstance(value_at(source.values, path), Mapping | list) else source


def read_scope(raw: object, origin: Origin, label: str, findings: Findings) -> SettingsLayer:
    """The part of a scope's settings that counts (R-SCOPE-10, R-SCOPE-11)."""
    if origin == "project" and isinstance(raw, Mapping):
        raw = _without_trust(raw, findings)
    values = read_settings(raw, "", findings, is_policy=origin == "policy")
    if origin == "policy" and isinstance(raw, Mapping) and raw.get(_ALLOWED) and not values.get(_ALLOWED):
        # Whoever restricts, and is not understood, meant anything but "no restriction" (R-SEC-14).
        values[_ALLOWED] = [NOBODY]
    return SettingsLayer(origin, label, values)


def merge(layers: Iterable[SettingsLayer]) -> Settings:
    """The settings out of layers in any order; of two layers of one scope the later is the stronger."""
    ordered = tuple(sorted(layers, key=lambda layer: PRECEDENCE.index(layer.origin)))
    return Settings(ordered, merge_all(layer.values for layer in ordered))


def merge_all(values: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Objects merged from low to high; arrays hold each element once, at its first place (R-SCOPE-6)."""
    merged: dict[str, Any] = {}
    for one in values:
        merged = merge_settings(merged, one)
    return {key: _once(value) for key, value in merged.items()}


def embed_settings(config: ComputerConfig) -> SettingsLayer:
    """What a configuration says about settings, its own families included (R-CFG-6)."""
    families: dict[str, Any] = {
        "extraKnownMarketplaces": config.marketplaces,
        "trustedMarketplaces": list(config.trusted_marketplaces),
        "blockedMarketplaces": list(config.blocked_marketplaces),
        "strictKnownMarketplaces": config.strict_known_marketplaces,
        "installedPlugins": list(config.installed_plugins),
        "enabledPlugins": config.enabled_plugins,
    }
    said = {name: value for name, value in families.items() if value}
    return SettingsLayer("embed", "config", merge_settings(config.settings, said))


def value_at(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path of keys, `None` for none."""
    found: Any = values
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def has(values: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether there is a value at a path of keys."""
    return value_at(values, path) is not None


def _without_trust(raw: Mapping[str, Any], findings: Findings) -> dict[str, Any]:
    kept = dict(raw)
    for key in raw:
        place = member("", key)
        if key in NOT_FROM_PROJECT:
            findings.add(place, "does not count from a project", category="policy", code="not_from_project")
            del kept[key]
        elif key == "strictKnownMarketplaces" and raw[key] is False:
            findings.add(place, "a project cannot lift strictness", category="policy", code="not_from_project")
            del kept[key]
    return kept


def _once(value: Any) -> Any:
    if isinstance(value, list):
        once: list[Any] = []
        for element in value:
            if element not in once:
                once.append(element)
        return once
    return {key: _once(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
