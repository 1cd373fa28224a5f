"""Exposed tool names: how they are built. How they are read is a table, never a split (01 §7.4)."""

from __future__ import annotations

from .protocol import NAME_SEPARATOR


def exposed_name(bundle_id: str, original: str, alias: str | None = None) -> str:
    """The name an Agent calls a tool by: always with the server's identity in front (W-EXP-1, R-MCP-15)."""
    return f"{bundle_id}{NAME_SEPARATOR}{alias or original}"


def is_forbidden(forbidden: frozenset[str], bundle_id: str, original: str, alias: str | None = None) -> bool:
    """Whether a tool is named in `forbidden_tools` by its original name, its alias, or its exposed name (W-CALL-6)."""
    if not forbidden:
        return False
    if original in forbidden or (alias is not None and alias in forbidden):
        return True
    return exposed_name(bundle_id, original, alias) in forbidden
