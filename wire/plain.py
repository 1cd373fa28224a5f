"""Structs as JSON objects: what people and other programs read, while the bus writes them as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .codec import Attachment


def plain(value: Any) -> Any:
    """Structs as objects by field name, at any depth, and attachments as the JSON they hold; all else as it is."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Attachment):
        return msgspec.json.decode(value.data)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
