"""SHA-256 of files, computed once for each content and kept by identity; never a whole file in memory (C-BLOB-14).

Blocking; used from several worker threads at once. A content that is being hashed by one
thread is waited for by the others.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

Identity = tuple[int, int, int, int]
"""Device, inode, size in bytes, modification time in nanoseconds."""

PIECE: Final = 1_048_576
KEPT: Final = 4_096
TICK: Final = 0.02
"""Seconds: two writes within one tick of the file system's clock leave the same modification time, so what is
younger than that is not kept."""


def identity(info: os.stat_result) -> Identity:
    """What stands for the content of a file."""
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)


class Digests:
    """A bounded cache of digests.

    Attributes:
        computed: How many were computed so far.
    """

    def __init__(self, kept: int = KEPT, wall_clock: Callable[[], float] = time.time) -> None:
        self._kept = kept
        self._wall_clock = wall_clock
        self._known: OrderedDict[tuple[Identity, int], str] = OrderedDict()
        self._busy: dict[tuple[Identity, int], threading.Lock] = {}
        self._lock = threading.Lock()
        self.computed = 0

    def of(self, fd: int, start: int) -> str:
        """Lower-case hex digest of an open file from byte `start` to its end."""
        key = (identity(os.fstat(fd)), start)
        known = self._look(key)
        if known is not None:
            return known
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            known = self._look(key)
            if known is None:
                known = self._compute(fd, start, key)
        with self._lock:
            self._busy.pop(key, None)
        return known

    def _look(self, key: tuple[Identity, int]) -> str | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def _compute(self, fd: int, start: int, key: tuple[Identity, int]) -> str:
        began = self._wall_clock()
        digest = hashlib.sha256()
        for piece in pieces(fd, start):
            digest.update(piece)
        found = digest.hexdigest()
        settled = abs(began - key[0][3] / 1e9) > TICK
        with self._lock:
            self.computed += 1
            if settled and identity(os.fstat(fd)) == key[0]:
                self._known[key] = found
                while len(self._known) > self._kept:
                    self._known.popitem(last=False)
        return found


def pieces(fd: int, start: int) -> Iterator[bytes]:
    """The bytes of an open file from an offset on, a piece at a time."""
    while piece := read_at(fd, PIECE, start):
        yield piece
        start += len(piece)


def read_slice(fd: int, offset: int, length: int) -> bytes:
    """At most `length` bytes from an offset; fewer only at the end of the file."""
    found = bytearray()
    while len(found) < length and (piece := read_at(fd, length - len(found), offset + len(found))):
        found += piece
    return bytes(found)


def read_at(fd: int, length: int, offset: int) -> bytes:
    """One read at an offset."""
    if hasattr(os, "pread"):
        return os.pread(fd, length, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, length)
