"""The skill channel: packages of instructions and files from the user, from plugins and from MCP servers."""

from .actor import SkillActor
from .projection import LastList
from .settings import SkillSettings
from .skillenv import script_environment

__all__ = ["LastList", "SkillActor", "SkillSettings", "script_environment"]
