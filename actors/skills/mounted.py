"""Mode mounted: a package is a copy of a directory the server names (C-SKILL-26…30). Blocking.

Nothing is linked. Links are walked as paths below the mount, so what they show is copied only
if it lies inside, whatever happens to them meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from .beneath import Escapes, Found, Missing, Tree, Vetoed, open_tree
from .entry_names import Parts
from .limits import StagingFailed
from .package_writer import CHUNK, PackageWriter

_SKIPPED_DIRECTORY: Final = ".git"


class MountRules(msgspec.Struct, frozen=True):
    """Which directories a server may name.

    Attributes:
        roots: Directories below which servers of other machines may name some (C-SKILL-27).
        protected: Directories that no mount may hold: home, state, spool, landing root (C-SKILL-28).
        user_home: The home directory of the user.
    """

    roots: Sequence[str] = ()
    protected: Sequence[str] = ()
    user_home: str = ""


def mount_directory(mount_dir: Any, rules: MountRules, *, local: bool) -> str:
    """The real path of a mount.

    Args:
        local: Whether the server runs on this machine, so that it knows its directories.
    Raises:
        StagingFailed: It may not be mounted, or does not exist.
    """
    if not isinstance(mount_dir, str) or "\0" in mount_dir or not os.path.isabs(mount_dir):
        raise StagingFailed("mount_dir is no absolute path")
    real = os.path.realpath(mount_dir)
    if not os.path.isdir(real):
        raise StagingFailed("mount_dir is no directory")
    if not local and not any(_is_within(real, os.path.realpath(root), strict=True) for root in rules.roots):
        raise StagingFailed("the server is remote, and mount_dir lies below none of skill_mount_roots")
    if real == os.path.realpath(os.sep) or (rules.user_home and real == os.path.realpath(rules.user_home)):
        raise StagingFailed("mount_dir is the root of the file system or the user's home")
    if any(_is_within(os.path.realpath(path), real) for path in rules.protected if path):
        raise StagingFailed("mount_dir holds directories of this Computer")
    return real


def copy_mount(real: str, writer: PackageWriter) -> tuple[str, ...]:
    """Copies a mount.

    Args:
        real: From `mount_directory`.
    Returns:
        What was left out, a line each.
    Raises:
        StagingFailed: A limit is exceeded.
        OSError: Something could not be read or written.
    """
    tree = open_tree(real)
    try:
        copy = _Copy(tree, writer)
        with tree.open((), _never) as top:
            copy.directory((), (), top, ())
        return copy.skipped()
    finally:
        tree.close()


def _never(_: str) -> bool:
    return False


def _is_within(path: str, directory: str, *, strict: bool = False) -> bool:
    try:
        inside = os.path.commonpath([path, directory]) == directory
    except ValueError:  # different drives
        return False
    return inside and not (strict and path == directory)


class _Copy:
    """Copies directories of one mount; `source` is where things lie in it, `target` where they go."""

    def __init__(self, tree: Tree, writer: PackageWriter) -> None:
        self._tree = tree
        self._writer = writer
        self._links = 0
        self._special = 0

    def skipped(self) -> tuple[str, ...]:
        notes = []
        if self._links:
            notes.append(f"{self._links} links that leave the mount, lead nowhere or lead in a circle")
        if self._special:
            notes.append(f"{self._special} entries that are neither files nor directories")
        return tuple(notes)

    def directory(self, source: Parts, target: Parts, found: Found, above: tuple[tuple[int, int], ...]) -> None:
        above = (*above, (found.info.st_dev, found.info.st_ino))
        for name in _names(self._tree, source, found):
            self._entry((*source, name), (*target, name), above)

    def _entry(self, source: Parts, target: Parts, above: tuple[tuple[int, int], ...]) -> None:
        is_link = False
        try:
            mode = _lstat(self._tree, source).st_mode
            is_link = stat.S_ISLNK(mode)
            if not (is_link or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                self._special += 1
                return
            found = self._tree.open(source, _never)
        except (Escapes, Missing, Vetoed) as error:
            if not is_link:
                raise StagingFailed("a file of the mount cannot be read", transfer=True) from error
            self._links += 1
            return
        with found:
            self._copy(source, target, found, above)

    def _copy(self, source: Parts, target: Parts, found: Found, above: tuple[tuple[int, int], ...]) -> None:
        if not found.is_directory:
            self._writer.file(target, _chunks(found.fd), executable=bool(found.info.st_mode & stat.S_IXUSR))
        elif (found.info.st_dev, found.info.st_ino) in above:
            self._links += 1
        elif _SKIPPED_DIRECTORY not in (target[-1], *found.parts[-1:]):
            self._writer.directory(target)
            self.directory(found.parts, target, found, above)


def _names(tree: Tree, source: Parts, found: Found) -> list[str]:
    if os.listdir in os.supports_fd and tree.fd >= 0:
        return sorted(os.listdir(found.fd))
    return sorted(os.listdir(os.path.join(tree.real, *source)))


def _lstat(tree: Tree, source: Parts) -> os.stat_result:
    """What an entry is, links not followed; only a first look, opening decides."""
    try:
        return os.lstat(os.path.join(tree.real, *source))
    except OSError as error:
        raise Missing from error


def _chunks(fd: int) -> Iterator[bytes]:
    while chunk := os.read(fd, CHUNK):
        yield chunk
