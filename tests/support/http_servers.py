"""MCP servers of the fixtures over streamable HTTP, each a process of its own."""

from __future__ import annotations

import sys
from typing import Any

from .peers import Peers


async def over_http(peers: Peers, name: str, **more: Any) -> dict[str, Any]:
    """The entry of a server of `fixtures/servers` that listens on a port of its own; its process ends with the test."""
    peer = peers.start([sys.executable, "-m", f"smcp_runtime.fixtures.servers.{name}", "--transport", "streamable"])
    url = (await peer.line(r"^ready url=(\S+)", timeout=20))[1]
    return {
        "name": name,
        "type": "streamable",
        "server_parameters": {"url": url},
        "default_tool_meta": {"auto_apply": True},
        **more,
    }
