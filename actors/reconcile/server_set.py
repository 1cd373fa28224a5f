"""The authoritative set: one entry per bundle_id, where it comes from, and what may be done with it.

Layers are merged by identity: the whole entry of the highest layer wins, nothing is merged
inside an entry (R-SCOPE-7). A verdict says whether an entry may run; here only what layers
and `disabled` decide, an approval gate adds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from .declaration import Declaration
from .inputs import Definition
from .server_entry import ServerEntry

Origin = Literal["plugin", "user", "project", "local", "embed", "flag", "policy"]
PRECEDENCE: tuple[Origin, ...] = ("plugin", "user", "project", "local", "embed", "flag", "policy")
"""Lowest first; the only order of precedence there is, for servers and settings alike (R-SCOPE-1)."""

Verdict = Literal["ENABLED", "DISABLED", "PENDING"]


class Layer(msgspec.Struct, frozen=True):
    """One declaration and its place in the order. Of two layers of one origin the later is the stronger (R-SCOPE-3)."""

    origin: Origin
    declaration: Declaration


class SetEntry(msgspec.Struct, frozen=True):
    """One member of the set.

    Attributes:
        source: Label of the declaration it comes from.
        shadowed: Labels of the declarations it hides, strongest first (W-ID-21, F-109).
        reason: Why the verdict is not ENABLED.
    """

    entry: ServerEntry
    origin: Origin
    source: str
    verdict: Verdict = "ENABLED"
    shadowed: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def bundle_id(self) -> str:
        """Its identity."""
        return self.entry.bundle_id

    @property
    def is_projected(self) -> bool:
        """Whether an Agent may see it in the configuration."""
        return self.verdict == "ENABLED"

    @property
    def may_run(self) -> bool:
        """Whether it may have a client."""
        return self.verdict == "ENABLED" and not self.entry.disabled


Judge = Callable[[SetEntry], tuple[Verdict, str | None]]
"""The approval gate: a verdict and its reason for a winning entry."""

ServerSet = Mapping[str, SetEntry]


def enable_all(_: SetEntry) -> tuple[Verdict, str | None]:
    """The verdict of a set without a gate."""
    return "ENABLED", None


def resolve_servers(layers: Iterable[Layer], judge: Judge = enable_all) -> dict[str, SetEntry]:
    """The set out of layers in any order, by bundle_id in code-point order (DEC-5)."""
    winners: dict[str, SetEntry] = {}
    for layer in _by_strength(layers):
        for entry in layer.declaration.servers:
            hidden = winners.get(entry.bundle_id)
            shadowed = () if hidden is None else (hidden.source, *hidden.shadowed)
            winners[entry.bundle_id] = SetEntry(entry, layer.origin, layer.declaration.label, shadowed=shadowed)
    judged: dict[str, SetEntry] = {}
    for bundle_id in sorted(winners):
        verdict, reason = judge(winners[bundle_id])
        judged[bundle_id] = msgspec.structs.replace(winners[bundle_id], verdict=verdict, reason=reason)
    return judged


def resolve_inputs(layers: Iterable[Layer]) -> dict[str, Definition]:
    """Input definitions by id, the highest layer winning, in the order of first definition."""
    found: dict[str, Definition] = {}
    for layer in _by_strength(layers):
        for definition in layer.declaration.inputs:
            found[definition.id] = definition
    return found


def _by_strength(layers: Iterable[Layer]) -> list[Layer]:
    return sorted(layers, key=lambda layer: PRECEDENCE.index(layer.origin))
