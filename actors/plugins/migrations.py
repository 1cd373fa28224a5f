"""What homes of earlier versions lack in the user's settings, as one change (R-FILE-15, R-FILE-16). Pure.

Each migration is over once its key stands in the file, even empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..reconcile.config.settings_fields import is_name, is_plugin_id
from .git_urls import is_git_url


def migration(
    user: Mapping[str, Any],
    opinions: Iterable[str],
    ledger_keys: Iterable[str],
    marketplaces: Mapping[str, Mapping[str, Any]],
    due: frozenset[str] = frozenset({"installedPlugins", "extraKnownMarketplaces"}),
) -> dict[str, Any]:
    """The change to the user's settings; empty when nothing is due.

    Args:
        user: The user's settings as they stand in the file.
        opinions: Plugin ids that any scope enables or disables.
        ledger_keys: Keys of the ledger as it was found.
        marketplaces: Records of added marketplaces.
        due: Markers that are needed: nothing is written for what nobody uses.
    """
    patch: dict[str, Any] = {}
    installed = user.get("installedPlugins")
    if "installedPlugins" in due and "installedPlugins" not in user:
        installed = [key for key in ledger_keys if is_plugin_id(key)]
        patch["installedPlugins"] = installed
        known = frozenset(opinions)
        silent = {key: True for key in installed if key not in known}
        if silent:
            patch["enabledPlugins"] = silent
    if "extraKnownMarketplaces" in due and "extraKnownMarketplaces" not in user:
        wanted = {key.rpartition("@")[2] for key in installed or () if isinstance(key, str)}
        wanted |= {name for name in user.get("trustedMarketplaces") or () if isinstance(name, str)}
        patch["extraKnownMarketplaces"] = {
            name: adopted
            for name, record in marketplaces.items()
            if name in wanted and is_name(name) and (adopted := _adopted(record)) is not None
        }
    return patch


def _adopted(record: Mapping[str, Any]) -> dict[str, Any] | None:
    source = record.get("source")
    url = source.get("url") if isinstance(source, Mapping) else None
    if not isinstance(url, str) or not is_git_url(url):
        return None
    adopted: dict[str, Any] = {"source": {"type": "git", "url": url}}
    if isinstance(record.get("autoUpdate"), bool):
        adopted["autoUpdate"] = record["autoUpdate"]
    return adopted
