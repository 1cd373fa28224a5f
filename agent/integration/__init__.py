"""Between an office and a model: names, schemas, calls and results in the shapes of model providers.

`openai` and `anthropic` are modules of plain functions over a `Toolset`; neither needs the provider's SDK.
"""

from . import anthropic, openai
from .names import ANTHROPIC_NAME_MAX, OPENAI_NAME_MAX, ToolKey, ToolNames
from .parts import File, Image, Part, Text, parts
from .toolset import ModelCall, ModelTool, Toolset

__all__ = [
    "ANTHROPIC_NAME_MAX",
    "OPENAI_NAME_MAX",
    "File",
    "Image",
    "ModelCall",
    "ModelTool",
    "Part",
    "Text",
    "ToolKey",
    "ToolNames",
    "Toolset",
    "anthropic",
    "openai",
    "parts",
]
