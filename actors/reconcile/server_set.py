"""The authoritative set: one entry per bundle_id, where it comes from, and what may be done with it.

Layers are merged by identity: the whole entry of the highest layer wins, nothing is merged
inside an entry (R-SCOPE-7). A verdict says whether an entry may run; here only what layers
and `disabled` decide, an approval gate adds the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from .config.declaration import Declaration
from .config.env_names import collisions
from .config.findings import Findings
from .config.inputs import Definition
from .config.server_entry import ServerEntry

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
        step: The step of the gate that gave the verdict (R-GATE-2); 0 where no step had anything to say.
        reason: Why the verdict is not ENABLED.
    """

    entry: ServerEntry
    origin: Origin
    source: str
    verdict: Verdict = "ENABLED"
    shadowed: tuple[str, ...] = ()
    step: int = 0
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


class Judgement(msgspec.Struct, frozen=True):
    """What the approval gate says of an entry: the verdict, the step that gave it, and why it is not ENABLED."""

    verdict: Verdict = "ENABLED"
    step: int = 0
    reason: str | None = None


Judge = Callable[[SetEntry], Judgement]
"""The approval gate, asked about each winning entry."""

ServerSet = Mapping[str, SetEntry]


def enable_all(_: SetEntry) -> Judgement:
    """The judgement of a set without a gate."""
    return Judgement()


def resolve_servers(layers: Iterable[Layer], judge: Judge = enable_all) -> dict[str, SetEntry]:
    """The set out of layers in any order, by bundle_id in code-point order (DEC-5)."""
    winners: dict[str, SetEntry] = {}
    for layer in by_strength(layers):
        for entry in layer.declaration.servers:
            hidden = winners.get(entry.bundle_id)
            shadowed = () if hidden is None else (hidden.source, *hidden.shadowed)
            winners[entry.bundle_id] = SetEntry(entry, layer.origin, layer.declaration.label, shadowed=shadowed)
    judged: dict[str, SetEntry] = {}
    for bundle_id in sorted(winners):
        found = judge(winners[bundle_id])
        judged[bundle_id] = msgspec.structs.replace(
            winners[bundle_id], verdict=found.verdict, step=found.step, reason=found.reason
        )
    return judged


def resolve_inputs(layers: Iterable[Layer]) -> dict[str, Definition]:
    """Input definitions by id, the highest layer winning, in the order of first definition."""
    found: dict[str, Definition] = {}
    for layer in by_strength(layers):
        for definition in layer.declaration.inputs:
            found[definition.id] = definition
    return found


def refuse_collisions(servers: ServerSet, definitions: Mapping[str, Definition]) -> None:
    """Refuses a set in which two inputs would read one environment variable (R-INPUT-18).

    Raises:
        ConflictError: Names the variable and all who would read it.
    """
    referenced = {bundle_id: member.entry.referenced_inputs for bundle_id, member in servers.items()}
    findings = Findings()
    for collision in collisions(definitions, referenced):
        findings.add("inputs", collision.describe(), category="conflict", code="env_name_collision")
    findings.raise_if_any("the server set")


def by_strength(layers: Iterable[Layer]) -> list[Layer]:
    """Layers from the weakest to the strongest."""
    return sorted(layers, key=lambda layer: PRECEDENCE.index(layer.origin))
