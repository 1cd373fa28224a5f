"""The JSON array of `client:get_skills`, encoded once for each state of the registry, within the ack budget. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ...wire.base import to_json
from ...wire.skills import A2CSkillRef

SHORT_DESCRIPTION: Final = 1_024
"""Characters a description is cut to when the list is too large."""


class Listing(msgspec.Struct, frozen=True):
    """`skills` is the JSON array; `note` says what was left out of it."""

    skills: bytes
    note: str | None = None


def encode_list(refs: Sequence[A2CSkillRef], budget: int) -> Listing:
    """The list of the given skills in at most `budget` bytes.

    Spec: C-SKILL-57, C-SKILL-58, C-GEN-7: metadata goes first, then long descriptions, then the last entries.
    """
    items = [to_json(ref) for ref in refs]
    if _size(items) <= budget:
        return Listing(_array(items))
    lean = [replace(ref, skill_metadata=UNSET) for ref in refs]
    items = [to_json(ref) for ref in lean]
    if _size(items) <= budget:
        return Listing(_array(items), "the list of skills is too large: skill_metadata is left out")
    items = [to_json(replace(ref, description=ref.description[:SHORT_DESCRIPTION])) for ref in lean]
    if _size(items) <= budget:
        return Listing(_array(items), "the list of skills is too large: metadata left out, long descriptions cut")
    total = len(items)
    size = _size(items)
    while items and size > budget:
        size -= len(items.pop()) + 1
    return Listing(_array(items), f"the list of skills is too large: the last {total - len(items)} are left out")


def _size(items: Sequence[bytes]) -> int:
    return sum(map(len, items)) + len(items) + 1


def _array(items: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"
