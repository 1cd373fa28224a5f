"""Writes, or reads, the files of a user and a project with the official SDK. Run by its interpreter, in the project.

home.py write       makes settings, declarations, approvals and a stored value
home.py read        prints what the SDK makes of the files there are, as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from a2c_smcp.computer.inputs.value_store import ValueStore
from a2c_smcp.computer.settings.mcp_config import (
    McpWriteScope,
    approve_mcp_server,
    deny_mcp_server,
    gate_mcp_servers,
    resolve_mcp_config,
    upsert_mcp_server,
)
from a2c_smcp.computer.settings.scope import apply_write, resolve_settings, user_settings_path
from a2c_smcp.computer.settings.store import atomic_write_json


def write() -> None:
    body = {"type": "stdio", "server_parameters": {"command": "echo", "args": ["${input:region}"]}}
    for name, scope in (
        ("user_srv", McpWriteScope.USER),
        ("approved_srv", McpWriteScope.PROJECT),
        ("denied_srv", McpWriteScope.PROJECT),
        ("open_srv", McpWriteScope.PROJECT),
        ("local_srv", McpWriteScope.LOCAL),
    ):
        upsert_mcp_server(name, body, scope=scope)
    approve_mcp_server("approved_srv")
    deny_mcp_server("denied_srv")
    path = user_settings_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {
        "extraKnownMarketplaces": {"acme": {"source": {"type": "git", "url": "https://h/m.git"}, "autoUpdate": False}},
        "installedPlugins": [],
        "enabledPlugins": {"audit@acme": False},
        "landingRoot": "/srv/landing",
        "permissions": {"additionalDirectories": ["/srv/more"]},
    }
    atomic_write_json(path, apply_write({}, fields))
    ValueStore().set("region", "eu")


def read() -> None:
    settings = resolve_settings(cwd=Path.cwd())
    servers = resolve_mcp_config(cwd=Path.cwd(), managed_mcp_path=Path("/nowhere"))
    statuses = gate_mcp_servers(servers, settings=settings.settings)
    print(
        json.dumps(
            {
                "settings": settings.settings,
                "errors": [str(error) for error in (*settings.errors, *servers.errors)],
                "statuses": {name: str(status.value) for name, status in statuses.items()},
                "values": ValueStore().load(),
            }
        )
    )


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]]()
