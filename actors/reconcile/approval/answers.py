"""What an answer to an approval request writes: one change of local settings (R-GATE-12, R-GATE-13). Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..files.elements import elements
from ..files.patch import Patch

Decide = Callable[[Mapping[str, Any]], Patch]
"""A change, from what the file holds."""

ENABLED = "enabledMcpjsonServers"
DISABLED = "disabledMcpjsonServers"
ALL = "enableAllProjectMcpServers"
FINGERPRINTS = "approvedMcpServerFingerprints"


def approving(bundle_id: str, fingerprint: str) -> Decide:
    """Approves a server as it is now. A denial that stands beside it goes: the person has thought again."""

    def decide(tree: Mapping[str, Any]) -> Patch:
        change: dict[str, Any] = {ENABLED: with_id(tree, ENABLED, bundle_id), FINGERPRINTS: {bundle_id: fingerprint}}
        if bundle_id in elements(tree, DISABLED):
            change[DISABLED] = without_id(tree, DISABLED, bundle_id)
        return change

    return decide


def denying(bundle_id: str) -> Decide:
    """Denies a server."""
    return lambda tree: {DISABLED: with_id(tree, DISABLED, bundle_id)}


def approving_all(_: Mapping[str, Any]) -> Patch:
    """Approves every server of the project, those to come included."""
    return {ALL: True}


def with_id(tree: Mapping[str, Any], field: str, bundle_id: str) -> list[Any]:
    """An array with an id in it once; what else is there stays, whatever it is."""
    ids = elements(tree, field)
    return ids if bundle_id in ids else [*ids, bundle_id]


def without_id(tree: Mapping[str, Any], field: str, bundle_id: str) -> list[Any] | None:
    """An array without an id; `None`, which deletes the key, when nothing is left."""
    return [element for element in elements(tree, field) if element != bundle_id] or None
