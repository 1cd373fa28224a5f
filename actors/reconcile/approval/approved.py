"""What was approved, kept to show a difference one day and for nothing else (DEC-32). Blocking.

By fingerprint, so that projects with servers of one name do not get into each other's way.
A file that cannot be read is an empty one: no decision hangs on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ....wire.errors import SmcpError
from ..config.json_text import load
from ..files.atomic import read_file, replace_file
from ..files.jsonc import dump
from ..files.lock import locked

FILE_NAME = "approved-servers.json"
MOST = 500
"""Shapes kept; the oldest go first."""


def read_approved(state: Path) -> dict[str, dict[str, Any]]:
    """Approved shapes by fingerprint, oldest first."""
    try:
        data = read_file(state / FILE_NAME)
        tree = {} if data is None else load(data, FILE_NAME)
    except SmcpError:
        return {}
    shapes = tree.get("approved") if isinstance(tree, Mapping) else None
    if not isinstance(shapes, Mapping):
        return {}
    return {key: dict(shape) for key, shape in shapes.items() if isinstance(shape, Mapping)}


def remember_approved(state: Path, shapes: Mapping[str, Mapping[str, Any]]) -> None:
    """Keeps shapes under their fingerprints.

    Raises:
        ConflictError, StartupError: The file cannot be locked or written.
    """
    path = state / FILE_NAME
    with locked(path):
        known = read_approved(state)
        merged = {**{key: shape for key, shape in known.items() if key not in shapes}, **shapes}
        kept = dict(list(merged.items())[-MOST:])
        if kept != known:
            replace_file(path, (dump({"version": 1, "approved": kept}) + "\n").encode(), mode=0o600)
