"""Trees of fetched files: copied within caps, moved into place at once, deleted inside the home only. Blocking.

Links are judged by where they lead; one that leaves its tree refuses the whole tree.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...wire.errors import ConfigValidationError, PolicyError, StartupError
from .containment import is_inside

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024
MAX_FILE = 64 * 1024 * 1024
MAX_DEPTH = 32
_SKIPPED = frozenset({".git", ".gitmodules"})


def copy_tree(source: Path, target: Path) -> None:
    """Copies the plain files of a tree, without version control data.

    Raises:
        ConfigValidationError: A link leaves the tree (`link_outside`), something in it is no file (`special_file`),
            it is larger than allowed (`too_large`), or the target lies inside it (`recursive_copy`, F-119).
    """
    if is_inside(target, source) or is_inside(source, target):
        raise ConfigValidationError("a tree cannot be copied into itself", code="recursive_copy")
    root = Path(os.path.realpath(source))
    files = total = 0
    target.mkdir(parents=True, mode=0o700)
    for place, relative in _walk(root, root, 0):
        found = os.stat(place)
        if stat.S_ISDIR(found.st_mode):
            (target / relative).mkdir(mode=0o700, exist_ok=True)
            continue
        if not stat.S_ISREG(found.st_mode):
            raise ConfigValidationError(f"{relative} is no plain file", code="special_file")
        files, total = files + 1, total + found.st_size
        if files > MAX_FILES or total > MAX_BYTES or found.st_size > MAX_FILE:
            raise ConfigValidationError(f"the tree is too large, at {relative}", code="too_large")
        shutil.copyfile(place, target / relative)
        os.chmod(target / relative, 0o700 if found.st_mode & stat.S_IXUSR else 0o600)


def digest_of(root: Path) -> str:
    """40 hex digits that stand for names and contents of a tree."""
    digest = hashlib.sha256()
    for place, relative in _walk(root, root, 0):
        if place.is_file():
            content = hashlib.sha256(place.read_bytes()).digest()
            digest.update(str(relative).encode("utf-8", "surrogateescape") + b"\0" + content)
    return digest.hexdigest()[:40]


def stamp_of(root: Path) -> str | None:
    """Names, sizes and times of a tree's files in a few letters; `None` when it is not there."""
    if not root.is_dir():
        return None
    lines: list[str] = []
    folders = [("", str(root))]
    while folders:
        below, folder = folders.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                name = f"{below}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append((name, entry.path))
                else:
                    found = entry.stat(follow_symlinks=False)
                    lines.append(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\n")
    lines.sort()
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def size_of(root: Path) -> int:
    """Bytes of all files below a directory, as far as they can be seen just now."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


@contextmanager
def scratch(workshop: Path) -> Iterator[Path]:
    """A directory to build in; whatever is left in it is deleted at the end.

    Raises:
        StartupError: It cannot be made (`unwritable`).
    """
    place = workshop / f"new-{os.getpid()}-{secrets.token_hex(6)}"
    try:
        place.mkdir(parents=True, mode=0o700)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StartupError(f"{place} could not be made: {reason}", code="unwritable") from None
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def move_in(new: Path, target: Path, former: Path) -> None:
    """Puts a tree in its place; what was there stays under `former` until the new one stands.

    Raises:
        StartupError: The disk refuses (`unwritable`); what was there is back.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        former.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(former, ignore_errors=True)
        if target.exists() or target.is_symlink():
            os.rename(target, former)
        try:
            os.rename(new, target)
        except OSError:
            with suppress(OSError):
                os.rename(former, target)
            raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StartupError(f"{target} could not be put in place: {reason}", code="unwritable") from None
    _discard(former)


def remove_tree(path: Path, home: Path) -> bool:
    """Deletes a tree below the home; `False` when there was none. A link is deleted, never what it leads to.

    Raises:
        PolicyError: The path does not lie inside the home (`outside_home`, R-PLUGIN-32).
    """
    place = Path(os.path.realpath(path.parent)) / path.name
    if path.name in ("", ".", "..") or not is_inside(place.parent, home) or place == Path(os.path.realpath(home)):
        raise PolicyError(f"{path} lies outside the home and is not touched", code="outside_home")
    if place.is_symlink() or place.is_file():
        place.unlink()
        return True
    if not place.exists():
        return False
    shutil.rmtree(place)
    return True


def _discard(path: Path) -> None:
    if path.is_symlink():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _walk(root: Path, folder: Path, depth: int) -> Iterator[tuple[Path, Path]]:
    if depth > MAX_DEPTH:
        raise ConfigValidationError("the tree nests too deep", code="too_deep")
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            place = Path(entry.path)
            if entry.name in _SKIPPED:
                continue
            relative = place.relative_to(root)
            if entry.is_symlink():
                if not is_inside(place, root):
                    raise ConfigValidationError(f"{relative} links out of its tree", code="link_outside")
                if not place.is_file():
                    raise ConfigValidationError(f"{relative} links to what is no file", code="link_to_directory")
                yield place, relative
                continue
            yield place, relative
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(root, place, depth + 1)
