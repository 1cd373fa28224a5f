"""Where a bus listens: a Unix socket in a directory of our own, or TCP among those who have keys.

A Unix socket is protected by its directory (mode 0700, ours), so it needs no keys. TCP is
open to whoever reaches the port, so it exists only with CURVE keys and an allow-list.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import stat
import tempfile
from pathlib import Path

import zmq

from ...wire.errors import ConfigValidationError, ConflictError, PolicyError

IPC_PATH_MAX = 103
"""Bytes of a Unix socket's path that every system takes."""

_TCP = re.compile(r"tcp://(\*|\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):(\*|\d{1,5})")


class Place:
    """A checked endpoint.

    Attributes:
        url: As ZeroMQ takes it.
        path: Of the Unix socket, else `None`.
    """

    def __init__(self, url: str, path: Path | None, made: Path | None = None) -> None:
        self.url = url
        self.path = path
        self._made = made

    def remove(self) -> None:
        """Takes away the socket file, and the directory if it was made for it."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink()
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)


def to_bind(endpoint: str | None, *, keys: bool, allow: bool) -> Place:
    """Checks and prepares an endpoint to listen at; `None` is a new private Unix socket.

    Raises:
        ConfigValidationError: It is none, or its path is too long.
        PolicyError: TCP without keys and an allow-list, or a directory that is not ours alone.
        ConflictError: Somebody listens there already.
    """
    if endpoint is None:
        _need_unix_sockets()
        made = Path(tempfile.mkdtemp(prefix="smcp-bus-", dir=_runtime_directory()))
        try:
            return _unix(made / "hub", made)
        except ConfigValidationError:
            made.rmdir()
            raise
    if endpoint.startswith("ipc://"):
        place = _unix(Path(endpoint.removeprefix("ipc://")))
        assert place.path is not None
        _prepare(place.path)
        return place
    _check_tcp(endpoint)
    if not (keys and allow):
        raise PolicyError(
            f"{endpoint} needs CURVE keys and an allow-list; use ipc:// without them", code="bus_needs_keys"
        )
    return Place(endpoint, None)


def to_connect(endpoint: str, *, keys: bool) -> Place:
    """Checks an endpoint to connect to. Raises as `to_bind`."""
    if endpoint.startswith("ipc://"):
        place = _unix(Path(endpoint.removeprefix("ipc://")))
        assert place.path is not None
        if place.path.parent.is_dir():
            _check_private(place.path.parent)
        return place
    _check_tcp(endpoint)
    if not keys:
        raise PolicyError(f"{endpoint} needs CURVE keys; use ipc:// without them", code="bus_needs_keys")
    return Place(endpoint, None)


def _need_unix_sockets() -> None:
    if not zmq.has("ipc"):
        text = "ZeroMQ has no Unix sockets on this system; use tcp:// with keys"
        raise ConfigValidationError(text, field="endpoint", code="no_ipc")


def _unix(path: Path, made: Path | None = None) -> Place:
    _need_unix_sockets()
    if not path.is_absolute():
        raise ConfigValidationError("the path of an ipc:// endpoint is absolute", field="endpoint")
    if len(os.fsencode(path)) > IPC_PATH_MAX:
        text = f"the path of an ipc:// endpoint has at most {IPC_PATH_MAX} bytes: {path}"
        raise ConfigValidationError(text, field="endpoint", code="path_too_long")
    return Place(f"ipc://{path}", path, made)


def _prepare(path: Path) -> None:
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True)
    _check_private(path.parent)
    if path.exists():
        # ZeroMQ would take the file from a bus that still listens there.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(os.fspath(path))
            except OSError:
                return
        raise ConflictError(f"a bus already listens at {path}", code="endpoint_taken")


def _check_private(directory: Path) -> None:
    facts = directory.stat()
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
        raise PolicyError(f"{directory} has to be ours and closed to others (mode 0700)", code="directory_not_private")


def _check_tcp(endpoint: str) -> None:
    if not _TCP.fullmatch(endpoint):
        raise ConfigValidationError(
            "a bus endpoint is ipc:///absolute/path or tcp://host:port", field="endpoint", code="bad_endpoint"
        )


def _runtime_directory() -> str | None:
    """A short, private place if the system has one; a socket path has little room."""
    directory = os.environ.get("XDG_RUNTIME_DIR", "")
    return directory if directory and len(directory) < 40 and Path(directory).is_dir() else None
