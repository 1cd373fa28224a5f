"""Housekeeping below `<home>/mcp`: names of servers' directories, and deleting what nobody uses. Blocking."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable

from .limits import StagingFailed
from .publish import discard, swapping


def bundle_directory_name(bundle_id: str, known: Iterable[str], *, folds_case: bool, name_bytes: int) -> str:
    """Name of the directory that holds a server's packages.

    Args:
        known: All servers that may have one.
        folds_case: Whether names that differ in case alone are one name on this file system.
        name_bytes: Longest name.
    Raises:
        StagingFailed: There is none short enough.
    Spec: C-SKILL-13.
    """
    # The first one in order keeps its plain name, so that names do not depend on who came first.
    before = (other for other in known if other < bundle_id)
    taken = folds_case and any(other.casefold() == bundle_id.casefold() for other in before)
    name = f"{bundle_id}~{hashlib.sha256(bundle_id.encode()).hexdigest()[:8]}" if taken else bundle_id
    if len(name.encode()) > name_bytes:
        raise StagingFailed("the bundle_id is too long for the name of a directory")
    return name


def clean_up(home: str, in_use: Callable[[str], bool]) -> tuple[str, ...]:
    """Deletes staged packages that are not in use; the paths of what was deleted.

    Follows no links and touches nothing but directories two levels below `<home>/mcp`.
    """
    deleted: list[str] = []
    for server in _directories(os.path.join(home, "mcp")):
        for package in _directories(server):
            aside = f"{package}.{os.getpid()}.gone"
            # Nobody publishes between the question and the move; afterwards there is nothing to hit.
            with swapping:
                if in_use(package):
                    continue
                os.rename(package, aside)
            discard(aside)
            deleted.append(package)
        with contextlib.suppress(OSError):
            os.rmdir(server)
    return tuple(deleted)


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
