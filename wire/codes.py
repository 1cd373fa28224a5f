"""The table of protocol error codes (01 §9.2) as data: who carries them, with which fields, and with what text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

Carrier = Literal["http", "connect_error", "a1", "a2", "meta", "local"]


class Code(msgspec.Struct, frozen=True):
    """One row.

    Attributes:
        slug: Stable word for `SmcpError.code`.
        carriers: Where the code may appear; `local` for one that never travels.
        extras: Fields beside the code at top level.
        details: Keys of `details`.
        survives: Whether an official Server relays it (W-REL-3).
        message: Default text where it is not the name.
    """

    code: int
    name: str
    slug: str
    carriers: frozenset[Carrier]
    extras: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    survives: bool = False
    message: str = ""


def _row(code: int, name: str, carriers: str, **rest: object) -> Code:
    slug = name.lower().replace(" ", "_")
    row = {"code": code, "name": name, "slug": slug, "carriers": carriers.split(), **rest}
    return msgspec.convert(row, Code)


_URI = ("uri",)
_URI_REASON = ("uri", "reason")
_VERSIONS = ("server_version", "client_version", "min_supported", "max_supported")

_TABLE = (
    _row(400, "Bad Request", "http a1 a2 meta", details=("field", "expected")),
    _row(401, "Unauthorized", "connect_error"),
    _row(403, "Forbidden", "a1 a2", details=("reason",)),
    _row(404, "Not Found", "a1", details=("computer_name",), survives=True, message="Computer not found"),
    _row(408, "Timeout", "a1", message="Computer did not answer in time"),
    _row(500, "Internal Error", "a1 a2"),
    _row(4001, "Tool Not Found", "meta", message="Tool not found"),
    _row(4002, "Tool Disabled", "meta", message="Tool is disabled"),
    _row(4003, "Tool Execution Failed", "meta", message="Tool execution failed"),
    _row(4004, "Tool Timeout", "meta", message="Tool call timed out"),
    _row(4005, "Tool Requires Confirmation", "meta", message="Tool call was not confirmed"),
    _row(
        4006,
        "Tool Authorization Required",
        "meta a1",
        extras=("mcp_server",),
        survives=True,
        message="MCP Server requires authorization",
    ),
    _row(
        4007,
        "Tool Authorization Failed",
        "meta a1",
        extras=("mcp_server",),
        survives=True,
        message="MCP Server refused the authorization",
    ),
    _row(
        4008, "Protocol Version Mismatch", "http", extras=_VERSIONS, survives=True, message="Protocol version mismatch"
    ),
    _row(4011, "DPE Resolver Not Configured", "a1", extras=_URI),
    _row(4012, "Invalid DPE URI", "a1", extras=_URI_REASON),
    _row(4013, "DPE Resolution Failed", "a1", extras=_URI_REASON),
    _row(
        4014,
        "MCP Server Not Found",
        "a1",
        extras=("mcp_server",),
        details=("name", "reason"),
        survives=True,
        message="MCP Server not registered",
    ),
    _row(
        4015,
        "MCP Capability Not Supported",
        "a1",
        extras=("mcp_server", "capability"),
        survives=True,
        message="MCP Server does not support 'resources' capability",
    ),
    _row(4016, "Invalid Skill Name", "a1", details=("name",), survives=True, message="Invalid skill name"),
    _row(
        4017,
        "Skill Resource Not Accessible",
        "a1",
        details=("reason", "rel_path", "total_size"),
        survives=True,
        message="Skill resource not accessible",
    ),
    _row(
        4018,
        "Blob Not Accessible",
        "a1",
        details=("reason", "total_size"),
        survives=True,
        message="Blob not accessible",
    ),
    _row(
        4019,
        "Blob Write Failed",
        "a1",
        details=("reason", "upload_id", "total_size"),
        survives=True,
        message="Blob write failed",
    ),
    _row(4101, "Room Full", "a2", message="Room already has an agent"),
    _row(4102, "Room Not Found", "a2", message="Room not found"),
    _row(4103, "Not In Room", "a1 a2", message="Not in room"),
    _row(4104, "Cross Room Access", "a1 a2", message="Cross room access denied"),
    _row(4201, "Document Not Found", "a1", extras=("uri", "doc_ref")),
    _row(4202, "Page Out of Range", "a1", extras=("uri", "doc_ref", "page", "page_count")),
    _row(4203, "Element Not Found", "a1", extras=("uri", "doc_ref", "element_id")),
    _row(4204, "Invalid DPE URI", "local", extras=_URI_REASON),
)

CODES: Mapping[int, Code] = MappingProxyType({row.code: row for row in _TABLE})
"""Every code by number. 4900 is a WebSocket close code and not here (W-HS-25)."""

REASONS: Mapping[int, frozenset[str]] = MappingProxyType(
    {
        4017: frozenset({"traversal", "forbidden", "not_found", "too_large"}),
        4018: frozenset({"invalid_handle", "forbidden", "gone", "range"}),
        4019: frozenset({"forbidden", "invalid_declaration", "too_large", "range", "busy", "io_error"})
        | frozenset({"invalid_upload", "integrity"}),
    }
)
"""The reasons of codes that always have one; peers may know more (C-GEN-4, W-ERR-7)."""


def message_of(code: int) -> str:
    """The default text of a code; a general one for a code outside the table."""
    row = CODES.get(code)
    return (row.message or row.name) if row is not None else f"Error {code}"
