"""Where fetched things are kept under the home: a pure function of names and version (R-FILE-2, R-PLUGIN-16)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .ids import PluginId

SEGMENT_LIMIT = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def segment(version: str) -> str:
    """The name of a version's directory; a version that cannot be one as it is gets a mark that tells it apart."""
    safe = _UNSAFE.sub("_", version).lstrip(".")[:SEGMENT_LIMIT]
    if safe == version:
        return safe
    return f"{safe}-{hashlib.sha256(version.encode()).hexdigest()[:8]}"


def catalogs_root(home: Path) -> Path:
    """The directory of everything fetched."""
    return home / "marketplace"


def catalog_path(home: Path, marketplace: str) -> Path:
    """The tree of a catalog."""
    return catalogs_root(home) / marketplace


def versions_path(home: Path, plugin_id: PluginId) -> Path:
    """The directory of all versions of a plugin."""
    return catalogs_root(home) / ".store" / plugin_id.marketplace / plugin_id.plugin


def plugin_path(home: Path, plugin_id: PluginId, version: str) -> Path:
    """The tree of one version of a plugin."""
    return versions_path(home, plugin_id) / segment(version)


def legacy_path(home: Path, plugin_id: PluginId) -> Path:
    """Where the official SDKs keep a plugin of its own repository."""
    return catalogs_root(home) / ".plugins" / plugin_id.marketplace / plugin_id.plugin


def workshop(home: Path) -> Path:
    """Where trees are built before they are moved to their place; whatever is in it may be deleted."""
    return catalogs_root(home) / ".tmp"


def set_aside_path(home: Path, marketplace: str) -> Path:
    """Where the former tree of a catalog is while the new one is moved in."""
    return workshop(home) / f"former-{marketplace}"
