"""What an approval was given for: the part of an entry that decides what is run (DEC-14, DEC-32). Pure.

Values under `env` and `headers` are left out: a rotated secret is no new server, and no
secret may get near a file. Their names count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..config.masking import mask_url
from ..config.server_entry import ServerEntry


def shape_of(entry: ServerEntry) -> dict[str, Any]:
    """The raw fields a fingerprint is made of; those the transport does not have are null."""
    raw = entry.parameters
    return {
        "type": entry.type,
        "command": raw.get("command"),
        "args": raw.get("args"),
        "url": raw.get("url"),
        "cwd": raw.get("cwd"),
        "envFile": entry.env_file,
        "env": sorted(raw.get("env") or ()),
        "headers": sorted(raw.get("headers") or ()),
    }


def fingerprint_of(entry: ServerEntry) -> str:
    """`sha256:` and 64 hex digits over the compact, key-sorted JSON of the shape."""
    text = json.dumps(shape_of(entry), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def shown_shape(entry: ServerEntry) -> dict[str, Any]:
    """The shape as it may be kept and shown: what is literal in a URL's user-info and query is masked."""
    shape = shape_of(entry)
    return shape if shape["url"] is None else {**shape, "url": mask_url(shape["url"])}


def differences(approved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each field that is not as it was approved; both are shown shapes."""
    lines = []
    for field in now:
        before, after = approved.get(field), now[field]
        if (before or None) == (after or None):
            continue
        lines.append(f"{field}: {_words(before)} -> {_words(after)}")
    return tuple(lines)


def _words(value: Any) -> str:
    return "nothing" if value in (None, "", []) else json.dumps(value, ensure_ascii=False)
