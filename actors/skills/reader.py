"""Reading one file of a package: what it is, its text if it is small, or a slice of it. Blocking; runs in threads.

Every call passes the sandbox again; nothing is remembered of an earlier permission (C-BLOB-6).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from ...wire.mime import is_text
from ...wire.skills import SKILL_ENTRY
from .digest import Digests, identity, read_slice
from .forbidden import ForbiddenNames
from .frontmatter import body_start, head_bytes
from .media_types import media_type
from .package_file import PackageFile, open_package_file
from .publish import swapping
from .rel_path import Refused

T = TypeVar("T")

_ATTEMPTS: Final = 2
"""A file that changes while it is read is read once more, and then taken as it is (C-BLOB-15)."""


class OutOfRange(Exception):
    """An offset lies beyond the end. `total_size` in bytes."""

    def __init__(self, total_size: int) -> None:
        super().__init__(f"beyond {total_size}")
        self.total_size = total_size


class Described(msgspec.Struct, frozen=True):
    """A file as `client:get_skill` answers it: sizes and hash are of its resource bytes (C-SKILL-47).

    `body` is its text when that goes inline (C-SKILL-64). `parts` is its path in normal form.
    """

    parts: tuple[str, ...]
    mime_type: str
    total_size: int
    sha256: str
    body: str | None = None


class Slice(msgspec.Struct, frozen=True):
    """A slice of a file's resource bytes."""

    data: bytes
    mime_type: str
    total_size: int
    sha256: str


class Reader:
    """Reads files of packages.

    Args:
        cap: Largest file in bytes that is read at all (D-11).
        inline: Largest text in bytes that is given whole (D-10).
    """

    def __init__(self, forbidden: ForbiddenNames, digests: Digests, *, cap: int, inline: int) -> None:
        self._forbidden = forbidden
        self._digests = digests
        self._cap = cap
        self._inline = inline

    def describe(self, root: str, rel_path: str) -> Described:
        """Describes a file of the package at `root`.

        Raises:
            Refused: It may not be read.
        """
        with self._open(root, rel_path) as file:
            return self._consistent(file, self._describe)

    def slice(self, root: str, rel_path: str, offset: int, length: int) -> Slice:
        """Bytes of a file from `offset` on; fewer than `length` at its end.

        Raises:
            Refused: It may not be read.
            OutOfRange: The offset is negative or beyond the end.
        """

        def cut(file: PackageFile, size: int) -> Slice:
            start = self._start(file)
            total = size - start
            if not 0 <= offset <= total:
                raise OutOfRange(total)
            sha256 = self._digests.of(file.found.fd, start)
            data = read_slice(file.found.fd, start + offset, min(length, total - offset))
            return Slice(data, media_type(file.parts[-1]), total, sha256)

        with self._open(root, rel_path) as file:
            return self._consistent(file, cut)

    def _open(self, root: str, rel_path: str) -> PackageFile:
        try:
            return open_package_file(root, rel_path, self._forbidden, self._cap)
        except Refused as refused:
            if refused.reason != "not_found":
                raise
        # It may be that the package is just being replaced.
        with swapping:
            return open_package_file(root, rel_path, self._forbidden, self._cap)

    def _consistent(self, file: PackageFile, read: Callable[[PackageFile, int], T]) -> T:
        info = os.fstat(file.found.fd)
        for _ in range(_ATTEMPTS):
            before = info
            if before.st_size > self._cap:
                raise Refused("too_large", before.st_size)
            found = read(file, before.st_size)
            info = os.fstat(file.found.fd)
            if identity(before) == identity(info):
                break
        return found

    def _describe(self, file: PackageFile, size: int) -> Described:
        start = self._start(file)
        total = size - start
        mime_type = media_type(file.parts[-1])
        if is_text(mime_type) and total <= self._inline:
            data = read_slice(file.found.fd, start, total)
            sha256 = hashlib.sha256(data).hexdigest()
            try:
                return Described(file.parts, mime_type, len(data), sha256, data.decode("utf-8"))
            except UnicodeDecodeError:
                return Described(file.parts, mime_type, len(data), sha256)
        return Described(file.parts, mime_type, total, self._digests.of(file.found.fd, start))

    @staticmethod
    def _start(file: PackageFile) -> int:
        """Where the resource bytes begin: behind the header of the root SKILL.md, else at the beginning."""
        if file.parts != (SKILL_ENTRY,):
            return 0
        return body_start(read_slice(file.found.fd, 0, head_bytes()))
