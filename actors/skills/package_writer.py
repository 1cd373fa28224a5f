"""Writes a package into a fresh directory of our own, within its limits. Blocking; runs in worker threads.

Modes, owners and times of the source are not taken over: files become 0600, or 0700 when
their owner could execute them, directories 0700 (C-SKILL-23).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from typing import Final

from .entry_names import Parts, check_path
from .limits import PackageLimits, StagingFailed, Stop

CHUNK: Final = 262_144

_NEW_FILE: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class PackageWriter:
    """Writes below `root`, which it creates.

    Attributes:
        written: Bytes so far, as written.
        entries: Files and directories so far.
    """

    def __init__(self, root: str, limits: PackageLimits, stop: Stop) -> None:
        os.mkdir(root, 0o700)
        self._root = os.path.realpath(root)
        self._limits = limits
        self._stop = stop
        self._made: set[Parts] = {()}
        self._files: dict[Parts, bytes] = {}
        self.written = 0
        self.entries = 0

    def directory(self, parts: Parts) -> None:
        """Makes a directory and those above it; existing ones are fine.

        Raises:
            StagingFailed: A limit is exceeded, or something else has that name.
        """
        self._stop.check()
        check_path(parts, self._limits)
        for count in range(1, len(parts) + 1):
            if parts[:count] not in self._made:
                self._make(parts[:count])

    def file(self, parts: Parts, chunks: Iterable[bytes], *, executable: bool = False) -> None:
        """Writes a file that does not exist yet.

        Raises:
            StagingFailed: A limit is exceeded, or the name is taken.
        """
        self.directory(parts[:-1])
        check_path(parts, self._limits)
        self._count()
        digest = hashlib.sha256(b"x" if executable else b"-")
        try:
            fd = os.open(self._path(parts), _NEW_FILE, 0o700 if executable else 0o600)
        except FileExistsError:
            raise StagingFailed("two entries have the same name") from None
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                self._stop.check()
                self._take(chunk)
                digest.update(chunk)
                file.write(chunk)
        self._files[parts] = digest.digest()

    def fingerprint(self) -> bytes:
        """Equal for packages with equal files."""
        files = repr(sorted(self._files.items())).encode("utf-8", "surrogatepass")
        return hashlib.sha256(files).digest()

    def _take(self, chunk: bytes) -> None:
        self.written += len(chunk)
        if self.written > self._limits.bytes:
            raise StagingFailed(f"the package is larger than {self._limits.bytes} bytes")

    def _make(self, parts: Parts) -> None:
        self._count()
        path = self._path(parts)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            # On a file system that folds names this can be a directory of ours by another spelling.
            if not stat.S_ISDIR(os.lstat(path).st_mode):
                raise StagingFailed("a directory has the name of a file") from None
        if os.path.commonpath([self._root, os.path.realpath(path)]) != self._root:
            raise StagingFailed("an entry leaves the package")
        self._made.add(parts)

    def _count(self) -> None:
        self.entries += 1
        if self.entries > self._limits.entries:
            raise StagingFailed(f"the package has more than {self._limits.entries} entries")

    def _path(self, parts: Parts) -> str:
        return os.path.join(self._root, *parts)
