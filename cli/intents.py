"""Inputs, settings and approvals in the files of one user and project, when no Computer runs (R-MGMT-4, R-CORE-3).

Blocking, in a thread of the event loop's: the keyring is asked there. Nothing is written but
what an operation is about, so that to look at settings never changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio.from_thread
import msgspec

from ..actors.reconcile.composition import Picture
from ..actors.reconcile.config.computer_config import ComputerConfig
from ..actors.reconcile.config.inputs import is_secret
from ..actors.reconcile.config.options import RuntimeOptions
from ..actors.reconcile.loading import load_all, places_for, settings_of
from ..actors.reconcile.management.defining import define, read_definition, undefine
from ..actors.reconcile.management.input_views import supplied_by, views_of
from ..actors.reconcile.management.operations import (
    answered,
    changed_settings,
    outcome_of,
    outcome_of_settings,
    shown_settings,
)
from ..actors.reconcile.management.preview import preview
from ..actors.reconcile.values.chain import stores_of
from ..actors.reconcile.values.secret_store import nowhere_to_keep
from ..wire.base import to_json
from ..wire.codec import Attachment
from ..wire.errors import ConfigValidationError, ConflictError
from ..wire.messages.management import Answer, AnswerApproval, ManagementResult, SettingsView
from ..wire.plain import plain

AT_THE_NEXT_START = "no Computer runs; this counts at its next start"
Words = Mapping[str, Any]


class Intents:
    """The operations.

    Args:
        options: Settled options.
    """

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._config = ComputerConfig(name="computer")
        self._places = places_for(options)
        self._stores = stores_of(options, self._places.state, {})

    def carry_out(self, operation: str, words: Words) -> Any:
        """Does what is asked; the result as JSON values. Raises an `SmcpError` when it failed."""
        return plain(OPERATIONS[operation](self, words))

    # -- inputs ---------------------------------------------------------------------------------

    def inputs(self, _: Words) -> Any:
        return anyio.from_thread.run(views_of, self._picture(), self._stores, self._options.environ)

    def define(self, words: Words) -> ManagementResult:
        raw, scope = words["definition"], words.get("scope", "local")
        if scope == "run":
            raise ConflictError("a definition for one run needs a Computer that runs", code="not_running")
        definition, picture = read_definition(raw), self._picture()
        picture.refuse_claims(inputs=(definition.id,))
        changed, scope = define(raw, scope, self._places, picture.definer_of(definition.id))
        after = self._picture().definer_of(definition.id)
        is_shadowed = after is not None and after.declaration.label != str(self._places.mcp(scope))
        label = after.declaration.label if after is not None and is_shadowed else None
        return ManagementResult(changed, label is None, label, scope, (AT_THE_NEXT_START,))

    def undefine(self, words: Words) -> ManagementResult:
        changed = undefine(words["input_id"], self._places, self._picture().definer_of(words["input_id"]))
        after = self._picture().definer_of(words["input_id"])
        label = None if after is None else after.declaration.label
        return ManagementResult(changed, label is None, label, warnings=(AT_THE_NEXT_START,))

    def set_input(self, words: Words) -> ManagementResult:
        picture = self._picture()
        definition = picture.shown.get(words["input_id"])
        if definition is None:
            input_id = words["input_id"]
            raise ConfigValidationError(f"no input has the id {input_id!r}", code="unknown_input", input_id=input_id)
        place = anyio.from_thread.run(self._stores.put, definition, words["value"])
        if is_secret(definition) and place == "run":
            raise nowhere_to_keep(definition.id)  # this process ends with the command
        variable = supplied_by(definition, picture, self._options.environ)
        return ManagementResult(True, variable is None, variable, place)

    def unset_input(self, words: Words) -> ManagementResult:
        return ManagementResult(anyio.from_thread.run(self._stores.remove, words["input_id"]))

    def clear_inputs(self, _: Words) -> ManagementResult:
        known = {*self._picture().shown, *self._stores.values.read()}
        forgotten = [anyio.from_thread.run(self._stores.remove, one) for one in sorted(known)]
        return ManagementResult(any(forgotten))

    # -- settings -------------------------------------------------------------------------------

    def settings(self, words: Words) -> SettingsView:
        loaded = load_all(self._options)
        values, source = shown_settings(settings_of(self._config, loaded), words.get("scope", "merged"))
        revision = None if source is None else loaded.ambient.revisions.get(source)
        return SettingsView(Attachment(to_json(values)), source, revision, self._picture().findings)

    def change_settings(self, words: Words) -> ManagementResult:
        scope, patch = words["scope"], words["patch"]
        before = settings_of(self._config, load_all(self._options))
        changed, warnings = changed_settings(
            self._places.settings(scope), scope, patch, before, words.get("expected_revision")
        )
        after = settings_of(self._config, load_all(self._options))
        return outcome_of_settings(changed, warnings, patch, scope, after)

    # -- approvals ------------------------------------------------------------------------------

    def pending(self, _: Words) -> Any:
        return preview(self._config, self._options).pending

    def answer(self, words: Words, answer: Answer) -> ManagementResult:
        picture = self._picture()
        bundle_id = words.get("bundle_id", "")
        member = picture.servers.get(bundle_id)
        if member is None and answer != "approve_all":
            raise ConfigValidationError("there is no such server", code="unknown_server", bundle_id=bundle_id)
        message = AnswerApproval(answer, bundle_id, words.get("fingerprint"))
        changed = answered(message, member, picture.rules, self._places)
        if member is None:
            return ManagementResult(changed, written_scope="local", warnings=(AT_THE_NEXT_START,))
        after = self._picture()
        result = outcome_of(changed, after.servers.get(bundle_id, member), answer, after.settings)
        return msgspec.structs.replace(result, warnings=(*result.warnings, AT_THE_NEXT_START))

    def _picture(self) -> Picture:
        return preview(self._config, self._options).picture


OPERATIONS: Mapping[str, Callable[[Intents, Words], Any]] = {
    "input.list": Intents.inputs,
    "input.define": Intents.define,
    "input.undefine": Intents.undefine,
    "input.set": Intents.set_input,
    "input.unset": Intents.unset_input,
    "input.clear": Intents.clear_inputs,
    "settings.show": Intents.settings,
    "settings.change": Intents.change_settings,
    "server.pending": Intents.pending,
    "server.approve": lambda intents, words: intents.answer(words, "approve"),
    "server.deny": lambda intents, words: intents.answer(words, "deny"),
    "server.approve_all": lambda intents, words: intents.answer(words, "approve_all"),
}
