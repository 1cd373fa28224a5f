"""Which media types are text; Computer and Agent decide it the same way (C-SKILL-71). Pure."""

from __future__ import annotations

from typing import Final

_TEXT: Final = frozenset(
    {
        "application/json",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/javascript",
    }
)
_TEXT_SUFFIXES: Final = ("+json", "+xml", "+yaml")


def is_text(mime_type: str) -> bool:
    """Whether content of this type is text; parameters after `;` do not matter."""
    essence = mime_type.partition(";")[0].strip().lower()
    return essence.startswith("text/") or essence.endswith(_TEXT_SUFFIXES) or essence in _TEXT
