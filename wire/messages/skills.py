"""What `skills` answers: the registry of skills and the files inside their packages."""

from __future__ import annotations

from typing import Literal

from ..codec import Attachment
from ..message import Ask, Fact, Record
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
    """Scans again, now: the tree of one plugin by its name, or the user roots when none is named."""

    plugin: str | None = None


class RefreshSkills(Ask[None]):
    """Stages the skills of one MCP server again, and replies once that is done (C-SKILL-30)."""

    bundle_id: str


class SkillNote(Record):
    """One diagnostic: which source it is about, the file or URI in it, and what is wrong. Never sent to an Agent."""

    level: Literal["error", "warning", "debug"]
    owner: str
    place: str
    text: str


class SkillState(Record):
    """One registered skill as management sees it. Orphans are invisible to Agents (C-SKILL-56)."""

    name: str
    source: str
    path: str
    description: str
    orphan: bool = False
    version: str | None = None


class SkillStatus(Record):
    """Everything `skills` knows. `staging` are servers whose skills are being staged now."""

    skills: tuple[SkillState, ...]
    notes: tuple[SkillNote, ...] = ()
    staging: tuple[str, ...] = ()
    watching: bool = False


class GetSkillStatus(Ask[SkillStatus]):
    """The registry with its orphans, and the diagnostics that hold; waits for nothing."""

    lane = "control"


class CleanedUp(Record):
    """Directories that were deleted."""

    paths: tuple[str, ...]


class CleanUpSkills(Ask[CleanedUp]):
    """Deletes staged packages whose skill is an orphan or not registered. Only ever on a user's word (C-SKILL-56)."""


class SkillsNoted(Fact):
    """The errors and warnings about skills changed; these hold now."""

    notes: tuple[SkillNote, ...]

    def coalesce_key(self) -> str:
        return "skills"
