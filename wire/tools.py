"""Tools on the wire: listing, calling, and the metadata that decides how a tool may be used (01 §6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .base import ComputerRequest, NonEmpty, Structure, convert
from .protocol import TOOL_TIMEOUT_MAX, TOOL_TIMEOUT_MIN

ToolTimeout = Annotated[int, Meta(ge=TOOL_TIMEOUT_MIN, le=TOOL_TIMEOUT_MAX)]


class ToolCallReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:tool_call`: the exposed name, the arguments, and the limit in whole seconds (W-CALL-4)."""

    whole_numbers: ClassVar[frozenset[str]] = frozenset({"timeout"})

    tool_name: str
    params: dict[str, Any]
    timeout: ToolTimeout


class GetToolsReq(ComputerRequest, frozen=True, kw_only=True):
    """`client:get_tools`."""


class SMCPTool(Structure, frozen=True, kw_only=True):
    """One tool as an Agent sees it. `bundle_id` is the only way to attribute it; the name is opaque."""

    name: str
    bundle_id: NonEmpty
    description: str = ""
    params_schema: dict[str, Any]
    return_schema: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(default_factory=dict)


class GetToolsRet(Structure, frozen=True, kw_only=True):
    """The committed tool list, ordered by exposed name (W-EXP-6)."""

    tools: tuple[SMCPTool, ...]
    req_id: str


class ToolMeta(Structure, frozen=True, kw_only=True):
    """What configuration says about a tool. Every other key is kept in `extra` and passed on (R-MCP-12)."""

    auto_apply: bool | None = None
    alias: str | None = None
    tags: tuple[str, ...] | None = None
    ret_object_mapper: dict[str, Any] | None = None
    extra: dict[str, Any] | UnsetType = UNSET

    @classmethod
    def read(cls, value: object) -> ToolMeta:
        """The metadata in a JSON object.

        Raises:
            InvalidPayload: Not an object, or one of the four known members has another type.
        """
        raw = convert(dict[str, Any], value)
        known = {name: raw[name] for name in _KNOWN if name in raw}
        extra = {name: item for name, item in raw.items() if name not in _KNOWN}
        meta: ToolMeta = convert(cls, known)
        return msgspec.structs.replace(meta, extra=extra) if extra else meta

    def to_dict(self) -> dict[str, Any]:
        """All four members, null ones included, then the extras: the form of `a2c_tool_meta` (W-META-2)."""
        members: dict[str, Any] = {name: msgspec.to_builtins(getattr(self, name)) for name in _KNOWN}
        if self.tags is not None:
            members["tags"] = list(self.tags)
        return members | ({} if self.extra is UNSET else self.extra)


_KNOWN = ("auto_apply", "alias", "tags", "ret_object_mapper")


def read_meta_member(meta: Mapping[str, Any] | None, key: str) -> dict[str, Any] | None:
    """An object that may be stored as JSON text, such as `a2c_tool_meta`; `None` if it is none (W-META-5)."""
    value = None if meta is None else meta.get(key)
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (ValueError, RecursionError):
            return None
    return dict(value) if isinstance(value, Mapping) else None
