"""Asking a person for a value: one question at a time, and never for a start nobody asked for (03 §5.4 step 6)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec

from ....wire.errors import ConfigValidationError, InvalidSelectionError
from ....wire.inputs import CommandInput, PickOption, PickStringInput
from ..config.inputs import Definition, Kind, default_of, kind_of
from ..config.options import Hook
from ..rendering.candidates import Value, settle
from ..rendering.resolution import ValueRequest
from .hooks import asked_of


class Question(msgspec.Struct, frozen=True):
    """What a prompter is asked.

    Attributes:
        type: The type as declared.
        default: What an empty answer would come to; never that of a secret.
        options: What can be picked. The answer is then a position, since two options may look alike (R-INPUT-1).
        choices: What yes and no are called, for a `bool`.
    """

    input_id: str
    description: str
    kind: Kind
    type: str
    bundle_id: str
    plugin_id: str | None = None
    default: Value | None = None
    options: tuple[PickOption, ...] = ()
    choices: tuple[str, str] | None = None


Keep = Callable[[Definition, Value], Awaitable[object]]
"""Keeps a value that was answered, where values of its kind belong."""


class PromptSource:
    """A prompter as a source of values.

    Args:
        prompter: Asked with a `Question`, plain or as a coroutine function; `None` as its answer means cancelled.
        keep: Called with each answer that is a valid one.
    """

    def __init__(self, prompter: Hook, keep: Keep) -> None:
        self._prompter = prompter
        self._keep = keep
        self._turn = anyio.Lock()

    async def find(self, request: ValueRequest) -> object | None:
        """See `ValueSource`. An answer that does not fit is passed on unkept, for the chain to refuse."""
        definition = request.definition
        if request.is_automatic or isinstance(definition, CommandInput):
            return None
        async with self._turn:
            answer: Any = self._prompter(question_for(request))
            if inspect.isawaitable(answer):
                answer = await answer
        if answer is None:
            return None
        answer = picked(definition, answer)
        try:
            value = settle(definition, answer)
        except (ConfigValidationError, InvalidSelectionError):
            return answer  # type: ignore[no-any-return]
        await self._keep(definition, value)
        return value


def question_for(request: ValueRequest) -> Question:
    """The question about an input."""
    definition, asked = request.definition, asked_of(request)
    kind = kind_of(definition)
    true_label, false_label = getattr(definition, "true_label", None), getattr(definition, "false_label", None)
    return Question(
        input_id=definition.id,
        description=definition.description,
        kind=kind,
        type=asked.type,
        bundle_id=request.bundle_id,
        plugin_id=request.plugin_id,
        default=None if kind == "secret" else default_of(definition),
        options=definition.options if isinstance(definition, PickStringInput) else (),
        choices=(true_label or "yes", false_label or "no") if asked.type == "bool" else None,
    )


def picked(definition: Definition, answer: object) -> object:
    """The value of the option at the answered position; any other answer as it is."""
    if isinstance(definition, PickStringInput) and isinstance(answer, int) and not isinstance(answer, bool):
        return definition.options[answer].value if 0 <= answer < len(definition.options) else answer
    return answer
