"""Names of archive members and sub-resources: which are plain paths inside a package, and which collide.

Pure. One bad name refuses the whole package: a package that is only partly what its author
made is worse than none (C-SKILL-25).
"""

from __future__ import annotations

import unicodedata

from .limits import PackageLimits, StagingFailed
from .rel_path import has_bad_form, is_too_long

Parts = tuple[str, ...]


class EntryNames:
    """The names of one package, in the order they come."""

    def __init__(self, limits: PackageLimits) -> None:
        self._limits = limits
        self._files: set[Parts] = set()
        self._directories: set[Parts] = set()

    def file(self, name: str) -> Parts:
        """The components of a file's name.

        Raises:
            StagingFailed: The name is refused.
        """
        parts = self._parts(name)
        if not parts:
            raise StagingFailed("an entry has an empty name")
        folded = self._below_directories(parts)
        if folded in self._files:
            raise StagingFailed("two entries have the same name")
        if folded in self._directories:
            raise StagingFailed("a file has the name of a directory")
        self._files.add(folded)
        self._directories.update(folded[:count] for count in range(1, len(folded)))
        return parts

    def directory(self, name: str) -> Parts:
        """The components of a directory's name; none for the package itself.

        Raises:
            StagingFailed: The name is refused.
        """
        if not name:
            raise StagingFailed("an entry has an empty name")
        parts = self._parts(name)
        folded = self._below_directories(parts)
        if folded in self._files:
            raise StagingFailed("a directory has the name of a file")
        self._directories.update(folded[:count] for count in range(1, len(folded) + 1))
        return parts

    def _parts(self, name: str) -> Parts:
        if name.startswith("/"):
            raise StagingFailed("an entry has an absolute path")
        parts = tuple(part for part in name.removesuffix("/").split("/") if part != ".")
        if any(not part or has_bad_form(part) for part in parts if parts != ("",)):
            raise StagingFailed("an entry has a path that leaves the package or is not portable")
        parts = () if parts == ("",) else parts
        check_path(parts, self._limits)
        return parts

    def _below_directories(self, parts: Parts) -> Parts:
        folded = tuple(unicodedata.normalize("NFKC", part).casefold() for part in parts)
        if any(folded[:count] in self._files for count in range(1, len(folded))):
            raise StagingFailed("an entry lies below a file")
        return folded


def check_path(parts: Parts, limits: PackageLimits) -> None:
    """Refuses paths that are too deep or too long.

    Raises:
        StagingFailed: It is.
    """
    if len(parts) > limits.depth:
        raise StagingFailed(f"an entry lies deeper than {limits.depth} levels")
    if is_too_long(parts, limits.path_bytes):
        raise StagingFailed("an entry has a path or a name that is too long")
