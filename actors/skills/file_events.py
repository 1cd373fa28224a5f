"""What changes on disk mean for drop-in skills. Pure (C-SKILL-76)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec

from .forbidden import ForbiddenNames


class OwnWrites:
    """Paths that the runtime itself wrote lately; what happens there is no news.

    Args:
        quiet: Seconds for which a path stays ours.
    """

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._until: dict[str, float] = {}

    def note(self, path: str, now: float) -> None:
        """We write at or below a path."""
        self._until = {known: until for known, until in self._until.items() if until > now}
        self._until[path] = now + self._quiet

    def is_own(self, path: str, now: float) -> bool:
        """Whether a path is one of ours."""
        return any(until > now and _relative(path, known) is not None for known, until in self._until.items())


class Meaning(msgspec.Struct, frozen=True):
    """What a batch of changes asks for.

    Attributes:
        rescan: Whether anything happened that an Agent could notice.
        packages: Names of directories directly below a root in which it happened.
        everything: Whether a root itself came, went or was replaced.
    """

    rescan: bool = False
    packages: frozenset[str] = frozenset()
    everything: bool = False


def meaning_of(
    paths: Iterable[str], roots: Sequence[str], forbidden: ForbiddenNames, own: OwnWrites, now: float
) -> Meaning:
    """Judges a batch of changed paths.

    Args:
        roots: Real paths of the watched roots.
    """
    packages: set[str] = set()
    rescan = everything = False
    for path in paths:
        inside = next((found for root in roots if (found := _relative(path, root)) is not None), None)
        if inside is None or any(part in forbidden for part in inside) or own.is_own(path, now):
            continue
        rescan = True
        packages.update(inside[:1])
        everything = everything or not inside
    return Meaning(rescan, frozenset(packages), everything)


def _relative(path: str, directory: str) -> tuple[str, ...] | None:
    if path == directory:
        return ()
    prefix = directory if directory.endswith(os.sep) else directory + os.sep
    return tuple(path[len(prefix) :].split(os.sep)) if path.startswith(prefix) else None
