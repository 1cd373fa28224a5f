"""What a plugin brings: servers, inputs and directories of skills, read from its tree all or nothing. Blocking.

Reading activates nothing. A tree whose server files do not all parse is no plugin
(R-PLUGIN-15, R-PLUGIN-17).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...wire.errors import ConfigValidationError, Finding
from ..reconcile.config.declaration import Declaration
from ..reconcile.config.findings import Findings, error_of
from ..reconcile.config.inputs import Definition, read_inputs
from ..reconcile.config.json_text import load
from ..reconcile.config.server_entry import ServerEntry, read_entry
from ..reconcile.files.atomic import read_file
from ..reconcile.rendering.scoped_ids import scoped
from .containment import is_inside
from .ids import PluginId
from .manifest import PLUGIN_FILE, Entry, PluginManifest, containers_of, read_plugin_manifest, strict_conflict

SERVERS_FOLDER = "mcp-servers"
INPUTS_FILE = "inputs.json"
MAX_SERVER_FILES = 200
MAX_FILE = 1024 * 1024


class Bundle(msgspec.Struct, frozen=True):
    """A plugin whose tree lies ready.

    Attributes:
        root: Its tree.
        version: As resolved; also the name of its directory.
        inputs: Definitions with scoped ids (R-INPUT-22).
        containers: Directories of skills, relative to the root.
        warnings: What was odd in it.
    """

    plugin_id: PluginId
    root: Path
    version: str
    servers: tuple[ServerEntry, ...] = ()
    inputs: tuple[Definition, ...] = ()
    containers: tuple[str, ...] = ()
    commit_sha: str | None = None
    warnings: tuple[Finding, ...] = ()

    @property
    def bundle_ids(self) -> tuple[str, ...]:
        """Identities of its servers."""
        return tuple(server.bundle_id for server in self.servers)

    @property
    def declaration(self) -> Declaration:
        """What it declares, in the form of any other declaration."""
        return Declaration(f"plugin:{self.plugin_id}", self.servers, self.inputs)


def read_manifest_of(root: Path, findings: Findings) -> PluginManifest:
    """The plugin's own manifest; empty when there is none or it cannot be read."""
    try:
        data = _read(root, PLUGIN_FILE)
        if data is None:
            return PluginManifest()
        return read_plugin_manifest(load(data, PLUGIN_FILE), findings)
    except ConfigValidationError as error:
        findings.warn("$", f"cannot be read and counts as empty: {error.code}", code="manifest_ignored")
        return PluginManifest()


def read_bundle(root: Path, plugin_id: PluginId, entry: Entry, version: str, commit_sha: str | None = None) -> Bundle:
    """The plugin in a tree.

    Raises:
        ConfigValidationError, ConflictError: Something in it does not parse; one error with all findings.
    """
    manifest_findings = Findings(PLUGIN_FILE)
    manifest = read_manifest_of(root, manifest_findings)
    conflict = strict_conflict(entry, manifest)
    if conflict is not None:
        manifest_findings.add("$", conflict, code="strict_conflict")
    if manifest.name is not None and manifest.name != entry.name:
        reason = f"says {manifest.name!r}; the name in the catalog, {entry.name!r}, counts"
        manifest_findings.warn("name", reason, code="name_differs")
    servers, faults, warnings = read_servers_of(root)
    inputs, input_faults, input_warnings = read_inputs_of(root, plugin_id)
    faults = [*manifest_findings.faults, *faults, *input_faults]
    if faults:
        raise error_of(faults, str(plugin_id))
    return Bundle(
        plugin_id,
        root,
        version,
        servers,
        inputs,
        containers_of(entry, manifest),
        commit_sha,
        (*manifest_findings.warnings, *warnings, *input_warnings),
    )


def read_servers_of(root: Path) -> tuple[tuple[ServerEntry, ...], list[Finding], list[Finding]]:
    """The bundled servers of a tree, in order of their files, with all faults and warnings."""
    folder = root / SERVERS_FOLDER
    faults: list[Finding] = []
    warnings: list[Finding] = []
    placed: list[tuple[str, ServerEntry]] = []
    try:
        listed = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return (), faults, warnings
    except OSError:
        return (), [Finding("$", "cannot be listed", code="unreadable", source=SERVERS_FOLDER)], warnings
    names = sorted(name for name in listed if name.endswith(".json") and name not in (".json", INPUTS_FILE))
    if len(names) > MAX_SERVER_FILES:
        return (), [Finding("$", f"holds more than {MAX_SERVER_FILES} servers", code="too_many")], warnings
    for name in names:
        label, stem = f"{SERVERS_FOLDER}/{name}", name.removesuffix(".json")
        findings = Findings(label)
        try:
            raw = load(_read(root, label) or b"", label)
        except ConfigValidationError as error:
            faults.extend(error.findings)
            continue
        if isinstance(raw, Mapping) and raw.get("name") != stem:
            findings.add("name", f"must equal the name of its file, {stem!r}", code="name_differs")
        entry = read_entry(raw, "", findings)
        faults.extend(findings.faults)
        warnings.extend(findings.warnings)
        if entry is not None:
            placed.append((label, entry))
    owners: dict[str, str] = {}
    for label, entry in placed:
        other = owners.setdefault(entry.bundle_id, label)
        if other != label:
            reason = f"has the same bundle_id {entry.bundle_id!r} as {other}"
            faults.append(Finding("bundle_id", reason, "conflict", "duplicate_bundle_id", label))
    return tuple(entry for _, entry in placed), faults, warnings


def read_inputs_of(root: Path, plugin_id: PluginId) -> tuple[tuple[Definition, ...], list[Finding], list[Finding]]:
    """The inputs of a tree with scoped ids; a faulty one is left out with a warning, a broken file is a fault."""
    label = f"{SERVERS_FOLDER}/{INPUTS_FILE}"
    try:
        data = _read(root, label)
        raw = None if data is None else load(data, label)
    except ConfigValidationError as error:
        return (), list(error.findings), []
    if isinstance(raw, Mapping):
        raw = raw.get("inputs")
    findings = Findings(label)
    definitions = read_inputs(raw, "inputs", findings)
    ids = (msgspec.structs.replace(one, id=scoped(str(plugin_id), one.id)) for one in definitions)
    return tuple(ids), [], [*findings.faults, *findings.warnings]


def _read(root: Path, name: str) -> bytes | None:
    """A file of a tree; one that a link takes out of it is refused before it is read."""
    path = os.path.join(root, name)
    is_linked = os.path.islink(path) or os.path.islink(os.path.dirname(path))
    if is_linked and not is_inside(path, root):
        reason = "leads out of its tree through a link"
        raise ConfigValidationError(
            f"{name}: {reason}", code="path_outside", findings=(Finding("$", reason, code="path_outside", source=name),)
        )
    return read_file(path, limit=MAX_FILE)
