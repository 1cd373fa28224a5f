"""Fields of a settings object (03 §3.4), checked one by one.

This module knows shapes and who may supply a field; merging scopes and deciding by them
is the business of whoever reads files. Each kept value is in the form it had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ....wire.identity import is_valid_bundle_id, normalise_name
from .findings import Findings, item, member
from .policies import read_runtime

POLICY_ONLY = frozenset({"deniedMcpServers", "allowedMcpServers"})
"""Fields that count from policy scope alone (R-SCOPE-10)."""

_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_GIT_URL = re.compile(r"(?:ssh|git|https?|file)://\S+|[^\s@/:]+@[^\s:/]+:\S+")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
_FINGERPRINT = re.compile(r"sha256:[0-9a-f]{64}")

Check = Callable[[Any, str, Findings], Any]
"""Checks a value at a path; returns what is valid of it, `None` for nothing."""


def is_name(text: str) -> bool:
    """Whether a text may name a marketplace or a plugin (R-PLUGIN-1)."""
    return len(text) <= 64 and _KEBAB.fullmatch(text) is not None


def is_plugin_id(text: str) -> bool:
    """Whether a text is `<plugin>@<marketplace>` (R-PLUGIN-1)."""
    plugin, at, marketplace = text.partition("@")
    return bool(at) and is_name(plugin) and is_name(marketplace)


def is_absolute(path: str) -> bool:
    """Whether a path is absolute on any system (R-SCOPE-14)."""
    return path.startswith("/") or _DRIVE.match(path) is not None


def read_settings(raw: object, path: str, findings: Findings, *, is_policy: bool = False) -> dict[str, Any]:
    """The valid part of a settings object. Unknown keys are kept as they are.

    Args:
        is_policy: Whether the object comes from policy scope, which alone may hold the policy-only fields.
    """
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object", raw)
        return {}
    settings: dict[str, Any] = {}
    for key, value in raw.items():
        place = member(path, key)
        if key in POLICY_ONLY and not is_policy:
            findings.add(place, "counts from policy alone", category="policy", code="policy_only")
        elif key not in CHECKS:
            settings[key] = value
            if key != "$schema":
                findings.warn(place, "unknown key, kept and not used", code="unknown_key")
        elif value is not None and (checked := CHECKS[key](value, place, findings)) is not None:
            settings[key] = checked
    return settings


def read_marketplaces(raw: Any, path: str, findings: Findings) -> dict[str, Any] | None:
    """Marketplace declarations by name (R-PLUGIN-2)."""
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object of marketplace declarations", raw)
        return None
    found: dict[str, Any] = {}
    for name, declaration in raw.items():
        place = member(path, name)
        if not is_name(name):
            findings.add(place, "a marketplace name is strict kebab-case, 1 to 64 characters", code="bad_name")
        elif _marketplace_fits(declaration, place, findings):
            found[name] = declaration
    return found


def _marketplace_fits(declaration: Any, path: str, findings: Findings) -> bool:
    before = len(findings.faults)
    if not isinstance(declaration, Mapping):
        findings.wrong_type(path, "an object with a source", declaration)
        return False
    source = declaration.get("source")
    if not isinstance(source, Mapping):
        findings.wrong_type(member(path, "source"), "an object with type and url", source)
    else:
        place = member(path, "source")
        if source.get("type") != "git":
            findings.add(member(place, "type"), "must be git", code="bad_choice")
        url = source.get("url")
        if not isinstance(url, str) or not _GIT_URL.fullmatch(url):
            findings.add(member(place, "url"), "must be a git url", code="bad_git_url")
        _refuse_others(source, ("type", "url"), place, findings)
    update = declaration.get("autoUpdate")
    if update is not None and not isinstance(update, bool):
        findings.wrong_type(member(path, "autoUpdate"), "a boolean", update)
    _refuse_others(declaration, ("source", "autoUpdate"), path, findings)
    return len(findings.faults) == before


def _refuse_others(raw: Mapping[str, Any], known: tuple[str, ...], path: str, findings: Findings) -> None:
    for key in raw:
        if key not in known:
            findings.add(member(path, key), "unknown key in a marketplace declaration", code="unknown_key")


def read_names(raw: Any, path: str, findings: Findings) -> list[str] | None:
    """A list of marketplace names."""
    return _elements(raw, path, findings, is_name, "a strict kebab-case name")


def read_plugin_ids(raw: Any, path: str, findings: Findings) -> list[str] | None:
    """A list of plugin ids."""
    return _elements(raw, path, findings, is_plugin_id, "a plugin id <plugin>@<marketplace>")


def read_enablement(raw: Any, path: str, findings: Findings) -> dict[str, bool] | None:
    """Opinions by plugin id, strictly true or false (R-SCOPE-8)."""
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object of plugin ids", raw)
        return None
    found: dict[str, bool] = {}
    for plugin_id, value in raw.items():
        place = member(path, plugin_id)
        if not is_plugin_id(plugin_id):
            findings.add(place, "must be a plugin id <plugin>@<marketplace>", code="bad_plugin_id")
        elif not isinstance(value, bool):
            findings.wrong_type(place, "a boolean", value)
        else:
            found[plugin_id] = value
    return found


def read_flag(raw: Any, path: str, findings: Findings) -> bool | None:
    """A boolean, and nothing that looks like one."""
    if isinstance(raw, bool):
        return raw
    findings.wrong_type(path, "a boolean", raw)
    return None


def _read_bundle_ids(raw: Any, path: str, findings: Findings) -> list[str] | None:
    """A gate list; a display name in it has no effect and is reported with the id it may mean (R-GATE-5)."""
    if not isinstance(raw, list | tuple):
        findings.wrong_type(path, "an array of bundle ids", raw)
        return None
    kept: list[str] = []
    for index, element in enumerate(raw):
        if isinstance(element, str) and is_valid_bundle_id(element):
            kept.append(element)
            continue
        hint = normalise_name(element) if isinstance(element, str) else ""
        advice = f"; the bundle_id of that name is {hint!r}" if hint else ""
        findings.add(item(path, index), f"is no bundle_id{advice}", code="bad_bundle_id")
    return kept


def _read_path(raw: Any, path: str, findings: Findings) -> str | None:
    if isinstance(raw, str) and is_absolute(raw):
        return raw
    findings.add(path, "must be an absolute path", code="not_absolute")
    return None


def _read_permissions(raw: Any, path: str, findings: Findings) -> dict[str, Any] | None:
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object", raw)
        return None
    directories = raw.get("additionalDirectories")
    if directories is None:
        return dict(raw)
    place = member(path, "additionalDirectories")
    return {**raw, "additionalDirectories": _elements(directories, place, findings, is_absolute, "an absolute path")}


def _read_runtime(raw: Any, path: str, findings: Findings) -> dict[str, Any] | None:
    read_runtime(raw, path, findings)
    return dict(raw) if isinstance(raw, Mapping) else None


def _read_fingerprints(raw: Any, path: str, findings: Findings) -> dict[str, str] | None:
    if not isinstance(raw, Mapping):
        findings.wrong_type(path, "an object of fingerprints", raw)
        return None
    for bundle_id, value in raw.items():
        if not isinstance(value, str) or not _FINGERPRINT.fullmatch(value):
            findings.add(member(path, bundle_id), "must be sha256: and 64 hex digits", code="bad_fingerprint")
    return {key: value for key, value in raw.items() if isinstance(value, str) and _FINGERPRINT.fullmatch(value)}


def _elements(raw: Any, path: str, findings: Findings, fits: Callable[[str], bool], expected: str) -> list[str] | None:
    if not isinstance(raw, list | tuple):
        findings.wrong_type(path, "an array of strings", raw)
        return None
    kept: list[str] = []
    for index, element in enumerate(raw):
        if not isinstance(element, str):
            findings.wrong_type(item(path, index), "a string", element)
        elif not fits(element):
            findings.add(item(path, index), f"must be {expected}", code="bad_element")
        else:
            kept.append(element)
    return kept


CHECKS: Mapping[str, Check] = {
    "extraKnownMarketplaces": read_marketplaces,
    "installedPlugins": read_plugin_ids,
    "enabledPlugins": read_enablement,
    "trustedMarketplaces": read_names,
    "blockedMarketplaces": read_names,
    "strictKnownMarketplaces": read_flag,
    "deniedMcpServers": _read_bundle_ids,
    "allowedMcpServers": _read_bundle_ids,
    "disabledMcpjsonServers": _read_bundle_ids,
    "enabledMcpjsonServers": _read_bundle_ids,
    "enableAllProjectMcpServers": read_flag,
    "landingRoot": _read_path,
    "permissions": _read_permissions,
    "mcpServerRuntime": _read_runtime,
    "approvedMcpServerFingerprints": _read_fingerprints,
}
