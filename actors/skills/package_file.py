"""The sandbox: opens one file of a package, or says by which rule it may not be read (C-SKILL-66, C-SKILL-67).

Every read of a skill passes here, the first one and every chunk behind a handle. The package
root comes from the registry, never from a request.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from typing import Final

from .beneath import HAS_HANDLES, Escapes, Found, Missing, Tree, Vetoed, open_tree
from .forbidden import ForbiddenNames
from .rel_path import Refused, parse_rel_path

SEARCHED_ENTRIES: Final = 10_000
"""Entries of a package looked through, nearest first, for a forbidden file with the same identity (D-15)."""


class PackageFile:
    """An open, permitted, regular file of a package; use in a `with`.

    Attributes:
        parts: The requested path in its normal form.
        found: Descriptor and what it says.
    """

    def __init__(self, parts: tuple[str, ...], found: Found) -> None:
        self.parts = parts
        self.found = found

    @property
    def size(self) -> int:
        return self.found.info.st_size

    def __enter__(self) -> PackageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.found.close()


def open_package_file(root: str, rel_path: str, forbidden: ForbiddenNames, cap: int) -> PackageFile:
    """Opens a file of the package at `root`.

    Args:
        rel_path: As requested; it is checked here.
        cap: Largest file in bytes.
    Raises:
        Refused: With the reason of the first step that fails.
    Spec: C-SKILL-66a…f, C-SKILL-67, C-SKILL-69, R-SEC-10.
    """
    parts = parse_rel_path(rel_path, forbidden)
    try:
        tree = open_tree(root)
    except OSError:
        raise Refused("not_found") from None
    try:
        found = tree.open(parts, forbidden.__contains__)
        try:
            _check(tree, found, forbidden, cap)
        except BaseException:
            found.close()
            raise
    except Escapes:
        raise Refused("traversal") from None
    except Vetoed:
        raise Refused("forbidden") from None
    except (Missing, OSError):
        raise Refused("not_found") from None
    finally:
        tree.close()
    return PackageFile(parts, found)


def _check(tree: Tree, found: Found, forbidden: ForbiddenNames, cap: int) -> None:
    if found.is_directory:
        raise Missing
    # A second name of the file can be a forbidden one; without handles there are names we do not see, too.
    if (found.info.st_nlink > 1 or not HAS_HANDLES) and _has_forbidden_name(tree.real, found.info, forbidden):
        raise Vetoed
    if found.info.st_size > cap:
        raise Refused("too_large", found.info.st_size)


def _has_forbidden_name(root: str, info: os.stat_result, forbidden: ForbiddenNames) -> bool:
    """Whether a forbidden file of the package is the same file."""
    looked_at = 0
    pending = deque([(root, False)])
    while pending and looked_at < SEARCHED_ENTRIES:
        folder, is_forbidden = pending.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    looked_at += 1
                    hidden = is_forbidden or entry.name in forbidden
                    if hidden and _is_same(entry.path, info):
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((entry.path, hidden))
        except OSError:
            continue
    return False


def _is_same(path: str, info: os.stat_result) -> bool:
    try:
        other = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(other.st_mode) and os.path.samestat(other, info)
