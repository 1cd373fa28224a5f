"""Intent files: settings and server declarations that people own (R-FILE-6…12). Blocking; call it off the event loop.

A change is decided on what the file holds under its lock, and touches nothing else in it. A
file that cannot be understood is never written to: whoever broke it can mend it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from ....wire.errors import ConfigValidationError, ConflictError, Finding
from ..config.findings import type_name
from ..config.json_text import load
from .atomic import read_file, replace_file, sweep_temporaries
from .jsonc import dump
from .lock import locked
from .patch import Patch, patched, patched_text

Kind = Literal["settings", "mcp"]


class Intent(msgspec.Struct, frozen=True):
    """The content of an intent file.

    Attributes:
        revision: SHA-256 of its bytes, `None` when there is no file (R-FILE-7).
    """

    path: Path
    tree: dict[str, Any] = {}
    revision: str | None = None
    text: str = ""


class Change(msgspec.Struct, frozen=True):
    """What became of a change; `changed` is false when the file said so already (R-FILE-12)."""

    changed: bool
    intent: Intent


def read_intent(path: Path, kind: Kind) -> Intent:
    """What a file says; nothing, when there is none.

    Raises:
        ConfigValidationError: It cannot be read or understood (`unreadable`, `too_large`, `bad_json`, `bad_shape`).
    """
    data = read_file(path)
    if data is None:
        return Intent(path)
    label = str(path)
    tree = load(data, label)
    fault = _fault(tree, kind)
    if fault is not None:
        raise _misshaped(label, *fault)
    return Intent(path, tree, revision_of(data), data.decode("utf-8-sig"))


def change_intent(
    path: Path, kind: Kind, decide: Callable[[Mapping[str, Any]], Patch], *, expected: str | None = None
) -> Change:
    """Changes a file under its lock.

    Args:
        decide: The change, from what the file holds.
        expected: The revision the operation was computed from.
    Raises:
        ConflictError: The lock is held (`lock_timeout`), or the file is another than expected (`stale_write`).
        ConfigValidationError: The file cannot be understood (`corrupt_file`).
        StartupError: The disk refuses (`unwritable`).
    """
    try:
        return _changed(path, kind, decide, expected)
    except RecursionError:
        raise ConfigValidationError(
            f"{path} is not written to, because it is nested too deep", code="corrupt_file", source=str(path)
        ) from None


def _changed(path: Path, kind: Kind, decide: Callable[[Mapping[str, Any]], Patch], expected: str | None) -> Change:
    with locked(path):
        intent = _understood(path, kind)
        if expected is not None and intent.revision != expected:
            raise ConflictError(
                f"{path} was changed in the meantime", code="stale_write", source=str(path), retryable=True
            )
        patch = decide(intent.tree)
        _refuse_to_replace(intent.tree, patch, path)
        tree = patched(intent.tree, patch)
        if dump(tree) == dump(intent.tree):  # for Python 1 is true
            return Change(False, intent)
        fault = _fault(tree, kind)
        if fault is not None:
            raise _misshaped(str(path), *fault)
        text = patched_text(intent.text, intent.tree, patch) if intent.text else dump(tree) + "\n"
        data = text.encode("utf-8")
        sweep_temporaries(path)
        replace_file(path, data)
        return Change(True, Intent(path, tree, revision_of(data), text))


def revision_of(data: bytes) -> str:
    """The revision of a file with this content."""
    return hashlib.sha256(data).hexdigest()


def _understood(path: Path, kind: Kind) -> Intent:
    try:
        return read_intent(path, kind)
    except ConfigValidationError as error:
        raise ConfigValidationError(
            f"{path} is not written to, because it cannot be understood; mend it first",
            code="corrupt_file",
            field=error.field,
            source=str(path),
            findings=error.findings,
            causes=(error.message,),
        ) from None


def _refuse_to_replace(tree: Mapping[str, Any], patch: Patch, path: Path) -> None:
    """What people wrote where an object belongs is not to go because something is put into that object."""
    for field, value in patch.items():
        held = tree.get(field)
        if isinstance(value, Mapping) and held is not None and not isinstance(held, Mapping):
            raise ConfigValidationError(
                f"{path} is not written to, because its {field} is no object; mend or delete that first",
                code="corrupt_file",
                field=field,
                source=str(path),
            )


def _fault(tree: object, kind: Kind) -> tuple[str, str, object] | None:
    """Where the shape of a whole file is wrong, what belongs there, and what is there."""
    if not isinstance(tree, dict):
        return "$", "an object", tree
    expected: dict[str, tuple[type, str]] = {}
    if kind == "mcp":
        expected = {"servers": (dict, "an object"), "mcpServers": (dict, "an object"), "inputs": (list, "an array")}
    for key, (shape, words) in expected.items():
        if tree.get(key) is not None and not isinstance(tree[key], shape):
            return key, words, tree[key]
    return None


def _misshaped(label: str, field: str, expected: str, found: object) -> ConfigValidationError:
    reason = f"must be {expected}, not {type_name(found)}"
    return ConfigValidationError(
        f"{label}: {field} {reason}",
        code="bad_shape",
        field=field,
        source=label,
        findings=(Finding(field, reason, code="bad_shape", source=label),),
    )
