"""The registry: which skills there are, where their packages lie, and which of them an Agent may see. Pure.

It alone maps a name to a directory; no path is ever made out of a name (C-SKILL-54). Entries are
frozen, so what is handed out cannot change what is registered (C-SKILL-55).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from ...wire.skill_name import SkillKind, skill_kind
from ...wire.skills import A2CSkillRef

Rank = tuple[Any, ...]
"""Where a skill stands in discovery order (C-SKILL-57); comparable with every other."""
ORPHANS_KEPT: Final = 1_000
"""Orphans of one owner that are remembered; a source that renames its skills for ever must not fill the memory."""


class Entry(msgspec.Struct, frozen=True):
    """A registered skill. `owner` is the source that declared it, as one that comes and goes as a whole."""

    ref: A2CSkillRef
    owner: str
    rank: Rank
    orphan: bool = False


class Registry:
    """All skills by name.

    Attributes:
        revision: Counts changes of what is listed.
        content_revision: Counts changes of files inside visible packages.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._owned: dict[str, dict[str, None]] = {}
        self.revision = 0
        self.content_revision = 0

    def put(self, ref: A2CSkillRef, owner: str, rank: Rank, kind: SkillKind) -> str | None:
        """Registers a skill, updates it, or brings an orphan back to life.

        Args:
            kind: The kind of name this source may use.
        Returns:
            Why it was refused, or `None`.
        """
        refusal = _check(ref, kind)
        if refusal is not None:
            return refusal
        known = self._entries.get(ref.name)
        # Within one source the scan or the plan has decided already; there it is a package that moved.
        if known is not None and not known.orphan and known.owner != owner and known.ref.path != ref.path:
            return "another package has this name already; the first one counts"
        self._replace(ref.name, Entry(ref, owner, rank))
        return None

    def settle(self, owner: str, present: Mapping[str, Rank]) -> None:
        """What a source declares now: the rest of what it registered becomes orphaned, the order is taken over."""
        for name in self._names_of(owner):
            entry = self._entries[name]
            if name not in present:
                self._replace(name, msgspec.structs.replace(entry, orphan=True))
            elif not entry.orphan and entry.rank != present[name]:
                self._replace(name, msgspec.structs.replace(entry, rank=present[name]))
        self._forget_oldest(owner)

    def orphan(self, owner: str) -> None:
        """The source is gone for now."""
        self.settle(owner, {})

    def unregister(self, owner: str) -> None:
        """The source is gone for good (C-SKILL-56)."""
        for name in self._names_of(owner):
            self._replace(name, None)

    def content_changed(self) -> None:
        """A file of a visible package is not what it was."""
        self.content_revision += 1

    def get(self, name: str) -> Entry | None:
        """The entry of a name, orphans included."""
        return self._entries.get(name)

    def active(self) -> tuple[A2CSkillRef, ...]:
        """What Agents see, in discovery order."""
        return tuple(entry.ref for entry in self.entries() if not entry.orphan)

    def entries(self) -> list[Entry]:
        """Everything, in discovery order."""
        return sorted(self._entries.values(), key=lambda entry: entry.rank)

    def names_of(self, owner: str) -> Collection[str]:
        """Visible names of one source."""
        return [name for name in self._names_of(owner) if not self._entries[name].orphan]

    def _names_of(self, owner: str) -> list[str]:
        return list(self._owned.get(owner, ()))

    def _replace(self, name: str, entry: Entry | None) -> None:
        before = self._entries.get(name)
        if entry == before:
            return
        if before is not None and (entry is None or entry.owner != before.owner):
            self._disown(name, before.owner)
        if entry is None:
            del self._entries[name]
        else:
            self._entries[name] = entry
            self._owned.setdefault(entry.owner, {})[name] = None
        if _is_visible(before) or _is_visible(entry):
            self.revision += 1

    def _forget_oldest(self, owner: str) -> None:
        orphans = [name for name in self._names_of(owner) if self._entries[name].orphan]
        for name in orphans[: max(0, len(orphans) - ORPHANS_KEPT)]:
            del self._entries[name]
            self._disown(name, owner)

    def _disown(self, name: str, owner: str) -> None:
        names = self._owned[owner]
        del names[name]
        if not names:
            del self._owned[owner]


def _is_visible(entry: Entry | None) -> bool:
    return entry is not None and not entry.orphan


def _check(ref: A2CSkillRef, kind: SkillKind) -> str | None:
    """Why a reference cannot be registered (C-SKILL-55)."""
    if skill_kind(ref.name) != kind:
        return "its name breaks the grammar of skill names"
    if not os.path.isabs(ref.path):
        return "its path is not absolute"
    if not ref.source or not ref.description:
        return "a mandatory field is missing"
    try:
        msgspec.json.encode(ref)
    except (UnicodeEncodeError, TypeError, ValueError):
        return "it cannot be written as JSON"
    return None
