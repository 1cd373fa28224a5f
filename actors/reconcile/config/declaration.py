"""One declaration source: its servers and inputs, and what may not stand in it twice.

A source is a file or one config object. Inside it two entries of one identity are a
conflict and neither counts; between sources precedence decides (R-MCP-7, R-MCP-8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .env_names import collisions
from .findings import Findings, member
from .inputs import Definition, read_inputs
from .json_text import RepeatedKeys, load
from .server_entry import ServerEntry, read_servers

SERVER_KEYS = ("servers", "mcpServers", "mcp_servers")
"""The last is how a whole Computer configuration spells it; such a file is taken for the servers and inputs in it."""
FILE_KEYS = (*SERVER_KEYS, "inputs", "$schema")


class Declaration(msgspec.Struct, frozen=True):
    """What one source declares.

    Attributes:
        label: What the source is called in findings and status.
    """

    label: str
    servers: tuple[ServerEntry, ...] = ()
    inputs: tuple[Definition, ...] = ()


def read_mcp_file(text: str | bytes, label: str) -> tuple[Declaration, Findings]:
    """The declaration in an mcp file, native or in the ecosystem's form, and what was wrong with it (03 §4.1).

    Raises:
        ConfigValidationError: The text is not JSON.
    """
    findings = Findings(label)
    root = load(text, label)
    if not isinstance(root, Mapping):
        findings.wrong_type("$", "an object with servers and inputs", root)
        return Declaration(label), findings
    for key in root:
        if key not in FILE_KEYS:
            findings.warn(member("", key), "unknown key, kept and not used", code="unknown_key")
    sections = [(key, root[key]) for key in SERVER_KEYS if root.get(key) is not None]
    servers = read_sections(sections, findings)
    inputs = read_inputs(root.get("inputs"), "inputs", findings)
    return Declaration(label, servers, tuple(without_collisions(servers, inputs, findings))), findings


def read_sections(sections: Iterable[tuple[str, Any]], findings: Findings) -> tuple[ServerEntry, ...]:
    """The servers of several lists or maps that belong to one source, in their order.

    Of entries with one bundle_id none is kept; the finding names all their places, the id and the way out.
    """
    placed: list[tuple[str, ServerEntry]] = []
    for path, raw in sections:
        if raw is not None and not isinstance(raw, Mapping | list | tuple):
            findings.wrong_type(path, "an array or an object of servers", raw)
            continue
        if isinstance(raw, RepeatedKeys):
            for key in raw.repeated:
                reason = f"key {key!r} stands there more than once; rename one or give it an explicit bundleId"
                findings.add(member(path, key), reason, category="conflict", code="duplicate_bundle_id")
            unique = {key: entry for key, entry in raw.items() if key not in raw.repeated}
            placed.extend(read_servers(unique, path, findings))
        else:
            placed.extend(read_servers(raw, path, findings))
    return _without_duplicates(placed, findings)


def without_collisions(
    servers: Iterable[ServerEntry], inputs: Iterable[Definition], findings: Findings
) -> list[Definition]:
    """The definitions whose environment names are theirs alone; every collision is noted (R-INPUT-18).

    A definition is not to blame when two servers collide over it; what becomes of those is decided at registration.
    """
    definitions = list(inputs)
    referenced = {server.bundle_id: server.referenced_inputs for server in servers}
    excluded: set[str] = set()
    for collision in collisions((definition.id for definition in definitions), referenced):
        findings.add("inputs", collision.describe(), category="conflict", code="env_name_collision")
        excluded.update(identity.input_id for identity in collision.identities if identity.bundle_id is None)
    return [definition for definition in definitions if definition.id not in excluded]


def _without_duplicates(placed: list[tuple[str, ServerEntry]], findings: Findings) -> tuple[ServerEntry, ...]:
    owners: dict[str, list[tuple[str, ServerEntry]]] = {}
    for path, entry in placed:
        owners.setdefault(entry.bundle_id, []).append((path, entry))
    for bundle_id, group in owners.items():
        if len(group) > 1:
            who = " and ".join(f"{entry.name!r} at {path}" for path, entry in group)
            reason = f"{who} have the same bundle_id {bundle_id!r}; rename one or give it an explicit bundleId"
            findings.add(group[-1][0], reason, category="conflict", code="duplicate_bundle_id")
    return tuple(entry for _, entry in placed if len(owners[entry.bundle_id]) == 1)
