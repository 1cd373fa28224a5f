"""What Agents are shown of the registry, and what they have been told of its changes. Pure.

The list is encoded once for each state. After a restart of the actor the list of its former
life is shown until sources have been read again, so that skills do not blink (C-GEN-15).
"""

from __future__ import annotations

import hashlib
from typing import Final

from .listing import Listing, encode_list
from .registry import Registry

EMPTY: Final = b"[]"


class LastList:
    """The list that was shown last; kept by whoever makes the actor, over all its lives.

    Attributes:
        skills: A JSON array; `None` before there was one.
    """

    def __init__(self) -> None:
        self.skills: bytes | None = None


class Projection:
    """The view of one life.

    Attributes:
        rebuilding: Whether the list of the former life is shown.
    """

    def __init__(self, registry: Registry, budget: int, last: LastList) -> None:
        self._registry = registry
        self._budget = budget
        self._last = last
        self._encoded: tuple[int, Listing] | None = None
        self._told = (last.skills or EMPTY, 0)
        self.rebuilding = last.skills is not None

    def rebuilt(self) -> None:
        """The sources have been read, or have had their time."""
        if self.rebuilding:
            self.rebuilding = False
            self._told = (self._told[0], self._registry.content_revision)

    def shown(self) -> bytes:
        """The JSON array for `client:get_skills`."""
        if self.rebuilding and self._last.skills is not None:
            return self._last.skills
        self._last.skills = self._listing().skills
        return self._last.skills

    def note(self) -> str | None:
        """What had to be left out of the list."""
        return self._listing().note

    def signature(self) -> str:
        """Equal for lists that look the same, also over lives; empty for an empty one."""
        shown = self.shown()
        return "" if shown == EMPTY else hashlib.sha256(shown).hexdigest()[:16]

    def committed(self) -> bool:
        """A commit tells of the list as it is now; `True` when that is another one than was told last."""
        before, content = self._told
        self._told = (self.shown(), content)
        return self._told[0] != before

    def is_news(self) -> bool:
        """Whether list or contents differ from what was told last; counts as telling."""
        if self.rebuilding:
            return False
        before, self._told = self._told, (self.shown(), self._registry.content_revision)
        return self._told != before

    def _listing(self) -> Listing:
        revision = self._registry.revision
        if self._encoded is None or self._encoded[0] != revision:
            self._encoded = (revision, encode_list(self._registry.active(), self._budget))
        return self._encoded[1]
