"""Which servers end with the plugin that brought them (R-PLUGIN-27…31, F-16). Pure.

Decided anew each time from what is declared now; nothing about it is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..reconcile.server_set import Layer


def reclaimed(leaving: Iterable[str], others: Mapping[str, Iterable[str]], layers: Iterable[Layer]) -> tuple[str, ...]:
    """The bundle_ids that nobody needs once a plugin is gone.

    Args:
        leaving: What the plugin declares.
        others: What each other installed plugin declares, enabled or not.
        layers: All declarations of the set with their origins.
    """
    needed = {bundle_id for declared in others.values() for bundle_id in declared}
    owned = {entry.bundle_id for layer in layers if layer.origin != "plugin" for entry in layer.declaration.servers}
    return tuple(bundle_id for bundle_id in leaving if bundle_id not in needed and bundle_id not in owned)
