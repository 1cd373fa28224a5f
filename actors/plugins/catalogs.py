"""Catalogs of marketplaces on disk, brought to what is declared: additive, and one failure costs one source (03 §7.4).

Blocking. Nothing is ever removed here; what was declared once stays until somebody prunes it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ...wire.errors import ConfigValidationError, Finding, PolicyError, SmcpError
from ..reconcile.config.findings import Findings
from ..reconcile.config.json_text import load
from ..reconcile.files.atomic import make_private_directory, read_file
from ..reconcile.scopes.settings import Settings
from .containment import is_inside
from .git_urls import local_path
from .ledger import Known, Knowns, change_knowns, read_knowns, timestamp
from .manifest import MARKETPLACE_FILE, Marketplace, read_marketplace
from .moving import moving
from .site import Site, advance_tree, fetch_tree, is_plain_directory, refuses
from .store import catalog_path, set_aside_path, workshop
from .transfer import archive_form
from .trees import move_in, scratch
from .trust import refusal, url_of

MAX_MANIFEST = 4 * 1024 * 1024


class Catalog(msgspec.Struct, frozen=True):
    """A catalog that lies ready.

    Attributes:
        is_new: Whether it was fetched just now.
        warnings: What is wrong with entries of it.
    """

    name: str
    path: Path
    url: str
    marketplace: Marketplace
    commit_sha: str | None = None
    is_new: bool = False
    warnings: tuple[Finding, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """What a reconcile did, by marketplace (R-PLUGIN-10). There is no "removed"."""

    installed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    up_to_date: tuple[str, ...] = ()
    failed: dict[str, Finding] = {}
    skipped: dict[str, Finding] = {}


class Catalogs(msgspec.Struct, frozen=True):
    """All catalogs that may contribute, by name, and how they came to be."""

    catalogs: dict[str, Catalog] = {}
    report: Report = Report()
    notes: tuple[str, ...] = ()


def declarations(settings: Settings) -> Mapping[str, Mapping[str, Any]]:
    """The merged declarations of marketplaces."""
    found: Mapping[str, Mapping[str, Any]] = settings.merged.get("extraKnownMarketplaces", {})
    return found


def check_source(site: Site, name: str, settings: Settings) -> str:
    """The url of a declared marketplace that may be fetched.

    Raises:
        ConfigValidationError: It is not declared (`unknown_marketplace`).
        PolicyError: It may not be fetched (`source_refused`).
    """
    url = url_of(declarations(settings).get(name))
    if url is None:
        raise ConfigValidationError(f"no marketplace {name!r} is declared", code="unknown_marketplace")
    reason = refusal(name, settings)
    if reason is None and refuses(site.source_trust, {"marketplace": name, "url": url}):
        reason = "the application refuses this source"
    if reason is not None:
        raise PolicyError(f"{name}: {reason}", code="source_refused")
    return url


def reconcile_catalogs(
    site: Site, settings: Settings, *, refresh: frozenset[str] = frozenset(), boot: bool = False, record: bool = True
) -> Catalogs:
    """Fetches what is declared and missing, and what shall be fresh.

    Args:
        refresh: Marketplaces to bring up to date; all of those with `autoUpdate` too at a boot (R-PLUGIN-12).
        record: Whether what was done may be written down.
    """
    declared = declarations(settings)
    if not declared:
        return Catalogs()
    make_private_directory(site.home)
    knowns, notes = read_knowns(site.home)
    pass_ = _Pass(site, knowns)
    for name, declaration in declared.items():
        auto = boot and declaration.get("autoUpdate") is True
        try:
            url = check_source(site, name, settings)
        except PolicyError as error:
            pass_.skipped[name] = finding_of(error, f"marketplace:{name}")
            continue
        pass_.bring(name, url, declaration.get("autoUpdate"), fresh=auto or name in refresh)
    if record and pass_.changed:
        try:
            change_knowns(site.home, lambda now: now | pass_.changed)
        except SmcpError as error:
            notes = (*notes, f"what was fetched could not be written down: {error.code}")
    return Catalogs(pass_.catalogs, pass_.report(), notes)


def restore(home: Path) -> None:
    """Puts back what a killed process had set aside, and sweeps what it was building."""
    place = workshop(home)
    if not place.is_dir():
        return
    with suppress(OSError, SmcpError), moving(home, patience=5.0):
        for rest in tuple(place.iterdir()):
            name = rest.name.removeprefix("former-")
            if name != rest.name and not catalog_path(home, name).exists():
                os.rename(rest, catalog_path(home, name))
            elif not _is_in_use(rest.name):
                shutil.rmtree(rest, ignore_errors=True)


def read_catalog(path: Path) -> tuple[Marketplace, tuple[Finding, ...]]:
    """The manifest of a catalog, and what is wrong with entries of it.

    Raises:
        ConfigValidationError: There is none, or it is none (`manifest_unreadable`).
    """
    findings = Findings(MARKETPLACE_FILE)
    place = path / MARKETPLACE_FILE
    marketplace = None
    try:
        if not is_inside(place, path):
            raise ConfigValidationError(f"{MARKETPLACE_FILE} leads out of its tree", code="path_outside")
        data = read_file(place, limit=MAX_MANIFEST)
        if data is None:
            findings.add("$", "is missing", code="missing")
        else:
            marketplace = read_marketplace(load(data, MARKETPLACE_FILE), findings)
    except ConfigValidationError as error:
        findings.add("$", f"cannot be read: {error.code}", code=error.code)
    if marketplace is None:
        faults = tuple(findings.faults)
        reasons = "; ".join(f"{fault.field}: {fault.reason}" for fault in faults[:5])
        raise ConfigValidationError(f"{MARKETPLACE_FILE}: {reasons}", code="manifest_unreadable", findings=faults)
    return marketplace, (*findings.faults, *findings.warnings)


def finding_of(error: SmcpError, identity: str) -> Finding:
    """A failure as a finding."""
    return Finding(identity, error.message, error.category, error.code, identity)


class _Pass:
    """One run over all declared marketplaces."""

    def __init__(self, site: Site, knowns: Knowns) -> None:
        self._site = site
        self._knowns = knowns
        self.catalogs: dict[str, Catalog] = {}
        self.changed: Knowns = {}
        self.skipped: dict[str, Finding] = {}
        self._failed: dict[str, Finding] = {}
        self._installed: list[str] = []
        self._updated: list[str] = []
        self._same: list[str] = []

    def report(self) -> Report:
        return Report(tuple(self._installed), tuple(self._updated), tuple(self._same), self._failed, self.skipped)

    def bring(self, name: str, url: str, auto: bool | None, *, fresh: bool) -> None:
        """One marketplace. A catalog that is good stays in use when it cannot be made fresh (R-PLUGIN-11)."""
        path, known = catalog_path(self._site.home, name), self._knowns.get(name)
        is_there = path.is_dir() and not path.is_symlink()
        is_same = is_there and (known is None or known.url == url)
        try:
            commit = known.commit_sha if known is not None else None
            if is_there and commit is None:
                commit = self._site.git.head(path)
            if is_same and not (fresh and self._is_behind(url, commit)):
                self._use(name, path, url, commit)
                self._same.append(name)
                if known is None or known.auto_update != auto:
                    self._note(name, url, commit, auto, when=known.last_updated if known is not None else None)
                return
        except SmcpError as error:
            self._failed[name] = finding_of(error, f"marketplace:{name}")
            if name in self.catalogs or (is_same and self._still_good(name, path, url, known)):
                return
        try:
            before = known.commit_sha if is_same and known is not None else None
            commit = self._fetch(name, url, path, is_same=is_same)
            self._note(name, url, commit, auto)
            self._use(name, path, url, commit, is_new=True)
            outcome = self._same if commit == before else self._updated if is_there else self._installed
            outcome.append(name)
            self._failed.pop(name, None)
        except SmcpError as error:
            self._failed[name] = finding_of(error, f"marketplace:{name}")
            if is_same:
                self._still_good(name, path, url, known)

    def _is_behind(self, url: str, commit: str | None) -> bool:
        local = local_path(url)
        is_plain = local is not None and is_plain_directory(Path(local))
        if commit is None or is_plain or archive_form(url) is not None:
            return True
        return self._site.git.tip(url) != commit

    def _fetch(self, name: str, url: str, path: Path, *, is_same: bool) -> str:
        """Builds the tree beside, moved forward from the one that is there if it can be; judges it, and moves it in."""
        with scratch(workshop(self._site.home)) as place:
            new = place / "catalog"
            commit = advance_tree(self._site, url, path, new, what=name) if is_same else None
            commit = commit or fetch_tree(self._site, url, new, what=name)
            self._site.report(name, "checking", None)
            read_catalog(new)
            with moving(self._site.home):
                move_in(new, path, set_aside_path(self._site.home, name))
        return commit

    def _still_good(self, name: str, path: Path, url: str, known: Known | None) -> bool:
        with suppress(SmcpError):
            self._use(name, path, url, known.commit_sha if known is not None else None)
        return name in self.catalogs

    def _use(self, name: str, path: Path, url: str, commit: str | None, *, is_new: bool = False) -> None:
        try:
            marketplace, warnings = read_catalog(path)
        except ConfigValidationError:
            # Another process may be exchanging the tree at this moment; what it leaves is what counts.
            with moving(self._site.home):
                marketplace, warnings = read_catalog(path)
        self.catalogs[name] = Catalog(name, path, url, marketplace, commit, is_new, warnings)

    def _note(self, name: str, url: str, commit: str | None, auto: bool | None, *, when: str | None = None) -> None:
        source = {"type": "git", "url": url}
        path = str(catalog_path(self._site.home, name))
        self.changed[name] = Known(source, path, when or timestamp(self._site.clock()), commit, auto)


def _is_in_use(name: str) -> bool:
    """Whether a half-built tree belongs to a process that still lives."""
    parts = name.split("-")
    if len(parts) != 3 or parts[0] != "new" or not parts[1].isdecimal():
        return False
    pid = int(parts[1])
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
