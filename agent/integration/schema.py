"""Parameter schemas as model providers take them. Pure.

MCP allows any JSON schema; providers insist on an object with properties and no choice
at its top. What cannot be said there is told to the model in the description instead:
the server that runs the tool still checks its own schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...wire.base import to_json

_REFUSED_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
_NOISE = ("$schema", "$id")


def parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An object schema with `properties`, without what providers refuse at the top."""
    kept = {name: value for name, value in schema.items() if name not in (*_REFUSED_AT_TOP, *_NOISE)}
    properties = kept.get("properties")
    return kept | {"type": "object", "properties": dict(properties) if isinstance(properties, Mapping) else {}}


def description(text: str, schema: Mapping[str, Any], limit: int | None = None) -> str:
    """What the tool does, and the conditions its parameters lost; at most `limit` characters."""
    lost = {name: schema[name] for name in _REFUSED_AT_TOP if name in schema}
    if lost:
        text = f"{text}\n\nThe arguments must also satisfy this JSON schema: {to_json(lost).decode()}".strip()
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1]}…"
