"""Derived files: what can be computed again, kept to be quick (R-FILE-5, R-FILE-10). Blocking.

A broken one is set aside and taken as empty. Nothing is decided by them that an intent file
does not say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....wire.errors import ConfigValidationError
from ..config.json_text import load
from .atomic import read_file, replace_file
from .jsonc import dump

HEADER = "// Maintained automatically by a2c-computer. DO NOT EDIT."
VERSION = 1


def read_derived(
    path: Path, known: Collection[str], wall_clock: Callable[[], float] = time.time
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The recognised keys of a derived file, and notes about what was odd.

    Args:
        known: Keys beside `version`.
        wall_clock: Unix seconds, for the name of a file that is set aside.
    """
    try:
        data = read_file(path)
        tree = {} if data is None else load(data, path.name)
        if not isinstance(tree, Mapping):
            raise ConfigValidationError("no object")
    except ConfigValidationError:
        kept = set_aside(path, wall_clock())
        return {}, (f"{path.name} could not be read and was set aside as {kept.name}",)
    notes = []
    if tree and tree.get("version") != VERSION:
        notes.append(f"{path.name} has another version than {VERSION}")
    odd = sorted(key for key in tree if key not in known and key != "version")
    if odd:
        notes.append(f"{path.name} holds unexpected keys: {', '.join(odd)}")
    return {key: value for key, value in tree.items() if key in known}, tuple(notes)


def write_derived(path: Path, fields: Mapping[str, Any]) -> None:
    """Writes a derived file as a whole; call it under the lock of the file.

    Raises:
        StartupError: The disk refuses (`unwritable`).
    """
    replace_file(path, f"{HEADER}\n{dump({'version': VERSION, **fields})}\n".encode())


def set_aside(path: Path, now: float) -> Path:
    """Moves a broken file out of the way; returns its new name. `now` in Unix seconds."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    kept = path.with_name(f"{path.name}.corrupt-{stamp}.bak")
    with suppress(OSError):
        path.replace(kept)
    return kept
