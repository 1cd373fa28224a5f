"""The secret that handles are authenticated with: 32 random bytes in a private file of the state directory."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

NAME: Final = "blob-handle.key"
LENGTH: Final = 32


def load_key(state_dir: Path) -> bytes:
    """The stored key, made on first use; one for this run alone where it cannot be stored. Spec: C-BLOB-4."""
    path = state_dir / NAME
    try:
        return _read(path) or _create(path)
    except OSError as error:
        logger.warning("the key of blob handles cannot be kept (%s): handles end with this run", error.strerror)
        return secrets.token_bytes(LENGTH)


def _read(path: Path) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        key = file.read(LENGTH + 1)
    if len(key) != LENGTH:
        raise OSError(None, "the file does not hold a key")
    return key


def _create(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = secrets.token_bytes(LENGTH)
    draft = path.with_name(f"{NAME}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link, not a rename: of two Computers that start at once on one home, the first key counts.
            os.link(draft, path)
        except FileExistsError:
            return _read(path) or key
        return key
    finally:
        os.unlink(draft)
