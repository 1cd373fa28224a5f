"""Paths inside a package as an Agent writes them: what can be refused without touching the file system. Pure.

The order of refusals is part of the protocol: form first, then forbidden names, so that
asking for a forbidden file never tells whether it exists (C-SKILL-66a, C-SKILL-66b, C-SKILL-69).
"""

from __future__ import annotations

import unicodedata
from typing import Final, Literal

from .forbidden import ForbiddenNames

Reason = Literal["traversal", "forbidden", "not_found", "too_large"]

PATH_BYTES: Final = 1_024
"""UTF-8 bytes of a relative path (D-17)."""
COMPONENT_BYTES: Final = 255


class Refused(Exception):
    """A file of a package may not be read.

    Attributes:
        reason: As in `details.reason` of 4017.
        total_size: Bytes of the file, only with `too_large`.
    """

    def __init__(self, reason: Reason, total_size: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.total_size = total_size


def parse_rel_path(text: str, forbidden: ForbiddenNames) -> tuple[str, ...]:
    """The components of a requested path, without `.` and empty ones.

    Raises:
        Refused: `traversal`, `forbidden`, or `not_found` for a path that names nothing.
    Spec: C-SKILL-66a, C-SKILL-66b, C-SKILL-67.
    """
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if text.startswith("/") or is_too_long(parts) or any(has_bad_form(part) for part in parts):
        raise Refused("traversal")
    if any(part in forbidden for part in parts):
        raise Refused("forbidden")
    if not parts:
        raise Refused("not_found")
    return parts


def has_bad_form(part: str) -> bool:
    """Whether a component is no plain name on every file system."""
    return part == ".." or any(letter in "\\:" or unicodedata.category(letter) in ("Cc", "Cs") for letter in part)


def is_too_long(parts: tuple[str, ...], path_bytes: int = PATH_BYTES) -> bool:
    """Whether a path or one of its components is longer than file systems bear."""
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    return sum(sizes) + len(sizes) - 1 > path_bytes or any(size > COMPONENT_BYTES for size in sizes)
