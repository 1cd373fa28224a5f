"""One server's `tools/list` as this runtime reads it: item by item, schemas untouched.

A tool that cannot be understood costs itself, never the list (DEC-6). Schemas stay raw
JSON from the server to the Agent.
"""

from __future__ import annotations

from typing import Any

import msgspec


class ListedTool(msgspec.Struct):
    """One item of a listing, by MCP's own field names. Unknown members are ignored."""

    name: str
    input_schema: msgspec.Raw = msgspec.field(name="inputSchema")
    description: str | None = None
    raw_output_schema: msgspec.Raw = msgspec.field(name="outputSchema", default=msgspec.Raw(b"null"))
    annotations: dict[str, Any] | None = None
    native_meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)

    @property
    def output_schema(self) -> msgspec.Raw | None:
        """The schema of its structured results, if it has one."""
        return None if bytes(self.raw_output_schema) == b"null" else self.raw_output_schema

    @property
    def repeatable(self) -> bool:
        """Whether the server says that a second execution does no harm (DEC-10)."""
        hints = self.annotations or {}
        return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


class _Named(msgspec.Struct):
    name: Any = None


_decode_list = msgspec.json.Decoder(list[ListedTool]).decode
_decode_raw = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_one = msgspec.json.Decoder(ListedTool).decode
_decode_name = msgspec.json.Decoder(_Named).decode


def read_listing(listing: bytes) -> tuple[list[ListedTool], list[str]]:
    """The tools of a listing in its order, and a note for each item set aside.

    Args:
        listing: JSON array of MCP tools.
    Raises:
        msgspec.DecodeError: The text is not a JSON array.
    """
    notes: list[str] = []
    try:
        tools = _decode_list(listing)
    except msgspec.ValidationError:
        tools, notes = _read_one_by_one(listing)
    kept = []
    for tool in tools:
        fault = _fault(tool)
        if fault:
            notes.append(f"tool {tool.name!r} set aside: {fault}")
        else:
            kept.append(tool)
    return kept, notes


def _read_one_by_one(listing: bytes) -> tuple[list[ListedTool], list[str]]:
    tools: list[ListedTool] = []
    notes: list[str] = []
    for position, item in enumerate(_decode_raw(listing)):
        try:
            tools.append(_decode_one(item))
        except msgspec.ValidationError as error:
            notes.append(f"tool {_name_of(item, position)} set aside: {error}")
    return tools, notes


def _fault(tool: ListedTool) -> str | None:
    if not tool.name:
        return "empty name"
    if not bytes(tool.input_schema).startswith(b"{"):
        return "inputSchema is not an object"
    if tool.output_schema is not None and not bytes(tool.output_schema).startswith(b"{"):
        return "outputSchema is not an object"
    return None


def _name_of(item: msgspec.Raw, position: int) -> str:
    try:
        name = _decode_name(item).name
    except msgspec.ValidationError:
        name = None
    return repr(name) if isinstance(name, str) else f"number {position + 1}"
