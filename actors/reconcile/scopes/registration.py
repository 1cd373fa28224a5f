"""Registering declarations of several layers: no two identities may read one variable (R-INPUT-18). Pure.

What was named explicitly fails as a whole. What merely lies around gives way: the newcomer
is left out with a finding, and who was there before stays (F-10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ....wire.errors import ConflictError, Finding
from ....wire.inputs import env_name
from ..config.declaration import Declaration
from ..config.env_names import Collision, Identity, collisions
from ..server_set import Layer, Origin

_NEWCOMERS: tuple[Origin, ...] = ("policy", "user", "local", "project", "plugin")
"""In the order of trust, so that a project never pushes anybody out."""


class Registered(msgspec.Struct, frozen=True):
    """The layers as they count, and why something of them does not."""

    layers: tuple[Layer, ...]
    findings: tuple[Finding, ...] = ()


def register(explicit: Iterable[Layer], ambient: Iterable[Layer]) -> Registered:
    """All layers, without ambient entries whose variables are taken.

    Raises:
        ConflictError: Explicit layers collide among themselves (`env_name_collision`); names all identities.
    """
    named, found = tuple(explicit), tuple(ambient)
    refuse_collisions(named)
    taken = {variable: identity for layer in named for variable, identity in _variables(layer.declaration)}
    kept: dict[int, Layer] = {}
    findings: list[Finding] = []
    for position, layer in sorted(enumerate(found), key=lambda pair: _NEWCOMERS.index(pair[1].origin)):
        admitted, refused = _admit(layer, taken)
        kept[position] = admitted
        findings.extend(refused)
    return Registered((*(kept[position] for position in sorted(kept)), *named), tuple(findings))


def refuse_collisions(layers: Iterable[Layer]) -> None:
    """Refuses layers in which two identities would read one variable; see `register`."""
    known = tuple(layers)
    ids = (definition.id for layer in known for definition in layer.declaration.inputs)
    referenced: dict[str, tuple[str, ...]] = {}
    for layer in known:
        for server in layer.declaration.servers:
            referenced[server.bundle_id] = (*referenced.get(server.bundle_id, ()), *server.referenced_inputs)
    clashes = collisions(dict.fromkeys(ids), referenced)
    if clashes:
        raise ConflictError(
            "; ".join(clash.describe() for clash in clashes),
            code="env_name_collision",
            field="inputs",
            details={"variables": [clash.variable for clash in clashes]},
        )


def _admit(layer: Layer, taken: dict[str, Identity]) -> tuple[Layer, list[Finding]]:
    """One newcomer without what collides; `taken` grows by the rest."""
    declaration = layer.declaration
    claims: dict[str, set[Identity]] = {}
    for variable, identity in _variables(declaration):
        claims.setdefault(variable, set()).add(identity)
    refused: set[Identity] = set()
    findings = []
    for variable, identities in sorted(claims.items()):
        holder = taken.get(variable)
        if len(identities) == 1 and (holder is None or holder in identities):
            taken[variable] = next(iter(identities))
            continue
        refused |= identities - {holder}
        everybody = tuple(sorted({*identities, *([holder] if holder else [])}, key=str))
        findings.append(_finding(Collision(variable, everybody), declaration.label))
    if not refused:
        return layer, findings
    inputs = {identity.input_id for identity in refused if identity.bundle_id is None}
    servers = {identity.bundle_id for identity in refused if identity.bundle_id is not None}
    kept = Declaration(
        declaration.label,
        tuple(server for server in declaration.servers if server.bundle_id not in servers),
        tuple(definition for definition in declaration.inputs if definition.id not in inputs),
    )
    return Layer(layer.origin, kept), findings


def _variables(declaration: Declaration) -> Iterator[tuple[str, Identity]]:
    for definition in declaration.inputs:
        yield env_name(definition.id), Identity(definition.id)
    for server in declaration.servers:
        for input_id in server.referenced_inputs:
            yield env_name(input_id, server.bundle_id), Identity(input_id, server.bundle_id)


def _finding(collision: Collision, label: str) -> Finding:
    return Finding("inputs", collision.describe(), "conflict", "env_name_collision", label)
