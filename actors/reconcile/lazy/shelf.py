"""The files that listings of lazy servers are kept in: one for each definition of a server, a cache and no more.

A file is named by a digest of what is run, so that a server which is defined otherwise has
another one, and several Computers of one home do not get in each other's way. What is lost
or cannot be read is listed anew. No secret gets into one: values of variables and headers
are no part of the digest, and a listing that holds a secret is not kept. Blocking.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ....wire.errors import SmcpError
from ..approval.fingerprint import fingerprint_of
from ..config.json_text import load
from ..config.server_entry import ServerEntry
from ..files.atomic import read_file, replace_file

logger = logging.getLogger(__name__)

FOLDER = "lazy-tools"
MOST = 500
"""Listings that are kept; those not listed anew for longest go first."""


def key_of(entry: ServerEntry) -> str:
    """What a listing belongs to: a server as it is defined."""
    return hashlib.sha256(f"{entry.bundle_id} {fingerprint_of(entry)}".encode()).hexdigest()[:32]


def read_all(state: Path, keys: Iterable[str]) -> dict[str, bytes]:
    """The listings that are kept under these keys, each a JSON array of tools."""
    return {key: listing for key in keys if (listing := _read(state / FOLDER / f"{key}.json")) is not None}


def keep_all(state: Path, listings: Mapping[str, bytes]) -> None:
    """Writes listings by key.

    Raises:
        StartupError: The disk refuses.
    """
    folder = state / FOLDER
    for key, listing in listings.items():
        text = msgspec.json.encode({"version": 1, "tools": msgspec.Raw(listing)})
        replace_file(folder / f"{key}.json", text, mode=0o600)
    _drop_oldest(folder)


def _read(path: Path) -> bytes | None:
    try:
        data = read_file(path)
        tree: Any = None if data is None else load(data, path.name)
    except SmcpError as error:
        logger.warning("the listing in %s cannot be read: %s", path.name, error.code)
        return None
    tools = tree.get("tools") if isinstance(tree, Mapping) and tree.get("version") == 1 else None
    is_listing = isinstance(tools, list) and all(isinstance(tool, Mapping) and "name" in tool for tool in tools)
    return msgspec.json.encode(tools) if is_listing else None


def _drop_oldest(folder: Path) -> None:
    """Keeps the folder within its bound; another Computer may be at the same."""
    with suppress(OSError):
        aged = sorted((path.stat().st_mtime_ns, path) for path in folder.glob("*.json"))
        for _, path in aged[:-MOST]:
            path.unlink(missing_ok=True)
