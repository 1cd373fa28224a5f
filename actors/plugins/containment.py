"""Paths that manifests may name: always inside the tree they speak of (R-PLUGIN-6, F-114).

The text is judged before anything is read; what the file system makes of it is judged
again before it is used. Both refuse in the same words for every field of every manifest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from ...wire.errors import ConfigValidationError

MAX_LENGTH = 512
_DRIVE = re.compile(r"[A-Za-z]:")
_FAULTS: tuple[tuple[Callable[[str], bool], str], ...] = (
    (lambda form: any(ord(character) < 32 for character in form), "must not hold control characters"),
    (lambda form: "\\" in form, "must use forward slashes"),
    (lambda form: form.startswith(("/", "~")) or bool(_DRIVE.match(form)), "must be relative to its tree"),
    (lambda form: ".." in form.split("/"), "must not step out of its tree"),
    (lambda form: ".git" in form.lower().split("/"), "must not lead into version control data"),
)


def path_fault(text: str) -> str | None:
    """Why a text may not stand in a manifest as a path inside a tree; `None` when it may."""
    if not text or len(text) > MAX_LENGTH:
        return f"must be a path of 1 to {MAX_LENGTH} characters"
    forms = (text, unquote(text), unquote(unquote(text)))
    return next((fault for reason, fault in _FAULTS if any(reason(form) for form in forms)), None)


def resolve_inside(root: Path, text: str, what: str) -> Path:
    """The place of a path inside a tree, after links.

    Args:
        what: What the path is for, in errors.
    Raises:
        ConfigValidationError: It leads out of the tree (`path_outside`).
    """
    fault = path_fault(text)
    top = os.path.realpath(root)
    place = os.path.realpath(os.path.join(top, text))
    if fault is None and place != top and not place.startswith(top.rstrip(os.sep) + os.sep):
        fault = "leads out of its tree through a link"
    if fault is not None:
        raise ConfigValidationError(f"{what}: {text[:MAX_LENGTH]!r} {fault}", code="path_outside", field=what)
    return Path(place)


def is_inside(place: str | Path, root: Path, *, strictly: bool = False) -> bool:
    """Whether a place is in a tree, after links; `strictly` excludes its root."""
    real, top = os.path.realpath(place), os.path.realpath(root)
    if real == top:
        return not strictly
    return real.startswith(top.rstrip(os.sep) + os.sep)
