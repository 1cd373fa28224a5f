"""What a SKILL.md says of its skill: the fields of its header, checked and made fit to travel. Pure (C-SKILL-45)."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .frontmatter import BLOCK_BYTES, BadFrontmatter, find_block, parse_block

LONG_DESCRIPTION: Final = 1_024
"""Characters beyond which a description is noted."""
_SAFE_INTEGER: Final = 2**63

Level = Literal["error", "warning", "debug"]
Say = Callable[[Level, str], None]
"""Takes a diagnostic: how bad it is, and what."""


class Manifest(msgspec.Struct, frozen=True):
    """The fields of a header. `name` is `None` where there is none that is text or a number."""

    description: str
    name: str | None = None
    license: str | UnsetType = UNSET
    compatibility: str | UnsetType = UNSET
    allowed_tools: tuple[str, ...] | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


def read_manifest(head: bytes, say: Say, block_bytes: int = BLOCK_BYTES) -> Manifest:
    """The manifest in the first bytes of a SKILL.md.

    Args:
        head: At least `frontmatter.head_bytes()` bytes, or the whole file.
    Raises:
        BadFrontmatter: There is no header, it cannot be read, or it lacks a description.
    Spec: C-SKILL-43…46.
    """
    block = find_block(head, block_bytes)
    if isinstance(block, str):
        raise BadFrontmatter(block)
    fields = parse_block(block)
    description = _text(fields.get("description"))
    if description is None or not description.strip():
        raise BadFrontmatter("description: missing, empty or no text")
    if len(description) > LONG_DESCRIPTION:
        say("warning", f"description: longer than {LONG_DESCRIPTION} characters")
    manifest = Manifest(
        description=description,
        name=_text(fields.get("name")),
        license=_any_text(fields.get("license")),
        compatibility=_any_text(fields.get("compatibility")),
        allowed_tools=_allowed_tools(fields),
        tags=_tags(fields, say),
        metadata=_metadata(fields.get("metadata"), say),
    )
    _check_unicode(manifest)
    return manifest


def _text(value: Any) -> str | None:
    """Text as it is, numbers as their decimal text, `None` for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def _any_text(value: Any) -> str | UnsetType:
    return UNSET if value is None else _plain_text(value)


def _plain_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.date | datetime.datetime) else str(value)


def _allowed_tools(fields: Mapping[Any, Any]) -> tuple[str, ...] | UnsetType:
    value = fields["allowed-tools"] if "allowed-tools" in fields else fields.get("allowed_tools")
    if value is None:
        return UNSET
    return tuple(_plain_text(item) for item in value) if isinstance(value, list) else (_plain_text(value),)


def _tags(fields: Mapping[Any, Any], say: Say) -> tuple[str, ...] | UnsetType:
    value = fields.get("tags")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if "tags" in fields:
        say("debug", "tags: left out, they are no list of text")
    return UNSET


def _metadata(value: Any, say: Say) -> dict[str, Any] | UnsetType:
    if isinstance(value, dict):
        return _json_safe_mapping(value, say)
    if value is not None:
        say("debug", "metadata: left out, it is no mapping")
    return UNSET


def _json_safe_mapping(value: Mapping[Any, Any], say: Say) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, bytes) or (isinstance(item, float) and not math.isfinite(item)):
            say("debug", "metadata: a value that JSON cannot hold is left out")
        else:
            kept[_plain_text(key)] = _json_safe(item, say)
    return kept


def _json_safe(value: Any, say: Say) -> Any:
    if isinstance(value, dict):
        return _json_safe_mapping(value, say)
    if isinstance(value, list | tuple | set):
        items = sorted(value, key=str) if isinstance(value, set) else value
        return list(_json_safe_mapping(dict(enumerate(items)), say).values())
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    if isinstance(value, int) and not isinstance(value, bool) and not -_SAFE_INTEGER <= value < _SAFE_INTEGER:
        return str(value)
    return value


def _check_unicode(manifest: Manifest) -> None:
    try:
        msgspec.json.encode(manifest)
    except (UnicodeEncodeError, TypeError, ValueError, OverflowError):
        raise BadFrontmatter("a value cannot be written as Unicode text") from None
