"""`client:get_config`: the set as an Agent may see it, raw and masked (W-CFG, R-PROJ-2).

Local keys never get in: every field that travels is named here, and the rest does not.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from ....wire.base import to_json
from ..server_set import ServerSet
from .inputs import Definition, project
from .masking import mask_map, mask_url
from .server_entry import ServerEntry

_SSE_DEFAULTS = {"timeout": 5.0, "sse_read_timeout": 300.0}


def project_config(servers: ServerSet, inputs: Iterable[Definition], budget: int) -> tuple[bytes, tuple[str, ...]]:
    """The GetComputerConfigRet of a commit as JSON within `budget` bytes, and a note per server left out of it."""
    entries = {
        bundle_id: to_json(project_server(member.entry))
        for bundle_id, member in sorted(servers.items())
        if member.is_projected
    }
    definitions = to_json([project(definition) for definition in inputs])
    kept, notes = _fit(entries, budget - len(definitions))
    body = b",".join(to_json(bundle_id) + b":" + entry for bundle_id, entry in kept.items())
    return b'{"servers":{' + body + b'},"inputs":' + definitions + b"}", notes


def project_server(entry: ServerEntry) -> dict[str, Any]:
    """One server as it travels, with every field of 01 §6.4 (W-CFG-5)."""
    return {
        "name": entry.name,
        "bundle_id": entry.bundle_id,
        "type": entry.type,
        "disabled": entry.disabled,
        "forbidden_tools": list(entry.forbidden_tools),
        "tool_meta": entry.tool_meta,
        "default_tool_meta": entry.default_tool_meta,
        "vrl": entry.vrl,
        "server_parameters": _project_parameters(entry),
    }


def _project_parameters(entry: ServerEntry) -> dict[str, Any]:
    shown = dict(entry.parameters)
    secret_map = "env" if entry.type == "stdio" else "headers"
    if shown[secret_map] is not None:
        shown[secret_map] = mask_map(shown[secret_map])
    if entry.type != "stdio":
        shown["url"] = mask_url(shown["url"])
    if entry.type == "sse":
        # A peer's validator takes numbers only, and one wrong type would cost the whole answer (W-REL-2).
        for name, default in _SSE_DEFAULTS.items():
            shown[name] = shown[name] if isinstance(shown[name], int | float) else default
    if entry.type == "streamable" and not isinstance(shown["terminate_on_close"], bool):
        shown["terminate_on_close"] = True
    return shown


def _fit(entries: Mapping[str, bytes], budget: int) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Entries within the budget, the largest left out first (DEC-33)."""
    frame = len(b'{"servers":{},"inputs":}')
    sizes = {bundle_id: len(to_json(bundle_id)) + len(entry) + 2 for bundle_id, entry in entries.items()}
    total = frame + sum(sizes.values())
    largest = [(-size, bundle_id) for bundle_id, size in sizes.items()]
    heapq.heapify(largest)
    left_out: list[str] = []
    while total > budget and largest:
        size, bundle_id = heapq.heappop(largest)
        total += size
        left_out.append(bundle_id)
    notes = tuple(
        f"{bundle_id}: left out, the configuration exceeds the acknowledgement budget" for bundle_id in left_out
    )
    return {bundle_id: entry for bundle_id, entry in entries.items() if bundle_id not in left_out}, notes
