"""The two manifests: `marketplace.json` of a catalog and `plugin.json` of a plugin (03 §7.2). Pure.

Both are read with tolerance for what is unknown and none for what is dangerous. Every fault
is noted with its place; a faulty entry costs that entry only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..reconcile.config.findings import Findings, item, member
from ..reconcile.config.settings_fields import is_name
from .containment import path_fault
from .git_urls import expanded, is_git_url, is_ref, is_repository, is_sha

FOLDER = ".tfrobot-plugin"
MARKETPLACE_FILE = f"{FOLDER}/marketplace.json"
PLUGIN_FILE = f"{FOLDER}/plugin.json"
DEFAULT_PLUGIN_ROOT = "./plugins"
COMPONENTS = ("commands", "agents", "hooks", "skills", "mcpServers", "lspServers")
"""What a plugin's own manifest may not declare where its entry is not strict (R-PLUGIN-5)."""
MAX_PLUGINS = 5_000
MAX_CONTAINERS = 64


class Source(msgspec.Struct, frozen=True):
    """Where a plugin comes from.

    Attributes:
        path: Its directory inside the catalog, or inside the repository of `url`.
        url: Its own repository; `None` for a plugin of the catalog.
    """

    path: str = "."
    url: str | None = None
    ref: str | None = None
    sha: str | None = None


class Entry(msgspec.Struct, frozen=True):
    """One plugin as its marketplace lists it."""

    name: str
    source: Source
    version: str | None = None
    description: str = ""
    strict: bool = True
    skills: tuple[str, ...] = ()


class Marketplace(msgspec.Struct, frozen=True):
    """A catalog, by plugin name, in its order."""

    name: str
    owner: str
    plugins: dict[str, Entry]


class PluginManifest(msgspec.Struct, frozen=True):
    """What a plugin says of itself; `components` are those it declares."""

    name: str | None = None
    version: str | None = None
    skills: tuple[str, ...] = ()
    components: tuple[str, ...] = ()


def read_marketplace(raw: object, findings: Findings) -> Marketplace | None:
    """The catalog, without entries that are faulty; `None` when it is none."""
    if not isinstance(raw, Mapping):
        findings.wrong_type("$", "an object with name, owner and plugins", raw)
        return None
    name = _text(raw.get("name"), "name", findings, required=True)
    if name is not None and not is_name(name):
        findings.add("name", "must be strict kebab-case, 1 to 64 characters", code="bad_name")
        name = None
    owner = _owner(raw.get("owner"), findings)
    root = _plugin_root(raw.get("metadata"), findings)
    entries = raw.get("plugins")
    if not isinstance(entries, list):
        findings.wrong_type("plugins", "an array of plugins", entries)
        return None
    if len(entries) > MAX_PLUGINS:
        findings.add("plugins", f"lists more than {MAX_PLUGINS} plugins", code="too_many")
        return None
    plugins: dict[str, Entry] = {}
    for index, element in enumerate(entries):
        entry = read_plugin_entry(element, item("plugins", index), findings, root)
        if entry is None:
            continue
        if entry.name in plugins:
            reason = f"repeats the name {entry.name!r}; the first entry counts"
            findings.warn(item("plugins", index), reason, code="duplicate_plugin")
        else:
            plugins[entry.name] = entry
    return None if name is None or owner is None else Marketplace(name, owner, plugins)


def read_plugin_entry(raw: object, path: str, findings: Findings, root: str = DEFAULT_PLUGIN_ROOT) -> Entry | None:
    """One entry of a catalog, or `None` with at least one fault.

    Args:
        root: Where plugins with a bare name as source are.
    """
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object with name and source", raw)
        return None
    before = len(findings.faults)
    name = _text(raw.get("name"), member(path, "name"), findings, required=True)
    if name is not None and not is_name(name):
        findings.add(member(path, "name"), "must be strict kebab-case, 1 to 64 characters", code="bad_name")
    source = read_source(raw.get("source"), member(path, "source"), findings, root)
    version = _text(raw.get("version"), member(path, "version"), findings)
    description = raw.get("description")
    strict = raw.get("strict", True)
    if not isinstance(strict, bool):
        findings.wrong_type(member(path, "strict"), "a boolean", strict)
    skills = read_containers(raw.get("skills"), member(path, "skills"), findings)
    if len(findings.faults) > before or name is None or source is None:
        return None
    return Entry(name, source, version, description if isinstance(description, str) else "", strict, skills)


def read_source(raw: object, path: str, findings: Findings, root: str = DEFAULT_PLUGIN_ROOT) -> Source | None:
    """Where a plugin comes from, or `None` with at least one fault."""
    if isinstance(raw, str):
        return _catalog_source(raw, path, findings, root)
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "a relative path, a bare name or an object", raw)
        return None
    kind = raw.get("source")
    reader = _SOURCES.get(kind) if isinstance(kind, str) else None
    if reader is None:
        findings.add(member(path, "source"), f"must be one of {', '.join(_SOURCES)}", code="bad_choice")
        return None
    before = len(findings.faults)
    url = reader(raw, path, findings)
    place = "."
    if kind == "git-subdir":
        place = _text(raw.get("path"), member(path, "path"), findings, required=True) or "."
        fault = path_fault(place)
        if fault is not None:
            findings.add(member(path, "path"), fault, code="path_outside")
    ref = _checked(raw.get("ref"), member(path, "ref"), findings, is_ref, "must name a branch or tag")
    sha = _checked(raw.get("sha"), member(path, "sha"), findings, is_sha, "must be a full commit of 40 hex digits")
    return None if len(findings.faults) > before else Source(place, url, ref, sha)


def read_plugin_manifest(raw: object, findings: Findings) -> PluginManifest:
    """What a plugin says of itself. Unknown private components are nobody's concern here (R-PLUGIN-6)."""
    if not isinstance(raw, Mapping):
        findings.warn("$", "is no object and counts as empty", code="manifest_ignored")
        return PluginManifest()
    name = _text(raw.get("name"), "name", findings, required=True)
    return PluginManifest(
        name,
        _text(raw.get("version"), "version", findings),
        read_containers(raw.get("skills"), "skills", findings),
        tuple(name for name in COMPONENTS if raw.get(name) is not None),
    )


def read_containers(raw: object, path: str, findings: Findings) -> tuple[str, ...]:
    """Directories of skills inside a plugin; each must be a path inside it (C-SKILL-52)."""
    if raw is None:
        return ()
    texts = [raw] if isinstance(raw, str) else raw
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        findings.add(path, "must be a path or an array of paths", code="wrong_type")
        return ()
    if len(texts) > MAX_CONTAINERS:
        findings.add(path, f"names more than {MAX_CONTAINERS} directories", code="too_many")
        return ()
    kept = []
    for index, text in enumerate(texts):
        fault = path_fault(text)
        if fault is not None:
            findings.add(path if isinstance(raw, str) else item(path, index), fault, code="path_outside")
        else:
            kept.append(text)
    return tuple(kept)


def strict_conflict(entry: Entry, manifest: PluginManifest) -> str | None:
    """Why entry and manifest contradict each other; `None` when they do not (R-PLUGIN-5)."""
    if entry.strict or not manifest.components:
        return None
    return f"the entry has strict: false, and plugin.json declares {', '.join(manifest.components)}"


def containers_of(entry: Entry, manifest: PluginManifest) -> tuple[str, ...]:
    """Directories in which skills are looked for, each once."""
    own = manifest.skills if entry.strict else ()
    return tuple(dict.fromkeys(("skills", *entry.skills, *own)))


def _catalog_source(text: str, path: str, findings: Findings, root: str) -> Source | None:
    fault = path_fault(text)
    if fault is None and "/" in text and not text.startswith("./"):
        fault = "must begin with ./ or be a bare name"
    if fault is not None:
        findings.add(path, fault, code="path_outside")
        return None
    return Source(text if "/" in text else f"{root.rstrip('/')}/{text}")


def _url_source(raw: Mapping[str, Any], path: str, findings: Findings) -> str | None:
    url = _text(raw.get("url"), member(path, "url"), findings, required=True)
    return url if url is None else _fetchable(url, member(path, "url"), findings)


def _subdirectory_source(raw: Mapping[str, Any], path: str, findings: Findings) -> str | None:
    url = _text(raw.get("url"), member(path, "url"), findings, required=True)
    return url if url is None else _fetchable(expanded(url), member(path, "url"), findings)


def _hosted(host: str) -> Callable[[Mapping[str, Any], str, Findings], str | None]:
    def read(raw: Mapping[str, Any], path: str, findings: Findings) -> str | None:
        place = member(path, "repo")
        repository = _text(raw.get("repo"), place, findings, required=True)
        if repository is None:
            return None
        if not is_repository(repository):
            findings.add(place, "must be owner/repo", code="bad_repository")
            return None
        return f"https://{host}/{repository}.git"

    return read


def _fetchable(url: str, path: str, findings: Findings) -> str | None:
    if is_git_url(url):
        return url
    findings.add(path, "must be a git url: ssh, git, http, https, file, or user@host:path", code="bad_git_url")
    return None


_SOURCES: Mapping[str, Callable[[Mapping[str, Any], str, Findings], str | None]] = {
    "url": _url_source,
    "github": _hosted("github.com"),
    "cnb": _hosted("cnb.cool"),
    "git-subdir": _subdirectory_source,
}


def _owner(raw: object, findings: Findings) -> str | None:
    if not isinstance(raw, Mapping):
        findings.wrong_type("owner", "an object with a name", raw)
        return None
    return _text(raw.get("name"), "owner.name", findings, required=True)


def _plugin_root(metadata: object, findings: Findings) -> str:
    if metadata is None:
        return DEFAULT_PLUGIN_ROOT
    if not isinstance(metadata, Mapping):
        findings.wrong_type("metadata", "an object", metadata)
        return DEFAULT_PLUGIN_ROOT
    root = _text(metadata.get("pluginRoot"), "metadata.pluginRoot", findings)
    if root is None:
        return DEFAULT_PLUGIN_ROOT
    fault = path_fault(root)
    if fault is not None:
        findings.add("metadata.pluginRoot", fault, code="path_outside")
        return DEFAULT_PLUGIN_ROOT
    return root


def _text(raw: object, path: str, findings: Findings, *, required: bool = False) -> str | None:
    if raw is None:
        if required:
            findings.add(path, "is required", code="missing")
        return None
    if not isinstance(raw, str):
        findings.wrong_type(path, "a string", raw)
        return None
    if not raw.strip():
        findings.add(path, "must not be empty", code="empty")
        return None
    return raw


def _checked(raw: object, path: str, findings: Findings, fits: Callable[[str], bool], reason: str) -> str | None:
    text = _text(raw, path, findings)
    if text is None or fits(text):
        return text
    findings.add(path, reason, code="invalid")
    return None
