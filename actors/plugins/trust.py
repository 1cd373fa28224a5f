"""Whom to fetch from, and whose word makes a plugin's servers run (R-PLUGIN-8, R-GATE-9). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..reconcile.scopes.settings import Settings
from ..reconcile.scopes.trust import TRUSTED_JUDGES


def refusal(name: str, settings: Settings) -> str | None:
    """Why a declared marketplace may not be fetched; `None` when it may.

    A hook of the application may refuse beside this.
    """
    if name in settings.names("blockedMarketplaces"):
        return "the marketplace is blocked"
    url = url_of(settings.merged.get("extraKnownMarketplaces", {}).get(name))
    declared = {
        layer.origin: url_of(layer.values.get("extraKnownMarketplaces", {}).get(name))
        for layer in settings.layers
        if name in layer.values.get("extraKnownMarketplaces", {})
    }
    trusted = {declared[origin] for origin in declared if origin in TRUSTED_JUDGES}
    by_name = name in settings.names("trustedMarketplaces") and (not trusted or url in trusted)
    if settings.flag("strictKnownMarketplaces"):
        if by_name or declared.get("policy") == url:
            return None
        return "only marketplaces that are trusted by name or declared by policy may be fetched"
    if by_name or url in trusted:
        return None
    return "a project alone declares this marketplace, and nobody trusted it"


def is_trust_enabled(plugin_id: str, settings: Settings) -> bool:
    """Whether somebody who may judge enables a plugin, and nobody above says no (R-GATE-9)."""
    for layer in reversed(settings.layers):
        opinion = layer.values.get("enabledPlugins", {}).get(plugin_id)
        if opinion is False:
            return False
        if opinion is True and layer.origin in TRUSTED_JUDGES:
            return True
    return False


def url_of(declaration: Mapping[str, Any] | None) -> str | None:
    """The url a marketplace is declared with."""
    if declaration is None:
        return None
    url = declaration.get("source", {}).get("url")
    return url if isinstance(url, str) else None
