"""The order in which an Agent sees servers: those called lately first. Pure (C-DESK-19, C-DOC-14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def server_order(present: Iterable[str], history: Sequence[str]) -> tuple[str, ...]:
    """Servers by their latest call, newest first, then the rest by bundle_id.

    Args:
        history: bundle_ids of finished calls, oldest first.
    Spec: C-DESK-19.
    """
    left = set(present)
    order: list[str] = []
    for bundle_id in reversed(history):
        if bundle_id in left:
            left.discard(bundle_id)
            order.append(bundle_id)
    return (*order, *sorted(left))
