"""Desired against actual: what a change of the set means for each server (R-LIFE-15, R-LIFE-18). Pure."""

from __future__ import annotations

import msgspec

from ..server_set import ServerSet, SetEntry


class Plan(msgspec.Struct, frozen=True):
    """What has to happen, each list in bundle_id order.

    Attributes:
        start: May run now and had no client.
        stop: Removed, disabled or refused.
        restart: Launched from something that changed.
        remeta: Only what decides its tools or its name changed.
    """

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()
    remeta: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to happen to any server."""
        return not (self.start or self.stop or self.restart or self.remeta)


def plan(actual: ServerSet, desired: ServerSet) -> Plan:
    """The difference of two sets. Equal sets give an empty plan."""
    kinds: dict[str, list[str]] = {"start": [], "stop": [], "restart": [], "remeta": []}
    for bundle_id in sorted(actual.keys() | desired.keys()):
        kind = _change(actual.get(bundle_id), desired.get(bundle_id))
        if kind is not None:
            kinds[kind].append(bundle_id)
    return Plan(**{kind: tuple(ids) for kind, ids in kinds.items()})


def _change(before: SetEntry | None, after: SetEntry | None) -> str | None:
    ran = before is not None and before.may_run
    runs = after is not None and after.may_run
    if runs and not ran:
        return "start"
    if ran and not runs:
        return "stop"
    if before is None or after is None or before.entry == after.entry:
        return None
    if runs and before.entry.launch_shape != after.entry.launch_shape:
        return "restart"
    return "remeta"
