"""Judges a marketplace or a plugin on disk: every fault in one pass, and nothing written (F-18). Blocking."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ...wire.errors import ConfigValidationError, Finding
from ...wire.messages.skills import PluginSkills
from ..reconcile.config.findings import Findings
from ..reconcile.config.json_text import load
from ..reconcile.files.atomic import read_file
from ..skills.discover import scan_plugin
from ..skills.forbidden import ForbiddenNames
from .bundle import SERVERS_FOLDER, read_inputs_of, read_manifest_of, read_servers_of
from .catalogs import MAX_MANIFEST
from .containment import is_inside, resolve_inside
from .ids import PluginId
from .manifest import MARKETPLACE_FILE, PLUGIN_FILE, Entry, Source, containers_of, read_marketplace, strict_conflict

Mode = Literal["marketplace", "plugin"]


class Issue(msgspec.Struct, frozen=True):
    """One fault: what kind, where."""

    code: str
    file: str
    location: str
    message: str


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of a validation; `errors` make it invalid."""

    valid: bool
    mode: Mode | None
    path: str
    checked_files: int
    errors: tuple[Issue, ...] = ()
    warnings: tuple[Issue, ...] = ()


def validate(path: Path) -> Verdict:
    """Everything that is wrong with a directory that shall be a marketplace, or else a plugin."""
    check = _Check(path)
    if (path / MARKETPLACE_FILE).is_file():
        check.marketplace()
        return check.verdict("marketplace")
    if any((path / name).exists() for name in (PLUGIN_FILE, SERVERS_FOLDER, "skills")):
        check.plugin(path, "", Entry(path.name, Source()), PluginId(path.name, "local"))
        return check.verdict("plugin")
    reason = f"there is neither {MARKETPLACE_FILE} nor {PLUGIN_FILE} nor {SERVERS_FOLDER}/ nor skills/"
    check.error(Finding("$", reason, code="nothing_to_check", source=""))
    return check.verdict(None)


class _Check:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._files = 0
        self._errors: list[Issue] = []
        self._warnings: list[Issue] = []

    def verdict(self, mode: Mode | None) -> Verdict:
        return Verdict(not self._errors, mode, str(self._root), self._files, tuple(self._errors), tuple(self._warnings))

    def error(self, finding: Finding, below: str = "") -> None:
        self._errors.append(_issue(finding, below))

    def warn(self, finding: Finding, below: str = "") -> None:
        self._warnings.append(_issue(finding, below))

    def marketplace(self) -> None:
        """The catalog, and each plugin that lies in it."""
        findings = Findings(MARKETPLACE_FILE)
        marketplace = None
        self._files += 1
        try:
            if not is_inside(self._root / MARKETPLACE_FILE, self._root):
                findings.add("$", "leads out of its tree through a link", code="path_outside")
            else:
                raw = load(read_file(self._root / MARKETPLACE_FILE, limit=MAX_MANIFEST) or b"", MARKETPLACE_FILE)
                marketplace = read_marketplace(raw, findings)
        except ConfigValidationError as error:
            findings.faults.extend(error.findings)
        self._take(findings.faults, findings.warnings, "")
        for entry in marketplace.plugins.values() if marketplace is not None else ():
            if entry.source.url is not None:
                continue
            place = f"plugins.{entry.name}.source"
            try:
                tree = resolve_inside(self._root, entry.source.path, place)
            except ConfigValidationError as error:
                self.error(Finding(place, error.message, code=error.code, source=MARKETPLACE_FILE))
                continue
            if not tree.is_dir():
                reason = f"{entry.source.path} is no directory"
                self.error(Finding(place, reason, code="missing_tree", source=MARKETPLACE_FILE))
                continue
            self.plugin(tree, entry.source.path.removeprefix("./"), entry, PluginId(entry.name, "local"))

    def plugin(self, root: Path, below: str, entry: Entry, plugin_id: PluginId) -> None:
        """One plugin's tree."""
        findings = Findings(PLUGIN_FILE)
        manifest = read_manifest_of(root, findings)
        conflict = strict_conflict(entry, manifest)
        if conflict is not None:
            findings.add("$", conflict, code="strict_conflict")
        self._files += (root / PLUGIN_FILE).is_file()
        self._take(findings.faults, findings.warnings, below)
        _, faults, warnings = read_servers_of(root)
        self._take(faults, warnings, below)
        folder = root / SERVERS_FOLDER
        self._files += len(list(folder.glob("*.json"))) if folder.is_dir() else 0
        _, faults, warnings = read_inputs_of(root, plugin_id)
        # To who writes a plugin an input that is left out is a fault; at run time it costs only itself.
        self._take([*faults, *warnings], [], below)
        self._skills(root, below, plugin_id, containers_of(entry, manifest))

    def _skills(self, root: Path, below: str, plugin_id: PluginId, containers: tuple[str, ...]) -> None:
        skills = PluginSkills(plugin_id.plugin, plugin_id.marketplace, str(root), containers)
        finds = scan_plugin(skills, 0, ForbiddenNames())
        self._files += len(finds.skills)
        for container in containers:
            if container != "skills" and not (root / container).is_dir():
                self.error(
                    Finding("skills", f"{container} is no directory", code="missing_tree", source=PLUGIN_FILE), below
                )
        for notes in finds.notes.values():
            for note in notes:
                label = str(Path(note.place).relative_to(root)) if is_inside(Path(note.place), root) else note.place
                finding = Finding("$", note.text, code="skill", source=label)
                if note.level == "error":
                    self.error(finding, below)
                elif note.level == "warning":
                    self.warn(finding, below)

    def _take(self, faults: list[Finding], warnings: list[Finding], below: str) -> None:
        for finding in faults:
            self.error(finding, below)
        for finding in warnings:
            self.warn(finding, below)


def _issue(finding: Finding, below: str) -> Issue:
    file = "/".join(part for part in (below, finding.source or "") if part)
    return Issue(finding.code, file, finding.field, finding.reason)
