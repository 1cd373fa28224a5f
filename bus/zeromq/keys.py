"""CURVE keys: made here, kept in files only their owner reads, and the list of those who may come in.

A key pair `NAME` is two files in one directory: `NAME.public` and `NAME.secret`, each one
line of Z85 text. An allow-list is a directory of `NAME.public` files; a peer comes in
under the name of the file that holds its key. `smcp bus keygen` calls this.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq

from ...wire.errors import ConfigValidationError, ConflictError, PolicyError

logger = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY = re.compile(rb"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


NameOf = Callable[[bytes], str | None]
"""The name under which a public key (Z85) may come in, `None` for one that may not."""


class KeyPair(msgspec.Struct, frozen=True):
    """A CURVE key pair in Z85. Its text form shows the public half only."""

    name: str
    public: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"KeyPair({self.name!r}, public={self.public.decode()!r})"


class NodeKeys(msgspec.Struct, frozen=True):
    """What a node needs: its own pair, and the public key of the hub it will trust."""

    own: KeyPair
    hub: bytes


def generate(directory: Path, name: str) -> KeyPair:
    """Makes a key pair and writes its two files (mode 0600) into `directory`, made with mode 0700 if missing.

    Raises:
        ConfigValidationError: The name cannot be one.
        ConflictError: There is a key of that name.
        PolicyError: The directory is open to others.
    """
    _check_name(name)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_closed(directory)
    public, secret = zmq.curve_keypair()
    # The secret first: a public file without its secret would look complete.
    for suffix, key in (("secret", secret), ("public", public)):
        path = directory / f"{name}.{suffix}"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConflictError(f"there is a key named {name} in {directory}", code="key_exists") from None
        with os.fdopen(fd, "wb") as file:
            file.write(key + b"\n")
    return KeyPair(name, public, secret)


def load(directory: Path, name: str) -> KeyPair:
    """Reads a key pair.

    Raises:
        ConfigValidationError: A file is missing or holds no key.
        PolicyError: The secret can be read by others.
    """
    _check_name(name)
    secret = directory / f"{name}.secret"
    if secret.is_file():
        _check_closed(secret)
    return KeyPair(name, load_public(directory, name), _read(secret))


def load_public(directory: Path, name: str) -> bytes:
    """Reads a public key. Raises `ConfigValidationError` when it is missing or none."""
    _check_name(name)
    return _read(directory / f"{name}.public")


def load_node(directory: Path, name: str, hub: str = "hub") -> NodeKeys:
    """The keys of the node `name` and the public key of its hub, from one directory. Raises as `load`."""
    return NodeKeys(load(directory, name), load_public(directory, hub))


class AllowList:
    """Who may come in: a directory of `NAME.public` files, read again when it changes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read_at = -1
        self._names: dict[bytes, str] = {}

    def name_of(self, public: bytes) -> str | None:
        """The name of the file that holds this key (Z85), or `None`."""
        try:
            changed = self._directory.stat().st_mtime_ns
            if changed != self._read_at:
                self._names = dict(self._scan())
                self._read_at = changed
        except OSError:
            return None
        return self._names.get(public)

    def _scan(self) -> list[tuple[bytes, str]]:
        found = []
        for path in sorted(self._directory.glob("*.public")):
            try:
                key = path.read_bytes().strip()
            except OSError as error:
                logger.warning("cannot read %s: %s; nobody comes in by it", path, error.strerror)
                continue
            if _NAME.fullmatch(path.stem) and _KEY.fullmatch(key):
                found.append((key, path.stem))
        return found


def _read(path: Path) -> bytes:
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ConfigValidationError(f"cannot read {path}: {error.strerror}", code="key_missing") from None
    if not _KEY.fullmatch(key):
        raise ConfigValidationError(f"{path} holds no key", code="key_malformed")
    return key


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigValidationError("a key name has 1 to 64 letters, digits, dots, dashes or underscores", field="name")


def _check_closed(path: Path) -> None:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise PolicyError(f"{path} is open to others; take their rights away", code="key_not_private")
