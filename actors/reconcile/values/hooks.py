"""Resolver hooks: the embedding application's own sources, asked first and in order (R-INPUT-12)."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from ..config.inputs import Definition, kind_of
from ..config.options import Hook
from ..rendering.resolution import ValueRequest


class InputRequest(msgspec.Struct, frozen=True):
    """What a hook is asked. `kind` is `secret` or `value`, `type` the type as declared."""

    id: str
    kind: str
    type: str
    bundle_id: str
    plugin_id: str | None = None


class NotProvided:
    """What a hook returns that has no value; `None` means the same."""

    def __repr__(self) -> str:
        return "NOT_PROVIDED"


NOT_PROVIDED = NotProvided()


class HookSource:
    """One hook, a plain or a coroutine function, as a source of values."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    async def find(self, request: ValueRequest) -> object | None:
        """See `ValueSource`."""
        found: Any = self._hook(asked_of(request))
        if inspect.isawaitable(found):
            found = await found
        return None if found is NOT_PROVIDED else found


def asked_of(request: ValueRequest) -> InputRequest:
    """The request as a hook sees it."""
    definition = request.definition
    return InputRequest(definition.id, kind_of(definition), type_of(definition), request.bundle_id, request.plugin_id)


def type_of(definition: Definition) -> str:
    """The type of an input as it is declared."""
    return str(type(definition).__struct_config__.tag)
