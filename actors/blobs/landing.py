"""The landing root: where uploads are written. Blocking; call it in a thread (C-UP-19…22, C-UP-29, C-UP-32).

Every step is relative to a handle of the root directory and follows no links, so that
nothing an Agent sends, and no link somebody plants in the root, leads out of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from pathlib import Path
from typing import Final

STAGING: Final = ".a2c-upload"

_PART = re.compile(r"[0-9a-f]{32}\.part")
_FINISHED = re.compile(r"[0-9a-f]{32}(_[A-Za-z0-9._-]{1,64})?")
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def has_staging(configured: str) -> bool:
    """Whether uploads have ever been staged in this landing root."""
    return os.path.isabs(configured) and os.path.isdir(os.path.join(configured, STAGING))


class LandingRoot:
    """An opened landing root; made (0700) when it is missing.

    Raises:
        OSError: It is not a directory, cannot be made or cannot be written to.
    """

    def __init__(self, configured: str) -> None:
        if not os.path.isabs(configured):
            raise OSError(None, "the landing root is not absolute")
        self.path = Path(configured)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = os.open(self.path, _DIRECTORY)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(STAGING, 0o700, dir_fd=self._root)
            self._staging = os.open(STAGING, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._root)
        except BaseException:
            os.close(self._root)
            raise

    def close(self) -> None:
        """Gives the handles back."""
        os.close(self._staging)
        os.close(self._root)

    def is_gone(self) -> bool:
        """Whether somebody has deleted or replaced it, or its staging directory, since it was opened."""
        try:
            root, staging = os.stat(self.path), os.stat(STAGING, dir_fd=self._root, follow_symlinks=False)
        except OSError:
            return True
        return not (os.path.samestat(root, os.fstat(self._root)) and os.path.samestat(staging, os.fstat(self._staging)))

    def room(self) -> int | None:
        """Free bytes where known."""
        with contextlib.suppress(OSError):
            status = os.fstatvfs(self._root)
            return status.f_bavail * status.f_frsize
        return None

    def begin(self, upload_id: str) -> Part:
        """A new part file.

        Raises:
            OSError: It exists or cannot be created.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return Part(self, upload_id, os.open(f"{upload_id}.part", flags, 0o600, dir_fd=self._staging))

    def collect(self, live: set[str], idle: float) -> int:
        """Deletes part files nobody writes to any more; how many went. Spec: C-UP-29."""
        parts = [name for name in os.listdir(self._staging) if _PART.fullmatch(name)]
        stale = [name for name in parts if name.removesuffix(".part") not in live]
        return sum(_delete_old(name, self._staging, idle) for name in stale)

    def expire(self, kept: float) -> int:
        """Deletes landed files that are older than `kept` seconds; how many went. Spec: C-UP-24."""
        landed = [name for name in os.listdir(self._root) if _FINISHED.fullmatch(name)]
        return sum(_delete_old(name, self._root, kept) for name in landed)

    def publish(self, part: str, name: str) -> Path:
        """Moves a part to its final name, never over an existing file, and proves where it is.

        Raises:
            OSError: The name is taken, or the file is not where it should be.
        """
        os.link(part, name, src_dir_fd=self._staging, dst_dir_fd=self._root, follow_symlinks=False)
        os.unlink(part, dir_fd=self._staging)
        os.fsync(self._root)
        final = self.path / name
        if not self._leads_to(final):
            os.unlink(name, dir_fd=self._root)
            raise OSError(None, "the file left the landing root")
        return final

    def _leads_to(self, final: Path) -> bool:
        """Whether a reader of this path finds the very file that lies in the opened root. Spec: C-UP-2, C-UP-22."""
        try:
            found = os.lstat(final)
        except OSError:
            return False
        landed = os.stat(final.name, dir_fd=self._root, follow_symlinks=False)
        inside = os.path.realpath(final) == os.path.join(os.path.realpath(self.path), final.name)
        return inside and os.path.samestat(found, landed)

    def drop(self, part: str) -> None:
        """Deletes a part file; a missing one is fine."""
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=self._staging)


def _delete_old(name: str, folder: int, age: float) -> bool:
    """Deletes a regular file directly in a folder that nobody has written to for `age` seconds."""
    with contextlib.suppress(OSError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime >= age:
            os.unlink(name, dir_fd=folder)
            return True
    return False


class Part:
    """One upload being written; its hash is computed as the bytes arrive."""

    def __init__(self, root: LandingRoot, upload_id: str, descriptor: int) -> None:
        self._root = root
        self._upload_id = upload_id
        self._descriptor: int | None = descriptor
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Appends bytes.

        Raises:
            OSError: They could not all be written.
        """
        assert self._descriptor is not None
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._hash.update(data)

    def digest(self) -> str:
        """SHA-256 of what was written, lower-case hex."""
        return self._hash.hexdigest()

    def finish(self, hint: str) -> Path:
        """Flushes to disk and publishes; the path below the root as configured. Raises `OSError`."""
        assert self._descriptor is not None
        os.fsync(self._descriptor)
        name = f"{self._upload_id}_{hint}" if hint else self._upload_id
        final = self._root.publish(f"{self._upload_id}.part", name)
        self._close()
        return final

    def discard(self) -> None:
        """Leaves nothing behind."""
        self._close()
        self._root.drop(f"{self._upload_id}.part")

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
