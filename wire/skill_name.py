"""The grammar of SKILL names, whose number of segments says where a SKILL comes from. Pure (C-SKILL-1, C-SKILL-2)."""

from __future__ import annotations

import re
from typing import Final, Literal

SkillKind = Literal["user", "marketplace", "mcp"]

NAME_MAX: Final = 1_024
"""Characters; a longer name is invalid without a look at it."""

_KEBAB = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_BUNDLE = re.compile(r"(?!.*__)[A-Za-z0-9_-]+", re.ASCII)


def skill_kind(name: str) -> SkillKind | None:
    """The kind of SKILL a name belongs to; `None` for a name that breaks the grammar."""
    if len(name) > NAME_MAX:
        return None
    match name.split(":"):
        case [skill] if _KEBAB.fullmatch(skill):
            return "user"
        case [plugin, skill] if _KEBAB.fullmatch(plugin) and _KEBAB.fullmatch(skill):
            return "marketplace"
        case ["mcp", bundle_id, skill] if _BUNDLE.fullmatch(bundle_id) and _KEBAB.fullmatch(skill):
            return "mcp"
    return None
