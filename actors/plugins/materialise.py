"""Makes a plugin lie ready: resolved, fetched, judged, and moved into its versioned place (R-PLUGIN-15). Blocking.

It activates nothing. What lies ready already and is what the catalog means is used as it
is, without the network; paths that were written down are computed again (R-PLUGIN-16).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from ...wire.errors import AuthError, ConfigValidationError, NetworkError, SmcpError
from ..reconcile.config.findings import Findings
from .bundle import Bundle, read_bundle, read_manifest_of
from .catalogs import Catalog
from .containment import resolve_inside
from .git_urls import local_path
from .ids import PluginId
from .ledger import Ledger, Record, timestamp
from .manifest import Entry
from .moving import moving
from .site import Site, fetch_tree
from .store import legacy_path, plugin_path, versions_path, workshop
from .trees import copy_tree, move_in, scratch

UNVERSIONED = "unversioned"
"""The version of a plugin that says none and comes from a plain directory."""


class Materialised(msgspec.Struct, frozen=True):
    """A plugin that lies ready; `record` is what the ledger shall say of it, `None` when it says so already."""

    bundle: Bundle
    record: Record | None = None


def entry_of(plugin_id: PluginId, catalog: Catalog) -> Entry:
    """The entry of a plugin in its catalog.

    Raises:
        ConfigValidationError: There is none (`unknown_plugin`).
    """
    entry = catalog.marketplace.plugins.get(plugin_id.plugin)
    if entry is None:
        raise ConfigValidationError(
            f"{plugin_id.marketplace} does not offer {plugin_id.plugin}",
            code="unknown_plugin",
            plugin_id=str(plugin_id),
        )
    return entry


def materialise(
    site: Site,
    plugin_id: PluginId,
    catalog: Catalog,
    ledger: Ledger,
    *,
    fresh: bool = False,
    version: str | None = None,
) -> Materialised:
    """The plugin, ready.

    Args:
        fresh: Fetch again what comes from a repository of its own.
        version: The only one that is wanted; `None` for the one there is.
    Raises:
        ConfigValidationError, ConflictError: The plugin is faulty or of another version; nothing of it is left.
        NetworkError, AuthError: It could not be fetched, and there is no good tree of it.
        StartupError: The disk refuses.
    """
    entry = entry_of(plugin_id, catalog)
    record = next((one for one in ledger.get(str(plugin_id), ()) if one.scope == "user"), None)
    work = _Work(site, plugin_id, entry, record, version)
    try:
        if entry.source.url is None:
            return work.from_catalog(catalog)
        return work.from_repository(local=local_path(catalog.url) is not None, fresh=fresh)
    except SmcpError as error:
        error.plugin_id = error.plugin_id or str(plugin_id)
        raise


class _Work(msgspec.Struct):
    site: Site
    plugin_id: PluginId
    entry: Entry
    record: Record | None
    wanted: str | None

    def from_catalog(self, catalog: Catalog) -> Materialised:
        with suppress(ConfigValidationError):  # whoever replaces the catalog just now may leave nothing to be seen
            source = self._source_in(catalog)
            record = self.record
            if record is not None and record.commit_sha == catalog.commit_sha:
                ready = self._ready(self._version(source, catalog.commit_sha), record.commit_sha)
                if ready is not None:
                    return ready
        with moving(self.site.home), scratch(workshop(self.site.home)) as place:
            source = self._source_in(catalog)
            version = self._version(source, catalog.commit_sha)
            copy_tree(source, place / "plugin")
            return self._install(place / "plugin", version, catalog.commit_sha)

    def _source_in(self, catalog: Catalog) -> Path:
        source = resolve_inside(catalog.path, self.entry.source.path, "source")
        if not source.is_dir():
            raise ConfigValidationError(
                f"{self.entry.source.path} is no directory", code="missing_tree", field="source"
            )
        return source

    def from_repository(self, *, local: bool, fresh: bool) -> Materialised:
        ready = self._known_tree()
        if ready is not None and not fresh:
            return ready
        try:
            return self._fetched(local)
        except (NetworkError, AuthError):
            if ready is None:
                raise
            return ready

    def _fetched(self, local: bool) -> Materialised:
        source = self.entry.source
        assert source.url is not None
        with scratch(workshop(self.site.home)) as place:
            clone, commit = self._legacy(), source.sha
            if clone is None:
                clone = place / "clone"
                what = str(self.plugin_id)
                commit = fetch_tree(
                    self.site, source.url, clone, what=what, local=local, ref=source.ref, sha=source.sha
                )
            tree = resolve_inside(clone, source.path, "source.path")
            if not tree.is_dir():
                raise ConfigValidationError(f"{source.path} is no directory", code="missing_tree", field="source.path")
            copy_tree(tree, place / "plugin")
            with moving(self.site.home):
                return self._install(place / "plugin", self._version(place / "plugin", commit), commit)

    def _legacy(self) -> Path | None:
        """A clone that an official SDK made, when it is exactly what is wanted."""
        place = legacy_path(self.site.home, self.plugin_id)
        sha = self.entry.source.sha
        return place if sha is not None and self.site.git.head(place) == sha else None

    def _known_tree(self) -> Materialised | None:
        """A tree that is what the catalog means, as far as that can be told without the network."""
        record, source = self.record, self.entry.source
        if record is not None and record.version is not None:
            is_meant = source.sha in (None, record.commit_sha) and self.entry.version in (None, record.version)
            return self._ready(record.version, record.commit_sha) if is_meant else None
        if self.entry.version is not None:
            return self._ready(self.entry.version, source.sha)
        if source.sha is not None:
            return self._ready(source.sha, source.sha)
        return None

    def _ready(self, version: str, commit: str | None) -> Materialised | None:
        place = plugin_path(self.site.home, self.plugin_id, version)
        if self.wanted not in (None, version) or not place.is_dir() or place.is_symlink():
            return None
        try:
            bundle = read_bundle(place, self.plugin_id, self.entry, version, commit)
        except SmcpError:
            return None
        return Materialised(bundle, self._record(bundle))

    def _install(self, tree: Path, version: str, commit: str | None) -> Materialised:
        """Judges a tree and moves it to its place. Holds the trees."""
        self.site.report(str(self.plugin_id), "checking", None)
        if self.wanted not in (None, version):
            reason = f"{self.plugin_id} is {version}, not {self.wanted}"
            raise ConfigValidationError(reason, code="unknown_version")
        bundle = read_bundle(tree, self.plugin_id, self.entry, version, commit)
        place = plugin_path(self.site.home, self.plugin_id, version)
        former = workshop(self.site.home) / f"old-{self.plugin_id}"
        move_in(tree, place, former)
        bundle = msgspec.structs.replace(bundle, root=place)
        return Materialised(bundle, self._record(bundle, is_new=True))

    def _version(self, tree: Path, commit: str | None) -> str:
        if self.entry.version is not None:
            return self.entry.version
        return read_manifest_of(tree, Findings()).version or commit or UNVERSIONED

    def _record(self, bundle: Bundle, *, is_new: bool = False) -> Record | None:
        now, before = timestamp(self.site.clock()), self.record
        record = Record(
            "user",
            str(bundle.root),
            before.installed_at if before is not None else now,
            before.last_updated if before is not None and not is_new else now,
            list(bundle.bundle_ids),
            None,
            bundle.version,
            bundle.commit_sha,
        )
        return None if record == before else record


def other_versions(site: Site, bundle: Bundle) -> tuple[Path, ...]:
    """Trees of other versions of a plugin."""
    place = versions_path(site.home, bundle.plugin_id)
    if not place.is_dir():
        return ()
    return tuple(sorted(path for path in place.iterdir() if path != bundle.root))
