"""The value chain of inputs (03 §5.4): who is asked for a value, and in which order.

Stores, hooks, commands and people are sources that somebody else provides; the environment
and the definition's own default stand here. One resolution serves one actual start and
remembers nothing (R-INPUT-19, R-INPUT-20).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ...wire.errors import ConfigValidationError, InvalidSelectionError, MissingInputError, SmcpError
from ...wire.inputs import PickStringInput, env_name
from .candidates import Value, settle
from .inputs import Definition, default_of, kind_of


class ValueRequest(msgspec.Struct, frozen=True):
    """What a source is asked (R-INPUT-12). `is_automatic` forbids asking a person (R-MCP-23)."""

    definition: Definition
    bundle_id: str
    plugin_id: str | None = None
    is_automatic: bool = True


class ValueSource(Protocol):
    """A place where a value may come from: hook, store, command, prompter."""

    async def find(self, request: ValueRequest) -> object | None:
        """A candidate, or `None` for "not provided". What it raises counts as not provided and is not shown."""
        ...


class Chain(msgspec.Struct, frozen=True):
    """The sources around the environment: `before` it (step 1) and `after` it (steps 3 to 6), in order."""

    before: Sequence[ValueSource] = ()
    after: Sequence[ValueSource] = ()


async def resolve(
    input_ids: Iterable[str],
    definitions: Mapping[str, Definition],
    environ: Mapping[str, str],
    chain: Chain,
    request: ResolveFor,
) -> dict[str, Value]:
    """A value for every id, each resolved once; all problems are reported together (R-INPUT-7).

    Raises:
        MissingInputError, InvalidSelectionError, ConfigValidationError: The first problem; the others are in
            `causes`. Names ids, kinds and variables, never values (R-INPUT-24).
    """
    values: dict[str, Value] = {}
    problems: list[SmcpError] = []
    for input_id in input_ids:
        definition = definitions.get(input_id)
        if definition is None:
            problems.append(_missing(input_id, request.bundle_id, "is not defined"))
            continue
        try:
            values[input_id] = await _resolve_one(definition, environ, chain, request)
        except (MissingInputError, InvalidSelectionError, ConfigValidationError) as problem:
            problem.bundle_id = request.bundle_id
            problems.append(problem)
    if problems:
        first = problems[0]
        first.causes = (*first.causes, *(problem.message for problem in problems[1:]))
        raise first
    return values


class ResolveFor(msgspec.Struct, frozen=True):
    """On whose behalf inputs are resolved."""

    bundle_id: str
    plugin_id: str | None = None
    is_automatic: bool = True


async def _resolve_one(definition: Definition, environ: Mapping[str, str], chain: Chain, request: ResolveFor) -> Value:
    asked = ValueRequest(definition, request.bundle_id, request.plugin_id, request.is_automatic)
    failed = False
    for source in chain.before:
        found, broke = await _ask(source, asked)
        failed = failed or broke
        if found is not None:
            return settle(definition, found)
    for variable in variables(definition.id, request.bundle_id):
        if variable in environ:
            return settle(definition, environ[variable])
    for source in chain.after:
        found, broke = await _ask(source, asked)
        failed = failed or broke
        if found is not None:
            return settle(definition, found)
    own = _own_value(definition)
    if own is None:
        raise _missing(definition.id, request.bundle_id, f"({kind_of(definition)}) has no value", failed=failed)
    return own


def variables(input_id: str, bundle_id: str) -> tuple[str, str]:
    """The variables that supply an input, the one with the server first (R-INPUT-17)."""
    return env_name(input_id, bundle_id), env_name(input_id)


async def _ask(source: ValueSource, request: ValueRequest) -> tuple[object | None, bool]:
    try:
        return await source.find(request), False
    except Exception:
        # A resolver is the host's code, and its text may hold the secret it was after (R-INPUT-12).
        return None, True


def _own_value(definition: Definition) -> Value | None:
    """What the definition itself offers: its default, or the first option. Never stored (R-INPUT-14)."""
    default = default_of(definition)
    if default is not None:
        return settle(definition, default)
    return definition.options[0].value if isinstance(definition, PickStringInput) else None


def _missing(input_id: str, bundle_id: str, what: str, *, failed: bool = False) -> MissingInputError:
    names = variables(input_id, bundle_id)
    reason = "; a resolver failed" if failed else ""
    return MissingInputError(
        f"input {input_id!r} {what}{reason}; set {names[0]} or {names[1]}",
        input_id=input_id,
        bundle_id=bundle_id,
        details={"variables": list(names), **({"reason": "resolver_failed"} if failed else {})},
    )
