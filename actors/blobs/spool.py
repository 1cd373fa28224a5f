"""The spool: a directory of contents named by their SHA-256. Blocking; call it in a thread (C-BLOB-30…35).

It touches only regular files whose names are its own, and follows no links.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from .eviction import Entry, Quota, evict

_CONTENT_ID = re.compile(r"[0-9a-f]{64}")
_SIDECAR = re.compile(r"[0-9a-f]{64}\.mime")
_DRAFT = re.compile(r"\.draft-[0-9a-f]{16}")

STALE_DRAFT: Final = 600.0
TOUCH_EVERY: Final = 60.0
"""A read counts as use at most this often, so that a download does not write once a chunk."""


class SpoolFull(Exception):
    """The quota leaves no room for this content."""


class Spool:
    """Contents by id below `root`, which is made on first use.

    Threads that store take turns: each decides on what the one before left, so that together
    they stay within the quota, and none collects what another just found (C-BLOB-32).

    Args:
        root: `<blob cache root>/.blobspool`.
        clock: Unix seconds.
    """

    def __init__(self, root: Path, quota: Quota | None = None, clock: Callable[[], float] = time.time) -> None:
        self._root = root
        self._quota = quota or Quota()
        self._clock = clock
        self._changing = threading.Lock()

    def store(self, data: bytes, mime_type: str) -> str:
        """Keeps bytes and returns their content id; equal contents are kept once.

        Raises:
            SpoolFull: The quota leaves no room.
            OSError: The directory cannot be written to.
        """
        content_id = hashlib.sha256(data).hexdigest()
        with self._changing:
            self._keep(self._root, content_id, data)
        self._write(self._root, f"{content_id}.mime", f"{mime_type}\n".encode())
        return content_id

    def store_file(self, data: bytes) -> Path:
        """Keeps bytes as `dpe/<content id>` and returns the path. Raises as `store`. Spec: C-DOC-33."""
        content_id = hashlib.sha256(data).hexdigest()
        folder = self._root / "dpe"
        with self._changing:
            self._keep(folder, content_id, data)
        return folder / content_id

    def open(self, content_id: str) -> tuple[int, int]:
        """A read descriptor of a content, to be closed by the caller, and its size.

        Raises:
            FileNotFoundError: There is no such content (any more). Spec: C-BLOB-31.
        """
        if not _CONTENT_ID.fullmatch(content_id):
            raise FileNotFoundError(content_id)
        try:
            descriptor = os.open(self._root / content_id, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            raise FileNotFoundError(content_id) from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise FileNotFoundError(content_id)
        if self._clock() - status.st_mtime >= TOUCH_EVERY:
            with contextlib.suppress(OSError):
                os.utime(descriptor, (self._clock(), self._clock()))
        return descriptor, status.st_size

    def collect(self) -> int:
        """Deletes what is due and abandoned drafts; how many contents went."""
        with self._changing:
            chosen = evict(list(self._entries()), self._quota, self._clock())
            self._delete(chosen.names)
        self._sweep_drafts(STALE_DRAFT)
        return len(chosen.names)

    def close(self, *, persistent: bool) -> None:
        """Removes drafts, and everything of its own where it is not persistent. Spec: C-BLOB-35."""
        self._sweep_drafts(0.0)
        if not persistent:
            self._delete(tuple(entry.name for entry in self._entries()))

    # -- inside ---------------------------------------------------------------------

    def _keep(self, folder: Path, content_id: str, data: bytes) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / content_id
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode) and status.st_size == len(data):
                os.utime(path, (self._clock(), self._clock()))
                return
        chosen = evict(list(self._entries()), self._quota, self._clock(), needed=len(data))
        if not chosen.fits:
            raise SpoolFull
        self._delete(chosen.names)
        self._write(folder, content_id, data)

    def _write(self, folder: Path, name: str, data: bytes) -> None:
        draft = folder / f".draft-{secrets.token_hex(8)}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.utime(draft, (self._clock(), self._clock()))
            os.replace(draft, folder / name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise

    def _entries(self) -> Iterator[Entry]:
        for folder, prefix in ((self._root, ""), (self._root / "dpe", "dpe/")):
            for found in _files(folder):
                if _CONTENT_ID.fullmatch(found.name):
                    status = found.stat(follow_symlinks=False)
                    yield Entry(prefix + found.name, status.st_size, status.st_mtime)

    def _delete(self, names: tuple[str, ...]) -> None:
        for name in names:
            for path in (self._root / name, self._root / f"{name}.mime"):
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISREG(os.lstat(path).st_mode):
                        os.unlink(path)

    def _sweep_drafts(self, older_than: float) -> None:
        for folder in (self._root, self._root / "dpe"):
            for found in _files(folder):
                age = self._clock() - found.stat(follow_symlinks=False).st_mtime
                orphan = _SIDECAR.fullmatch(found.name) and not os.path.lexists(folder / found.name[:64])
                if age >= older_than and (_DRAFT.fullmatch(found.name) or orphan):
                    with contextlib.suppress(OSError):
                        os.unlink(found.path)


def _files(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Regular files directly in a folder that is no link; none when it is missing."""
    if folder.is_symlink():
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as listing:
        for found in list(listing):
            with contextlib.suppress(FileNotFoundError):
                if found.is_file(follow_symlinks=False):
                    yield found
