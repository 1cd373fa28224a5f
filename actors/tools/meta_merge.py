"""Tool metadata: the three layers merged, and the form they take in `SMCPTool.meta`.

Layers, strongest first: `tool_meta[<original name>]`, `default_tool_meta`, and what the
server itself declared (tags only). Decisions that guard execution read the configured
layers alone, so a server can never grant itself anything (W-META-17).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...wire.protocol import META_KEY_ANNOTATIONS, META_KEY_TOOL_META

_FIELDS = ("auto_apply", "alias", "tags", "ret_object_mapper")
_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

JsonObject = Mapping[str, Any]


class Declared(msgspec.Struct, frozen=True):
    """What a server said about one of its tools: its tags, or that the declaration is malformed (W-META-11, -12)."""

    tags: tuple[str, ...] | None = None
    present: bool = False
    malformed: bool = False


def declared(native_meta: JsonObject) -> Declared:
    """Reads the declaration out of a tool's own `_meta`; presence of the key decides, an explicit null is malformed."""
    if META_KEY_TOOL_META not in native_meta:
        return Declared()
    declaration = native_meta[META_KEY_TOOL_META]
    if not isinstance(declaration, Mapping):
        return Declared(malformed=True)
    tags = declaration.get("tags")
    if tags is None:
        return Declared(present=True)
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        return Declared(malformed=True)
    return Declared(tags=tuple(tags), present=True)


def configured(specific: JsonObject | None, default: JsonObject | None) -> dict[str, Any] | None:
    """The two configured layers as one ToolMeta, or `None` when neither exists.

    Root fields only, first non-null wins. `alias` comes from the specific layer alone, since a
    default alias would give every tool of the server one name (W-META-13, -14).
    """
    if specific is None and default is None:
        return None
    merged: dict[str, Any] = {name: value for name, value in (default or {}).items() if value is not None}
    merged.pop("alias", None)
    merged.update({name: value for name, value in (specific or {}).items() if value is not None})
    return _ordered(merged)


def merged(config: Mapping[str, Any] | None, declaration: Declared) -> dict[str, Any] | None:
    """The ToolMeta shown to Agents, or `None` for no key at all (W-META-15, -16)."""
    if config is None:
        return _ordered({"tags": _tags(declaration)}) if declaration.present else None
    if config["tags"] is None and declaration.tags is not None:
        return {**config, "tags": _tags(declaration)}
    return dict(config)


def wire_meta(native_meta: JsonObject, annotations: JsonObject | None, tool_meta: JsonObject | None) -> dict[str, Any]:
    """`SMCPTool.meta`: the server's own keys in flat form, then ours as JSON strings (W-META-1 … W-META-4).

    Keys come out sorted, so that the same tool gives the same bytes whatever order the server used.
    """
    flat = {
        key: _flat(value)
        for key, value in native_meta.items()
        if value is not None and key not in (META_KEY_TOOL_META, META_KEY_ANNOTATIONS)
    }
    if tool_meta is not None:
        flat[META_KEY_TOOL_META] = _text(tool_meta)
    if annotations is not None:
        known = {name: annotations.get(name) for name in _HINTS}
        flat[META_KEY_ANNOTATIONS] = _text({**known, **annotations})
    return dict(sorted(flat.items()))


def _ordered(fields: JsonObject) -> dict[str, Any]:
    known = {name: fields.get(name) for name in _FIELDS}
    return {**known, **{name: fields[name] for name in sorted(fields) if name not in known}}


def _tags(declaration: Declared) -> list[str] | None:
    return None if declaration.tags is None else list(declaration.tags)


def _flat(value: Any) -> Any:
    """The value if an Agent's validator takes it (scalar, or list of one kind of scalar), else its JSON text."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list) and len({_kind(item) for item in value}) <= 1 and all(_kind(item) for item in value):
        return value
    return _text(value)


def _kind(item: Any) -> str:
    if isinstance(item, bool):
        return "boolean"
    if isinstance(item, str):
        return "string"
    return "number" if isinstance(item, int | float) else ""


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
