"""Whom each scope may speak for (R-SCOPE-5, R-INPUT-8). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..config.inputs import Definition
from ..server_set import Layer, Origin, by_strength, resolve_inputs

TRUSTED_DECLARERS: Final[frozenset[Origin]] = frozenset({"user", "embed", "flag", "policy"})
"""Scopes whose servers need no approval."""
TRUSTED_JUDGES: Final[frozenset[Origin]] = TRUSTED_DECLARERS | {"local"}
"""Scopes whose settings may approve; personal decisions are written to `local`."""


def visible_inputs(layers: Iterable[Layer], origin: Origin) -> dict[str, Definition]:
    """The definitions a server of this origin may use, by id.

    What a project defines is for its own servers: it could otherwise turn a user's input into a command and have
    it run without anybody's approval.
    """
    return resolve_inputs(layer for layer in layers if origin == "project" or layer.origin != "project")


def projected_inputs(layers: Iterable[Layer]) -> dict[str, Definition]:
    """The definitions an Agent sees: all ids, each as a trusted server has it where the two views differ."""
    known = tuple(layers)
    return {**visible_inputs(known, "project"), **visible_inputs(known, "user")}


def definer(layers: Iterable[Layer], input_id: str) -> Layer | None:
    """The layer whose definition of an id is shown: that of a trusted server where there is one."""
    found = [layer for layer in by_strength(layers) if any(one.id == input_id for one in layer.declaration.inputs)]
    trusted = [layer for layer in found if layer.origin != "project"]
    chosen = trusted or found
    return chosen[-1] if chosen else None
