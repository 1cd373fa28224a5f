"""Replacing a file as a whole, and reading one within bounds (R-FILE-4). Blocking; call it off the event loop."""

from __future__ import annotations

import glob
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from ....wire.errors import ConfigValidationError, Finding, StartupError

MAX_BYTES = 16 * 1024 * 1024
"""A declaration larger than this is a mistake; reading it would only cost memory."""

_USUAL = 32 * 1024
_TEMPORARY = re.compile(r"\.[0-9]+\.[0-9a-f]{8}\.tmp")


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Puts `data` in the place of a file, durably; a reader sees the old content or the new.

    Args:
        mode: Permissions; `None` keeps those of the file that is replaced. A new directory is 0700.
    Raises:
        StartupError: The disk refuses (`unwritable`); the old content stays, and nothing is left beside it.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = Path(os.path.realpath(path))  # a link stays one, and its target is replaced
        temporary = target.with_name(temporary.name)
        try:
            _write_through(temporary, data, _mode_of(target) if mode is None else mode)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_directory(target.parent)
    except OSError as error:
        raise StartupError(
            f"{path} could not be written: {error.strerror or type(error).__name__}",
            code="unwritable",
            source=str(path),
        ) from None


def sweep_temporaries(path: Path) -> None:
    """Removes what writers that were killed left beside a file. Only for who holds its lock: others' are gone then."""
    target = Path(os.path.realpath(path))
    with suppress(OSError):
        for rest in target.parent.glob(f"{glob.escape(target.name)}.*.tmp"):
            if _TEMPORARY.fullmatch(rest.name, len(target.name)):
                rest.unlink()


def read_file(path: str | Path, *, limit: int = MAX_BYTES) -> bytes | None:
    """The content of a file, `None` when there is none (R-SCOPE-4).

    Only regular files are read: a pipe or a terminal, which a link may lead to, would be waited for.

    Raises:
        ConfigValidationError: It cannot be read or is no file (`unreadable`), or is too large (`too_large`).
    """
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _refused(path, "cannot be read: it is no regular file", "unreadable")
            data = file.read(min(limit + 1, _USUAL))  # a buffer of the whole limit costs more than most files do
            if len(data) == _USUAL:
                data += file.read(limit + 1 - _USUAL)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or type(error).__name__}", "unreadable") from None
    if len(data) > limit:
        raise _refused(path, f"is larger than {limit // (1024 * 1024)} MiB", "too_large")
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Opens a file without waiting for whoever would write into it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def make_private_directory(path: Path) -> None:
    """Makes a directory that only its owner can look into; one that exists stays as it is (R-FILE-3).

    Raises:
        StartupError: It cannot be made (`unwritable`).
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StartupError(f"{path} could not be made: {reason}", code="unwritable", source=str(path)) from None


def _write_through(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), mode)
    with open(descriptor, "wb") as file:
        if hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode)  # what the umask took away
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0o600


def _sync_directory(path: Path) -> None:
    """Makes the new name durable where directories can be opened for it."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refused(path: str | Path, reason: str, code: str) -> ConfigValidationError:
    label = str(path)
    return ConfigValidationError(
        f"{label}: {reason}",
        code=code,
        field="$",
        source=label,
        findings=(Finding("$", reason, code=code, source=label),),
    )
