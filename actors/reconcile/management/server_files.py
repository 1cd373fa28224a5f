"""Servers in the files people own: removed, switched on and off (R-MGMT-4). Blocking.

An entry is found by its bundle_id, whatever its key and whatever form the file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....wire.errors import ConflictError, PolicyError
from ..config.declaration import SERVER_KEYS
from ..config.findings import Findings
from ..config.server_entry import read_entry
from ..files.elements import with_element, without_element
from ..files.intent import change_intent
from ..scopes.places import WRITABLE, Places
from ..server_set import SetEntry


def remove(files: Places, member: SetEntry | None, bundle_id: str, mounted: bool) -> bool:
    """Deletes a server from every file that may be written; whether there was one.

    Raises:
        PolicyError, ConflictError: It is not declared in such a file: says by whom it is.
    """
    if member is None:
        return False
    if member.origin == "policy":
        raise PolicyError(f"{bundle_id} is declared by policy", code="policy_shadowed", bundle_id=bundle_id)
    refusals = {
        "plugin": ("managed_by_plugin", "comes with a plugin; disable or uninstall that"),
        "flag": ("read_only_scope", f"is declared by {member.source}, a file of the command line"),
        "embed": ("read_only_scope", "is declared by the configuration"),
    }
    if mounted:
        refusals["embed"] = ("mounted", "is mounted for this run; unmount it")
    if member.origin in refusals:
        code, words = refusals[member.origin]
        raise ConflictError(f"{bundle_id} {words}", code=code, bundle_id=bundle_id)

    def drop(tree: Mapping[str, Any]) -> dict[str, Any]:
        patch: dict[str, Any] = {}
        for section, key in places_of(tree, bundle_id):
            if isinstance(tree[section], list):
                patch[section] = [one for index, one in enumerate(tree[section]) if str(index) != key]
            else:
                patch.setdefault(section, {})[key] = None
        return patch

    changed = False
    for scope in WRITABLE:
        path = files.mcp(scope)
        if path.is_file():
            changed |= change_intent(path, "mcp", drop).changed
    return changed


def switch(files: Places, member: SetEntry, *, enabled: bool) -> bool:
    """Switches a server on or off in settings; whether that changed a file.

    Raises:
        ConflictError: A plugin's server cannot be switched off by itself (`managed_by_plugin`).
    """
    bundle_id, field = member.bundle_id, "disabledMcpjsonServers"
    if not enabled:
        if member.origin == "plugin":
            reason = f"{bundle_id} comes with a plugin; disable that"
            raise ConflictError(reason, code="managed_by_plugin", bundle_id=bundle_id)
        path = files.settings("local")
        return change_intent(path, "settings", lambda tree: with_element(tree, field, bundle_id)).changed

    def lift(tree: Mapping[str, Any]) -> dict[str, Any]:
        patch: dict[str, Any] = {}
        for section, key in places_of(tree, bundle_id):
            held = tree[section]
            if isinstance(held, Mapping) and held[key].get("disabled") is True:
                patch.setdefault(section, {})[key] = {"disabled": False}
        return patch

    changed = False
    for scope in ("local", "user"):
        path = files.settings(scope)
        if path.is_file():
            changed |= change_intent(path, "settings", lambda tree: without_element(tree, field, bundle_id)).changed
    if member.origin in WRITABLE and member.entry.disabled:
        path = files.mcp(member.origin)
        if path.is_file():
            changed |= change_intent(path, "mcp", lift).changed
    return changed


def places_of(tree: Mapping[str, Any], bundle_id: str) -> Iterator[tuple[str, str]]:
    """Where in a file a server stands: its section, and its key or index there."""
    for section in SERVER_KEYS:
        held = tree.get(section)
        if isinstance(held, Mapping):
            for key, raw in held.items():
                entry = read_entry(raw, "", Findings(), key=key)
                if entry is not None and entry.bundle_id == bundle_id:
                    yield section, key
        elif isinstance(held, list):
            for index, raw in enumerate(held):
                entry = read_entry(raw, "", Findings())
                if entry is not None and entry.bundle_id == bundle_id:
                    yield section, str(index)
