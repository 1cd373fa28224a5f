"""The file that pins are kept in, beside the approvals they belong to. Blocking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ....wire.errors import SmcpError
from ..config.json_text import load
from ..files.atomic import read_file, replace_file
from ..files.jsonc import dump
from ..files.lock import locked
from .board import Pinboard
from .pins import Pin, Pins

FILE_NAME = "pinned-tools.json"
MOST = 500
"""Servers whose pins are kept; those not pinned anew for longest go first."""


def read_board(state: Path) -> Pinboard:
    """The board of a state directory; a file that cannot be understood makes one that holds everything."""
    try:
        return Pinboard(_read(state / FILE_NAME))
    except (SmcpError, msgspec.ValidationError):
        return Pinboard(readable=False)


def keep(state: Path, fresh: Mapping[str, Pins]) -> None:
    """Writes what was pinned.

    Raises:
        ConflictError, StartupError: The file cannot be locked or written.
    """
    path = state / FILE_NAME
    with locked(path):
        try:
            known = _read(path)
        except (SmcpError, msgspec.ValidationError):
            known = {}
        merged = {**{key: pins for key, pins in known.items() if key not in fresh}, **fresh}
        kept = dict(list(merged.items())[-MOST:])
        if kept != known:
            text = dump({"version": 1, "servers": msgspec.to_builtins(kept)})
            replace_file(path, (text + "\n").encode(), mode=0o600)


def _read(path: Path) -> dict[str, dict[str, Pin]]:
    data = read_file(path)
    tree: Any = {} if data is None else load(data, path.name)
    return msgspec.convert(tree.get("servers", {}) if isinstance(tree, Mapping) else tree, dict[str, dict[str, Pin]])
