"""What a person is shown before a project's server runs (R-GATE-12). Pure; nothing in it is secret."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ....wire.messages.projection import PendingApproval
from ..config.masking import mask_url
from ..config.placeholders import environment_references
from ..server_set import SetEntry
from .fingerprint import differences, fingerprint_of, shown_shape
from .gate import Rules


def pending_approvals(
    entries: Iterable[SetEntry],
    rules: Rules,
    approved: Mapping[str, Mapping[str, Any]],
    plugin_of: Callable[[SetEntry], str | None] = lambda _: None,
) -> tuple[PendingApproval, ...]:
    """One request for each entry that is PENDING.

    Args:
        approved: Shapes that were approved, by fingerprint, as far as they are still known.
        plugin_of: The plugin that brings an entry.
    """
    return tuple(_request(entry, rules, approved, plugin_of(entry)) for entry in entries if entry.verdict == "PENDING")


def target_of(entry: SetEntry) -> str:
    """The raw command line, or the URL without what is literally secret in it."""
    raw = entry.entry.parameters
    if entry.entry.type == "stdio":
        return shlex.join([raw["command"], *raw["args"]])
    return mask_url(raw["url"])


def _request(
    entry: SetEntry, rules: Rules, approved: Mapping[str, Mapping[str, Any]], plugin_id: str | None
) -> PendingApproval:
    recorded = rules.fingerprints.get(entry.bundle_id)
    fingerprint = fingerprint_of(entry.entry)
    before = approved.get(recorded) if recorded not in (None, fingerprint) else None
    return PendingApproval(
        bundle_id=entry.bundle_id,
        name=entry.entry.name,
        origin=entry.origin,
        source=entry.source,
        transport=entry.entry.type,
        target=target_of(entry),
        fingerprint=fingerprint,
        reason=entry.reason or "",
        inputs=entry.entry.referenced_inputs,
        variables=environment_references(entry.entry.rendered_fields),
        plugin_id=plugin_id,
        differences=() if before is None else differences(before, shown_shape(entry.entry)),
    )
