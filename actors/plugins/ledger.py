"""The two derived records: what was fetched from which marketplace, and which plugins lie ready (03 §7.6). Blocking.

They say what was done, never what shall be: deleting them loses nothing (R-CORE-7). A
record in a form of the past is dropped, and made anew from the intent (R-PLUGIN-24).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from ..reconcile.config.settings_fields import is_name, is_plugin_id
from ..reconcile.files.derived import read_derived, write_derived
from ..reconcile.files.lock import locked

LEDGER_FILE = "installed_plugins.json"
MARKETPLACES_FILE = "known_marketplaces.json"


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One plugin that lies ready. Paths are hints (R-PLUGIN-16); `mcp_servers` are bundle_ids, always there."""

    scope: Literal["user", "project", "local"]
    install_path: str
    installed_at: str
    last_updated: str
    mcp_servers: list[str]
    project_path: str | None = None
    version: str | None = None
    commit_sha: str | None = None


class Known(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One catalog that was fetched. `last_updated` changes when it really was."""

    source: dict[str, Any]
    install_location: str
    last_updated: str
    commit_sha: str | None = None
    auto_update: bool | None = None

    @property
    def url(self) -> str | None:
        """Where it was fetched from."""
        url = self.source.get("url")
        return url if isinstance(url, str) else None


Ledger = dict[str, tuple[Record, ...]]
Knowns = dict[str, Known]


def timestamp(now: float) -> str:
    """A moment as records write it; `now` in Unix seconds."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def read_ledger(home: Path) -> tuple[Ledger, tuple[str, ...]]:
    """The ledger, and notes about what was odd in it."""
    fields, notes = read_derived(home / LEDGER_FILE, ("plugins",))
    ledger: Ledger = {}
    for key, raw in _mapping(fields.get("plugins")).items():
        records = _records(raw) if is_plugin_id(key) else ()
        if records:
            ledger[key] = records
        else:
            notes = (*notes, f"{LEDGER_FILE}: the record of {key[:140]} is dropped and will be made anew")
    return ledger, notes


def ledger_keys(home: Path) -> tuple[str, ...]:
    """All keys of the ledger in whatever form its records are (R-FILE-15)."""
    fields, _ = read_derived(home / LEDGER_FILE, ("plugins",))
    return tuple(_mapping(fields.get("plugins")))


def change_ledger(home: Path, change: Callable[[Ledger], Ledger]) -> bool:
    """Writes the ledger anew under its lock, when the change is one; whether it was.

    Raises:
        ConflictError, StartupError: See `locked` and `write_derived`.
    """
    path = home / LEDGER_FILE
    with locked(path):
        before, notes = read_ledger(home)
        after = change(dict(before))
        if after == before and not notes:
            return False
        plugins = {key: [msgspec.to_builtins(record) for record in after[key]] for key in sorted(after)}
        write_derived(path, {"plugins": plugins})
        return True


def read_knowns(home: Path) -> tuple[Knowns, tuple[str, ...]]:
    """The records of catalogs, and notes about what was odd in them."""
    fields, notes = read_derived(home / MARKETPLACES_FILE, ("marketplaces",))
    knowns: Knowns = {}
    for name, raw in _mapping(fields.get("marketplaces")).items():
        try:
            if not is_name(name):
                raise msgspec.ValidationError("no name")
            knowns[name] = msgspec.convert(raw, Known)
        except msgspec.ValidationError:
            notes = (*notes, f"{MARKETPLACES_FILE}: the record of {name[:140]} is dropped")
    return knowns, notes


def raw_knowns(home: Path) -> dict[str, Mapping[str, Any]]:
    """The records of catalogs as they stand (R-FILE-16)."""
    fields, _ = read_derived(home / MARKETPLACES_FILE, ("marketplaces",))
    return {name: raw for name, raw in _mapping(fields.get("marketplaces")).items() if isinstance(raw, Mapping)}


def change_knowns(home: Path, change: Callable[[Knowns], Knowns]) -> bool:
    """As `change_ledger`, for the records of catalogs."""
    path = home / MARKETPLACES_FILE
    with locked(path):
        before, notes = read_knowns(home)
        after = change(dict(before))
        if after == before and not notes:
            return False
        write_derived(path, {"marketplaces": {name: msgspec.to_builtins(after[name]) for name in sorted(after)}})
        return True


def _records(raw: object) -> tuple[Record, ...]:
    """The records of one plugin, or none of them when one is of the past or faulty."""
    if not isinstance(raw, list) or any(isinstance(one, Mapping) and "bundledMcpServers" in one for one in raw):
        return ()
    try:
        records = msgspec.convert(raw, list[Record])
    except msgspec.ValidationError:
        return ()
    by_scope = {(record.scope, record.project_path): record for record in records}
    return tuple(by_scope.values())


def _mapping(raw: object) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}
