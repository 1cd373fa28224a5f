"""MCP server configuration in its canonical form (01 §6.4): one struct per transport, every field on the wire.

An official Server drops a reply that lacks a field, so none is ever omitted (W-CFG-5).
Files may spell things differently; the tables of accepted spellings are here, reading
whole files with findings is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from .base import NonEmpty, Structure, convert
from .durations import format_duration, parse_duration
from .errors import InvalidPayload

TRANSPORT_SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        "stdio": "stdio",
        "STDIO": "stdio",
        "Stdio": "stdio",
        "sse": "sse",
        "SSE": "sse",
        "Sse": "sse",
        "streamable": "streamable",
        "http": "streamable",
        "HTTP": "streamable",
        "streamable-http": "streamable",
        "streamable_http": "streamable",
        "streamableHttp": "streamable",
    }
)
"""Accepted spellings of `type`, to the one that is written (03 §4.2)."""

FIELD_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "bundleId": "bundle_id",
        "forbiddenTools": "forbidden_tools",
        "toolMeta": "tool_meta",
        "defaultToolMeta": "default_tool_meta",
        "env_file": "envFile",
        "healthCheck": "health_check",
        "reconnectPolicy": "reconnect",
        "serverParameters": "server_parameters",
    }
)
"""Accepted spellings of server fields, to the one that is written (03 §4.2)."""

LOCAL_KEYS = frozenset({"envFile", "oauth", "health_check", "reconnect"})
"""Fields of a server entry that never leave the Computer (W-CFG-3, R-PROJ-2)."""


class StdioParameters(Structure, frozen=True, kw_only=True):
    """How to launch a child process that speaks MCP on its standard streams."""

    command: NonEmpty
    args: tuple[str, ...] = ()
    env: dict[str, str] | None = None
    cwd: str | None = None
    encoding: str = "utf-8"
    encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict"


class StreamableParameters(Structure, frozen=True, kw_only=True):
    """A streamable HTTP endpoint. Both times are ISO-8601 durations (W-CFG-12)."""

    url: NonEmpty
    headers: dict[str, str] | None = None
    timeout: str = "PT30S"
    sse_read_timeout: str = "PT5M"
    terminate_on_close: bool = True


class SseParameters(Structure, frozen=True, kw_only=True):
    """An endpoint of the older SSE transport. Both times are seconds."""

    url: NonEmpty
    headers: dict[str, str] | None = None
    timeout: float = 5.0
    sse_read_timeout: float = 300.0


class _Server(Structure, frozen=True, kw_only=True, tag_field="type"):
    """What every server has. `name` is display text, `bundle_id` the identity (R-MCP-5)."""

    transport: ClassVar[Literal["stdio", "streamable", "sse"]]

    name: str
    bundle_id: str | None = None
    disabled: bool = False
    forbidden_tools: tuple[str, ...] = ()
    tool_meta: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    default_tool_meta: dict[str, Any] | None = None
    vrl: str | None = None


class StdioServer(_Server, frozen=True, kw_only=True, tag="stdio"):
    """A server the Computer launches."""

    transport: ClassVar[Literal["stdio"]] = "stdio"
    server_parameters: StdioParameters


class StreamableServer(_Server, frozen=True, kw_only=True, tag="streamable"):
    """A server reached over streamable HTTP."""

    transport: ClassVar[Literal["streamable"]] = "streamable"
    server_parameters: StreamableParameters


class SseServer(_Server, frozen=True, kw_only=True, tag="sse"):
    """A server reached over SSE."""

    transport: ClassVar[Literal["sse"]] = "sse"
    server_parameters: SseParameters


MCPServer: TypeAlias = StdioServer | StreamableServer | SseServer


def read_server(value: object, *, name: str | None = None) -> MCPServer:
    """One server entry, canonical: spellings settled, durations as ISO-8601, defaults filled in.

    Args:
        value: A native entry. Local keys (`LOCAL_KEYS`) and unknown ones are dropped; whether that is a
            finding is the caller's rule (W-CFG-13).
        name: Display name when the entry has none; the key of its map.
    Raises:
        InvalidPayload: A field is missing or has another type.
    Spec: W-CFG-10, W-CFG-11, W-CFG-12.
    """
    entry = {FIELD_ALIASES.get(key, key): item for key, item in convert(dict[str, Any], value).items()}
    if entry.get("name") is None and name is not None:
        entry["name"] = name
    entry["type"] = _transport(entry)
    parameters = entry.get("server_parameters")
    if entry["type"] == "streamable" and isinstance(parameters, Mapping):
        entry["server_parameters"] = _with_durations(parameters)
    server: MCPServer = convert(MCPServer, entry)
    return server


def _transport(entry: Mapping[str, Any]) -> str:
    given = entry.get("type")
    if given is None:
        parameters = entry.get("server_parameters")
        if isinstance(parameters, Mapping) and "command" in parameters:
            return "stdio"
        raise InvalidPayload("type", "one of stdio, streamable, sse")
    known = TRANSPORT_SPELLINGS.get(given) if isinstance(given, str) else None
    if known is None:
        raise InvalidPayload("type", "one of stdio, streamable, sse")
    return known


def _with_durations(parameters: Mapping[str, Any]) -> dict[str, Any]:
    settled = dict(parameters)
    for field in ("timeout", "sse_read_timeout"):
        if settled.get(field) is None:
            continue
        try:
            settled[field] = format_duration(parse_duration(settled[field]))
        except ValueError:
            raise InvalidPayload(f"server_parameters.{field}", "ISO-8601 duration or seconds") from None
    return settled
