"""Where each scope keeps its pair of files (03 §3.2). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from ..config.directories import Directories
from ..server_set import Origin

WritableScope = Literal["user", "project", "local"]
WRITABLE: tuple[WritableScope, ...] = ("user", "project", "local")
"""Scopes that management may write to, lowest first."""

PROJECT_FOLDER = ".tfrobot"
MANAGED_MCP = "managed-mcp.json"
MANAGED_SETTINGS = "managed-settings.json"
MANAGED_DROP_INS = "managed-settings.d"


class FilePair(msgspec.Struct, frozen=True):
    """The two files of a scope."""

    settings: Path
    mcp: Path


class Places(msgspec.Struct, frozen=True):
    """The files of a run: those people own, by scope, and the administrator's directory."""

    pairs: Mapping[Origin, FilePair]
    managed: Path
    state: Path

    def settings(self, scope: WritableScope) -> Path:
        """The settings file of a scope."""
        return self.pairs[scope].settings

    def mcp(self, scope: WritableScope) -> Path:
        """The declaration file of a scope."""
        return self.pairs[scope].mcp


def places_of(directories: Directories, project_root: str | Path) -> Places:
    """The files of a run."""
    project = Path(project_root) / PROJECT_FOLDER
    return Places(
        {
            "user": FilePair(directories.user_config / "settings.json", directories.user_config / "mcp.json"),
            "project": FilePair(project / "settings.json", project / "mcp.json"),
            "local": FilePair(project / "settings.local.json", project / "mcp.local.json"),
        },
        directories.managed,
        directories.state,
    )
