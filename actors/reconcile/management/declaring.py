"""Declaring a server in a file: where it goes, what is written, and that declaring is approving (R-FILE-11, R-GATE-14).

Blocking. The raw object goes into the file as it was given; nothing rendered ever does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ....wire.errors import ConflictError, PolicyError
from ....wire.messages.management import WritableScope
from ..approval.answers import approving
from ..approval.fingerprint import fingerprint_of
from ..config.declaration import SERVER_KEYS
from ..config.findings import Findings
from ..config.server_entry import ServerEntry, read_entry
from ..files.intent import change_intent, read_intent
from ..files.patch import Patch, replacing
from ..scopes.places import WRITABLE, Places
from ..server_set import SetEntry
from .server_files import places_of


class Holder(msgspec.Struct, frozen=True):
    """An entry of a file that has the identity in question; its key is a place in a section that is an array."""

    scope: WritableScope
    section: str
    key: str


def read_declared(raw: Mapping[str, Any]) -> ServerEntry:
    """The entry in a server object.

    Raises:
        ConfigValidationError: It is faulty; with all findings.
    """
    findings = Findings("server")
    entry = read_entry(raw, "", findings)
    findings.raise_if_any("server")
    assert entry is not None
    return entry


def declare(
    raw: Mapping[str, Any], scope: WritableScope, files: Places, winner: SetEntry | None, expected: str | None = None
) -> tuple[bool, WritableScope]:
    """Writes a declaration; whether a file changed, and the scope it stands in.

    An identity that a file holds already is changed there, whatever scope was asked for: in the highest one.

    Args:
        winner: The entry of this identity that counts now, `None` for none.
        expected: The revision of the file the change was computed from.
    Raises:
        ConfigValidationError: The object is faulty, or a file cannot be understood (`corrupt_file`).
        ConflictError: Its name is another server's in that file (`name_taken`), or the file is held or another.
        PolicyError: Policy declares this identity (`policy_shadowed`).
    """
    entry = read_declared(raw)
    if winner is not None and winner.origin == "policy":
        raise PolicyError(f"policy declares {entry.bundle_id}", code="policy_shadowed", bundle_id=entry.bundle_id)
    holder = find_holder(entry.bundle_id, files)
    place = scope if holder is None else holder.scope
    written = {key: value for key, value in raw.items() if key != "name"}

    def decide(tree: Mapping[str, Any]) -> Patch:
        section = SERVER_KEYS[0] if holder is None else holder.section
        before = tree.get(section) or {}
        old_key = entry.name if holder is None else holder.key
        if isinstance(before, list):
            return {section: [dict(raw) if str(place) == old_key else one for place, one in enumerate(before)]}
        if entry.name != old_key or holder is None:
            _refuse_taken(entry, tree, files.mcp(place))
        change = {entry.name: replacing(before.get(old_key), written)}
        return {section: change if entry.name == old_key else {**change, old_key: None}}

    changed = change_intent(files.mcp(place), "mcp", decide, expected=expected).changed
    if place != "user":
        approval = approving(entry.bundle_id, fingerprint_of(entry))
        changed = change_intent(files.settings("local"), "settings", approval).changed or changed
    return changed, place


def find_holder(bundle_id: str, files: Places) -> Holder | None:
    """The entry with this identity in the highest writable scope that has one."""
    for scope in reversed(WRITABLE):
        tree = read_intent(files.mcp(scope), "mcp").tree
        for section, key in places_of(tree, bundle_id):
            return Holder(scope, section, key)
    return None


def _refuse_taken(entry: ServerEntry, tree: Mapping[str, Any], path: Path) -> None:
    if any(entry.name in (tree.get(section) or {}) for section in SERVER_KEYS):
        raise ConflictError(
            f"{path} has another server named {entry.name!r}; give this one another name",
            code="name_taken",
            source=str(path),
            bundle_id=entry.bundle_id,
        )
