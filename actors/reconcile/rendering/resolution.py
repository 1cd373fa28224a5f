"""The value chain of inputs (03 §5.4): who is asked for a value, and in which order.

Stores, hooks, commands and people are sources that somebody else provides; the environment
and the definition's own default stand here. One resolution serves one actual start and
remembers nothing (R-INPUT-19, R-INPUT-20).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from ....wire.errors import ConfigValidationError, InvalidSelectionError, MissingInputError, SmcpError
from ....wire.inputs import PickStringInput, env_name
from ..config.inputs import Definition, default_of, kind_of
from .candidates import Value, settle
from .scoped_ids import lookup


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


class SourceFailed(Exception):
    """A source of ours could not do its work. Its text may be shown: it holds no output and no value."""


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

    Args:
        input_ids: Ids as the server refers to them; a server of a plugin means its plugin's first (R-INPUT-9).
    Raises:
        MissingInputError, InvalidSelectionError, ConfigValidationError: The first problem; the others are in
            `causes`. Names ids, kinds and variables, never values (R-INPUT-24).
    """
    values: dict[str, Value] = {}
    problems: list[SmcpError] = []
    for input_id in input_ids:
        try:
            values[input_id] = await _resolve_reference(input_id, definitions, environ, chain, request)
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


async def _resolve_reference(
    reference: str, definitions: Mapping[str, Definition], environ: Mapping[str, str], chain: Chain, request: ResolveFor
) -> Value:
    """The value of the first definition a reference may mean that has one."""
    order = lookup(reference, request.plugin_id, definitions)
    missing: MissingInputError | None = None
    for input_id in order.ids:
        try:
            return await _resolve_one(definitions[input_id], environ, chain, request)
        except MissingInputError as error:
            # The first is the one to speak of; that there was another to ask is nobody's business (R-INPUT-10).
            missing = missing or error
    if missing is None or missing.input_id != order.missing:
        raise _missing(order.missing, request.bundle_id, "is not defined" if not order.ids else "has no value")
    raise missing


async def _resolve_one(definition: Definition, environ: Mapping[str, str], chain: Chain, request: ResolveFor) -> Value:
    asked = ValueRequest(definition, request.bundle_id, request.plugin_id, request.is_automatic)
    failures: list[str] = []
    for source in chain.before:
        found = await _ask(source, asked, failures)
        if found is not None:
            return settle(definition, found)
    for variable in variables(definition.id, request.bundle_id):
        if variable in environ:
            return settle(definition, environ[variable])
    for source in chain.after:
        found = await _ask(source, asked, failures)
        if found is not None:
            return settle(definition, found)
    own = _own_value(definition)
    if own is None:
        raise _missing(definition.id, request.bundle_id, f"({kind_of(definition)}) has no value", failures)
    return own


def variables(input_id: str, bundle_id: str) -> tuple[str, str]:
    """The variables that supply an input, the one with the server first (R-INPUT-17)."""
    return env_name(input_id, bundle_id), env_name(input_id)


async def _ask(source: ValueSource, request: ValueRequest, failures: list[str]) -> object | None:
    try:
        return await source.find(request)
    except SourceFailed as error:
        failures.append(str(error))
    except Exception:
        # A resolver is the host's code, and its text may hold the secret it was after (R-INPUT-12).
        failures.append("a resolver failed")
    return None


def _own_value(definition: Definition) -> Value | None:
    """What the definition itself offers: its default, or the first option. Never stored (R-INPUT-14)."""
    default = default_of(definition)
    if default is not None:
        return settle(definition, default)
    return definition.options[0].value if isinstance(definition, PickStringInput) else None


def _missing(input_id: str, bundle_id: str, what: str, failures: Sequence[str] = ()) -> MissingInputError:
    names = variables(input_id, bundle_id)
    reason = "".join(f"; {failure}" for failure in failures)
    return MissingInputError(
        f"input {input_id!r} {what}{reason}; set {names[0]} or {names[1]}",
        input_id=input_id,
        bundle_id=bundle_id,
        details={"variables": list(names), **({"reason": "resolver_failed"} if failures else {})},
    )
