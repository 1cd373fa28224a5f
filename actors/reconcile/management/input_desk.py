"""The ReconcileActor's operations on inputs: their definitions, and the values that are kept for them (R-MGMT-4).

A definition is an intent like any other and takes its turn. A value is none: it is kept where
values of its kind belong, and whoever runs takes it at the next start (R-INPUT-20).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio.to_thread

from ....wire.errors import ConfigValidationError
from ....wire.messages.management import (
    ClearInputs,
    DefineInput,
    InputViews,
    ListInputs,
    ManagementResult,
    SetInput,
    UndefineInput,
    UnsetInput,
    WritableScope,
)
from ...kernel import handler
from ..config.inputs import Definition
from ..config.json_text import load
from ..layers import FOR_THIS_RUN
from .absorbing import Management
from .defining import define, read_definition, undefine
from .input_views import supplied_by, views_of

OF_THE_PROJECT = "only servers of the project see what a project defines"


class InputDesk(Management):
    """Part of the ReconcileActor."""

    # -- definitions ------------------------------------------------------------------------

    @handler(concurrent=16)
    async def list_inputs(self, _: ListInputs) -> InputViews:
        """All defined inputs, with where each would get its value from."""
        return InputViews(await views_of(self._composition.picture, self._stores, self._options.environ))

    @handler(concurrent=16)
    async def define_input(self, message: DefineInput) -> ManagementResult:
        """Writes a definition, or keeps it for this run, and lets it count."""
        raw = load(message.definition.data, "input")
        definition = read_definition(raw)
        async with self._turn:
            self._composition.picture.refuse_claims(inputs=(definition.id,))
            if message.scope == "run":
                changed, scope, label = await self._define_for_this_run(definition)
            else:
                changed, scope, label = await self._define_in_file(raw, message.scope, message.expected_revision)
            after = self._composition.picture.definer_of(definition.id)
        shadow = None if after is None or after.declaration.label == label else after.declaration.label
        warnings = (OF_THE_PROJECT,) if scope == "project" else ()
        return ManagementResult(changed, shadow is None, shadow, scope, warnings)

    async def _define_for_this_run(self, definition: Definition) -> tuple[bool, str, str]:
        picture = self._composition.picture
        wanted = {**picture.defined, definition.id: definition}
        await self._change(picture.config, picture.mounts, defined=wanted)
        return wanted != picture.defined, "run", FOR_THIS_RUN

    async def _define_in_file(
        self, raw: Mapping[str, Any], scope: WritableScope, expected: str | None
    ) -> tuple[bool, str, str]:
        holder = self._composition.picture.definer_of(raw["id"])
        changed, scope = await anyio.to_thread.run_sync(define, raw, scope, self._files, holder, expected)
        await self._absorb()
        return changed, scope, str(self._files.mcp(scope))

    @handler(concurrent=16)
    async def undefine_input(self, message: UndefineInput) -> ManagementResult:
        """Takes a definition away wherever that may be done; what stands below shows again."""
        input_id = message.input_id
        async with self._turn:
            picture = self._composition.picture
            of_this_run = input_id in picture.defined
            if of_this_run:
                rest = {key: one for key, one in picture.defined.items() if key != input_id}
                await self._change(picture.config, picture.mounts, defined=rest)
            holder = None if of_this_run else picture.definer_of(input_id)
            in_files = await anyio.to_thread.run_sync(undefine, input_id, self._files, holder)
            if in_files:
                await self._absorb()
            after = self._composition.picture.definer_of(input_id)
        return ManagementResult(
            of_this_run or in_files, after is None, None if after is None else after.declaration.label
        )

    # -- values -----------------------------------------------------------------------------

    @handler(concurrent=16)
    async def set_input(self, message: SetInput) -> ManagementResult:
        """Keeps a value; running servers take it at their next start (R-INPUT-20)."""
        definition = self._definition(message.input_id)
        value = load(message.value.data, f"inputs.{definition.id}")
        place = await self._stores.put(definition, value, for_run=message.for_run)
        variable = None if place == "run" else supplied_by(definition, self._composition.picture, self._options.environ)
        is_lost = place == "run" and not message.for_run
        warnings = ("there is no keyring: the value is kept for this run only",) if is_lost else ()
        return ManagementResult(True, variable is None, variable, place, warnings)

    @handler(concurrent=16)
    async def unset_input(self, message: UnsetInput) -> ManagementResult:
        """Forgets a value."""
        return ManagementResult(await self._stores.remove(message.input_id))

    @handler(concurrent=16)
    async def clear_inputs(self, _: ClearInputs) -> ManagementResult:
        """Forgets all values."""
        forgotten = [await self._stores.remove(input_id) for input_id in self._composition.picture.shown]
        rest = await anyio.to_thread.run_sync(self._stores.values.clear)
        return ManagementResult(any(forgotten) or rest > 0)

    def _definition(self, input_id: str) -> Definition:
        definition = self._composition.picture.shown.get(input_id)
        if definition is None:
            raise ConfigValidationError(f"no input has the id {input_id!r}", code="unknown_input", input_id=input_id)
        return definition
