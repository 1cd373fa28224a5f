"""Skills on the wire: references to active skills, and one file of one of them (01 §6.7)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from .base import ComputerRequest, Int64, Structure

SKILL_ENTRY = "SKILL.md"
"""The file that is meant when a request names none."""


class GetSkillsReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_skills`."""


class A2CSkillRef(Structure, frozen=True, kw_only=True):
    """One active skill. The four mandatory fields are always sent, the others only when known (C-SKILL-7)."""

    name: str
    source: str
    path: str
    description: str
    uri: str | UnsetType = UNSET
    license: str | UnsetType = UNSET
    compatibility: str | UnsetType = UNSET
    allowed_tools: tuple[str, ...] | UnsetType = UNSET
    tags: tuple[str, ...] | UnsetType = UNSET
    skill_metadata: dict[str, Any] | UnsetType = UNSET
    version: str | UnsetType = UNSET


class GetSkillsRet(Structure, frozen=True, kw_only=True):
    """All active skills in a stable order (C-SKILL-57)."""

    skills: tuple[A2CSkillRef, ...]
    req_id: str


class GetSkillReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_skill`; `rel_path` is a relative POSIX path, `SKILL.md` when absent or empty (C-SKILL-61)."""

    name: str
    rel_path: str | UnsetType = UNSET


class GetSkillRet(Structure, frozen=True, kw_only=True):
    """One file of a skill: its text in `body`, or a handle for its bytes; exactly one of the two (C-SKILL-64)."""

    name: str
    rel_path: str
    mime_type: str
    sha256: str
    total_size: Int64
    body: str | UnsetType = UNSET
    blob_handle: str | UnsetType = UNSET
    req_id: str
