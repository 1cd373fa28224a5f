"""Collisions of the environment names that supply inputs: two identities must never share one variable (R-INPUT-18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ....wire.inputs import env_name


class Identity(msgspec.Struct, frozen=True):
    """An input, alone or as a server refers to it."""

    input_id: str
    bundle_id: str | None = None

    def __str__(self) -> str:
        return self.input_id if self.bundle_id is None else f"{self.input_id} of {self.bundle_id}"


class Collision(msgspec.Struct, frozen=True):
    """One variable, and all identities that would read it."""

    variable: str
    identities: tuple[Identity, ...]

    def describe(self) -> str:
        """What is wrong, and what helps."""
        names = ", ".join(str(identity) for identity in self.identities)
        return f"{self.variable} would supply all of: {names}; give one of them another id or an explicit bundleId"


def collisions(input_ids: Iterable[str], referenced: Mapping[str, Iterable[str]]) -> tuple[Collision, ...]:
    """All collisions among the active names.

    Args:
        input_ids: Every defined id.
        referenced: Ids each server refers to, by its bundle_id.
    """
    groups: dict[str, set[Identity]] = {}
    for input_id in input_ids:
        groups.setdefault(env_name(input_id), set()).add(Identity(input_id))
    for bundle_id, ids in referenced.items():
        for input_id in ids:
            groups.setdefault(env_name(input_id, bundle_id), set()).add(Identity(input_id, bundle_id))
    return tuple(
        Collision(variable, tuple(sorted(group, key=lambda one: (one.input_id, one.bundle_id or ""))))
        for variable, group in sorted(groups.items())
        if len(group) > 1
    )
