"""Mode archive: unpacks a downloaded tar.gz or zip, member by member, all or nothing (C-SKILL-35…38). Blocking.

Nothing an archive declares is believed: sizes are those that come out, entries are counted as
they come, and neither a long name nor a member list is read into memory before a limit has
been looked at.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Final, Literal, cast

from .entry_names import EntryNames
from .limits import PackageLimits, StagingFailed
from .package_writer import CHUNK, PackageWriter

Format = Literal["tar.gz", "zip"]
FORMATS: Final[tuple[Format, ...]] = ("tar.gz", "zip")

NO_ENTRY: Final = "there is no SKILL.md at the top of the package"
LONG_NAME_BYTES: Final = 65_536
"""Largest tar header extension that is read: it goes to memory whole."""
_ZIP_SIGNATURE: Final = b"PK\x01\x02"
_ZIP_SLACK: Final = 4
"""How many times the limit of entries may the signature of an entry occur: archives inside archives hold it, too."""
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_EXTENSIONS: Final = frozenset({b"x", b"g", b"X", b"L", b"K"})
"""Types of tar headers that only describe the next one."""
_DAMAGED: Final = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, EOFError, ValueError, LookupError,
    NotImplementedError, RuntimeError, RecursionError, OverflowError, MemoryError,
)  # fmt: skip


def unpack(path: str, form: Format, writer: PackageWriter, limits: PackageLimits) -> None:
    """Unpacks the archive at `path`.

    Raises:
        StagingFailed: It is damaged, holds what it must not, or exceeds a limit.
        OSError: The disk does not take it.
    """
    try:
        with open(path, "rb") as file:
            if form == "zip":
                _unpack_zip(file, writer, limits)
            else:
                _unpack_tar(file, writer, limits)
    except _DAMAGED as error:
        raise StagingFailed(f"the archive is damaged: {type(error).__name__}") from None


# -- tar --------------------------------------------------------------------------------


class _Member(tarfile.TarInfo):
    """A tar header that refuses to read endless extensions into memory."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        size = self.size
        if self.type == tarfile.XGLTYPE:
            # Global headers are kept until the end, so it is their sum that counts.
            size += sum(len(key) + len(value) for key, value in archive.pax_headers.items())
        if self.type in _EXTENSIONS and size > LONG_NAME_BYTES:
            raise StagingFailed("the archive has a header without end")
        # Not part of the stubs, though it is how TarInfo documents reading a member of a special type.
        return cast(tarfile.TarInfo, super()._proc_member(archive))  # type: ignore[misc]


class _Inflated(io.RawIOBase):
    """The bytes inside a gzip file, as long as they are no bomb."""

    def __init__(self, file: IO[bytes], limits: PackageLimits) -> None:
        super().__init__()
        self._size = os.fstat(file.fileno()).st_size
        self._inflated = gzip.GzipFile(fileobj=file, mode="rb")
        self._limits = limits
        self._count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._inflated.read(min(size, CHUNK) if size >= 0 else CHUNK)
        self._count += len(data)
        # Headers come on top of what is written, one for each entry and a long name for some.
        if self._count > self._limits.bytes + 4096 * self._limits.entries:
            raise StagingFailed(f"the archive holds more than {self._limits.bytes} bytes")
        check_ratio(self._count, self._size, self._limits)
        return data


def _unpack_tar(file: IO[bytes], writer: PackageWriter, limits: PackageLimits) -> None:
    names = EntryNames(limits)
    inflated = _Inflated(file, limits)
    stream = cast(IO[bytes], inflated)
    with tarfile.open(fileobj=stream, mode="r|", bufsize=CHUNK, tarinfo=_Member, errors="surrogateescape") as archive:
        count = 0
        while (member := archive.next()) is not None:
            # The archive remembers every member for a second reading that never comes.
            archive.members.clear()  # type: ignore[attr-defined]
            count += 1
            if count > limits.entries:
                raise StagingFailed(f"the archive has more than {limits.entries} entries")
            if member.issparse() or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE):
                raise StagingFailed("the archive has an entry that is neither a plain file nor a directory")
            if member.isdir():
                writer.directory(names.directory(member.name))
            else:
                content = archive.extractfile(member)
                assert content is not None
                writer.file(names.file(member.name), _chunks(content), executable=bool(member.mode & stat.S_IXUSR))
    # What follows the last member belongs to the checksum.
    while inflated.read(CHUNK):
        pass


# -- zip --------------------------------------------------------------------------------


def _unpack_zip(file: IO[bytes], writer: PackageWriter, limits: PackageLimits) -> None:
    too_many = StagingFailed(f"the archive has more than {limits.entries} entries")
    # Opening a zip reads its whole list of entries, so a bound on their number comes first.
    if count_occurrences(file, _ZIP_SIGNATURE) > _ZIP_SLACK * limits.entries:
        raise too_many
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    names = EntryNames(limits)
    with zipfile.ZipFile(file) as archive:
        if len(archive.filelist) > limits.entries:
            raise too_many
        for entry in archive.filelist:
            mode = entry.external_attr >> 16
            _check_entry(entry, stat.S_IFMT(mode))
            # `filename` ends at the first NUL, which would hide what follows it.
            if entry.is_dir():
                writer.directory(names.directory(entry.orig_filename))
                continue
            with archive.open(entry) as content:
                parts = names.file(entry.orig_filename)
                writer.file(parts, _chunks(content), executable=bool(mode & stat.S_IXUSR))
            check_ratio(writer.written, size, limits)


def _check_entry(entry: zipfile.ZipInfo, kind: int) -> None:
    if entry.flag_bits & _ENCRYPTED:
        raise StagingFailed("the archive has an encrypted entry")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise StagingFailed("the archive has an entry compressed in another way than deflate")
    if kind not in (0, stat.S_IFDIR if entry.is_dir() else stat.S_IFREG):
        raise StagingFailed("the archive has an entry that is neither a plain file nor a directory")


def count_occurrences(file: IO[bytes], pattern: bytes) -> int:
    """How often a pattern occurs in a file; at most 256 KiB of it are in memory."""
    found, tail = 0, b""
    while chunk := file.read(CHUNK):
        data = tail + chunk
        found += data.count(pattern)
        tail = data[-(len(pattern) - 1) :]
    return found


# -- both -------------------------------------------------------------------------------


def check_ratio(written: int, archived: int, limits: PackageLimits) -> None:
    """Refuses what inflates out of all proportion.

    Raises:
        StagingFailed: It does.
    """
    if written > limits.ratio_free and written > limits.ratio * archived:
        raise StagingFailed(f"the archive inflates to more than {limits.ratio} times its size")


def package_root(directory: str) -> str:
    """Where in an unpacked archive the package begins: at its top, or in the one directory that has a SKILL.md.

    Raises:
        StagingFailed: There is no such place.
    Spec: C-SKILL-22.
    """
    if has_entry_file(directory):
        return directory
    with os.scandir(directory) as entries:
        holding = [e.path for e in entries if e.is_dir(follow_symlinks=False) and has_entry_file(e.path)]
    if len(holding) != 1:
        raise StagingFailed(NO_ENTRY)
    return holding[0]


def has_entry_file(directory: str) -> bool:
    """Whether a directory holds a regular file `SKILL.md`, in exactly this spelling."""
    # By listing: a file system that folds case would find skill.md under the other name.
    with os.scandir(directory) as entries:
        return any(entry.name == "SKILL.md" and entry.is_file(follow_symlinks=False) for entry in entries)


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(CHUNK):
        yield chunk
