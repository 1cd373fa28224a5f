"""What `skills` answers: the registry of skills and the files inside their packages."""

from __future__ import annotations

from ..codec import Attachment
from ..message import Ask, Record
from .channels import ResourceSlice
from .tools import Applied


class PluginSkills(Record):
    """The skills one enabled plugin contributes: its containers are directories inside `root` (C-SKILL-52)."""

    plugin: str
    marketplace: str
    root: str
    containers: tuple[str, ...]
    version: str | None = None


class ApplySkills(Ask[Applied]):
    """Replaces the slice of commit `number`: servers that may stage skills, plugins in installed order, user roots.

    `known` are the bundle_ids of the configuration: skills of others are unregistered, not orphaned (C-SKILL-56).
    """

    lane = "control"
    number: int
    servers: tuple[ResourceSlice, ...] = ()
    plugins: tuple[PluginSkills, ...] = ()
    roots: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class SkillList(Record):
    """`skills` is the JSON array of A2CSkillRef, encoded when the registry last changed."""

    skills: Attachment


class ListSkills(Ask[SkillList]):
    """Active skills in discovery order; waits for nothing (C-SKILL-57)."""


class SkillFile(Record):
    """`fields` is the GetSkillRet as JSON without `req_id`."""

    fields: Attachment


class GetSkillFile(Ask[SkillFile]):
    """One `client:get_skill`. Raises `PeerError` with a 4016, 4014 or 4017 payload."""

    name: str
    rel_path: str | None = None


class RescanSkills(Ask[None]):
    """Scans the user roots again, now."""
