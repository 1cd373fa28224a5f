"""Defining an input in a file people own, and taking a definition away (R-MGMT-4, R-FILE-11). Blocking.

A definition is found by its id, whatever else stands in the array; what is faulty there and
what we do not know stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....wire.errors import ConflictError, PolicyError
from ....wire.messages.management import WritableScope
from ..config.findings import Findings
from ..config.inputs import Definition, read_input
from ..files.intent import change_intent, read_intent
from ..files.patch import Patch
from ..scopes.places import WRITABLE, Places
from ..server_set import Layer

Inputs = list[Any]


def read_definition(raw: object) -> Definition:
    """The definition in an object.

    Raises:
        ConfigValidationError: It is faulty; with all findings.
    """
    findings = Findings("input")
    definition = read_input(raw, "", findings)
    findings.raise_if_any("input")
    assert definition is not None
    return definition


def define(
    raw: Mapping[str, Any], scope: WritableScope, files: Places, holder: Layer | None, expected: str | None = None
) -> tuple[bool, WritableScope]:
    """Writes a definition; whether a file changed, and the scope it stands in.

    An id that a file defines already is changed there, in the highest of these scopes.

    Args:
        holder: The layer whose definition of this id counts now, `None` for none.
        expected: The revision of the file the change was computed from.
    Raises:
        ConfigValidationError: The object is faulty, or a file cannot be understood (`corrupt_file`).
        ConflictError: The file is held by another process, or is another one.
        PolicyError: Policy defines this id (`policy_shadowed`).
    """
    input_id = read_definition(raw).id
    if holder is not None and holder.origin == "policy":
        raise PolicyError(f"policy defines {input_id}", code="policy_shadowed", input_id=input_id)
    place = next((one for one in reversed(WRITABLE) if _stands_in(files, one, input_id)), scope)

    def put(inputs: Inputs) -> Inputs:
        known = [index for index, one in enumerate(inputs) if _id_of(one) == input_id]
        if not known:
            return [*inputs, raw]
        return [raw if index == known[0] else one for index, one in enumerate(inputs) if index not in known[1:]]

    return change_intent(files.mcp(place), "mcp", _patch(put), expected=expected).changed, place


def undefine(input_id: str, files: Places, holder: Layer | None) -> bool:
    """Takes a definition out of every file that may be written; whether there was one.

    Args:
        holder: As in `define`.
    Raises:
        PolicyError, ConflictError: It is defined elsewhere alone: says by whom.
    """
    scopes = [scope for scope in WRITABLE if _stands_in(files, scope, input_id)]
    if not scopes and holder is not None:
        label = holder.declaration.label
        if holder.origin == "policy":
            raise PolicyError(f"{input_id} is defined by policy", code="policy_shadowed", input_id=input_id)
        code = "managed_by_plugin" if holder.origin == "plugin" else "read_only_scope"
        raise ConflictError(f"{input_id} is defined by {label}", code=code, input_id=input_id)

    def drop(inputs: Inputs) -> Inputs:
        return [one for one in inputs if _id_of(one) != input_id]

    changes = [change_intent(files.mcp(scope), "mcp", _patch(drop)) for scope in scopes]
    return any(change.changed for change in changes)


def _patch(change: Callable[[Inputs], Inputs]) -> Callable[[Mapping[str, Any]], Patch]:
    return lambda tree: {"inputs": change(list(tree.get("inputs") or ()))}


def _stands_in(files: Places, scope: WritableScope, input_id: str) -> bool:
    inputs = read_intent(files.mcp(scope), "mcp").tree.get("inputs") or ()
    return any(_id_of(one) == input_id for one in inputs)


def _id_of(raw: object) -> object:
    return raw.get("id") if isinstance(raw, Mapping) else None
