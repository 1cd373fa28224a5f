"""Diagnostics of skills, kept as long as they hold: nothing is dropped in silence (F-120).

Each note stands under an owner, a source of skills, and a place in it: a file or a URI. A new
look at a place replaces what was said of it before. What is new is logged once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ...wire.messages.skills import SkillNote
from .manifest import Level

logger = logging.getLogger(__name__)

MAX_NOTES: Final = 200
"""Notes of one owner that are shown, and places in it that are logged; what is beyond is counted."""
_LEVELS: Final[Mapping[Level, int]] = {"error": logging.ERROR, "warning": logging.WARNING, "debug": logging.DEBUG}


def _speakable(note: SkillNote) -> SkillNote:
    """The note in letters that can travel and fit on one line: file names and URIs are made by strangers."""
    if note.place.isprintable() and note.text.isprintable():
        return note
    return SkillNote(note.level, note.owner, _escaped(note.place), _escaped(note.text))


def _escaped(text: str) -> str:
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in text)


class NoteBook:
    """The notes that hold now."""

    def __init__(self) -> None:
        self._pages: dict[str, dict[str, tuple[SkillNote, ...]]] = {}

    def write(self, owner: str, place: str, notes: Iterable[SkillNote]) -> bool:
        """Replaces what stands under a place; `True` when that changed."""
        page = self._pages.setdefault(owner, {})
        before, after = page.get(place, ()), tuple(map(_speakable, notes))
        if place in page or len(page) < MAX_NOTES:
            for note in after:
                if note not in before:
                    logger.log(_LEVELS[note.level], "skills of %s: %s: %s", note.owner, note.place, note.text)
        elif after and len(page) == MAX_NOTES:
            logger.warning("skills of %s: further notes are counted, not logged", owner)
        if after:
            page[place] = after
        else:
            page.pop(place, None)
        return before != after

    def keep(self, owner: str, places: Iterable[str]) -> bool:
        """Forgets what stands under other places of an owner."""
        page = self._pages.get(owner, {})
        gone = set(page) - set(places)
        for place in gone:
            del page[place]
        return bool(gone)

    def drop(self, owner: str) -> bool:
        """Forgets an owner."""
        return bool(self._pages.pop(owner, None))

    def all(self, *levels: Level) -> tuple[SkillNote, ...]:
        """The notes of the given levels, by owner; all when none is given."""
        found: list[SkillNote] = []
        for owner in sorted(self._pages):
            notes = [note for place in self._pages[owner].values() for note in place]
            chosen = [note for note in notes if not levels or note.level in levels]
            found += chosen[:MAX_NOTES]
            if len(chosen) > MAX_NOTES:
                found.append(SkillNote("warning", owner, "", f"{len(chosen) - MAX_NOTES} more notes"))
        return tuple(found)
