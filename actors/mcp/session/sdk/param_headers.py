"""HTTP headers that mirror tool arguments: newer servers mark them in their schemas, older ones have none."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map

from ..listing import Listing

logger = logging.getLogger(__name__)

MARK = b'"x-mcp-header"'


class _Tool(msgspec.Struct):
    name: str
    inputSchema: dict[str, Any]


class ParamHeaders:
    """The header maps of the tools as last listed."""

    def __init__(self) -> None:
        self._maps: dict[str, Mapping[tuple[str, ...], str]] = {}

    def absorb(self, listing: Listing) -> None:
        """Learns the maps of a complete listing; a tool whose marks are invalid is set aside, as the protocol asks."""
        self._maps.clear()
        for item in list(listing.items()):
            if MARK not in bytes(item):
                continue
            tool = msgspec.json.decode(item, type=_Tool)
            reason = find_invalid_x_mcp_header(tool.inputSchema)
            if reason is not None:
                listing.set_aside(item, f"tool {tool.name} set aside: invalid x-mcp-header ({reason})")
            else:
                self._maps[tool.name] = x_mcp_header_map(tool.inputSchema)

    def of(self, tool: str, arguments: bytes) -> dict[str, str]:
        """The headers of one call."""
        found = self._maps.get(tool)
        return mcp_param_headers(found, msgspec.json.decode(arguments)) if found else {}
