"""Managing one running Computer: inputs, approvals, settings, files (03 §11).

Reached as `computer.manage`. Trusted and local: no Agent can get here. Servers are named by
bundle_id alone, inputs by their resolved id (R-MGMT-2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from ...wire.base import to_json
from ...wire.codec import Attachment
from ...wire.errors import ConfigValidationError, PartialFailureError
from ...wire.message import Ask
from ...wire.messages.management import (
    AnswerApproval,
    AuthorizeServer,
    ChangeSettings,
    ClearInputs,
    DeclareServer,
    DefineInput,
    DefiningScope,
    GetPendingDifferences,
    InputView,
    ListInputs,
    ManagementResult,
    ReloadFiles,
    SetInput,
    SettingsView,
    ShownScope,
    ShowSettings,
    UndefineInput,
    UnsetInput,
    WritableScope,
)
from ...wire.messages.mcp import ServerStatus
from ...wire.messages.projection import ChangeResult, GetProjectionStatus, PendingApproval
from ...wire.messages.servers import AcceptTools, ListServers, RemoveServer, ServerView, SwitchServer
from ..plugins.manage import ManagePlugins

R = TypeVar("R")

AUTHORIZE_LIMIT = 330.0
"""Seconds for a person to authorize a server, and for the server to start anew."""


class Operate(Protocol):
    """Carries an operation out; one that `mutates` takes its turn among all operations (R-LIFE-2)."""

    async def __call__(self, message: Ask[R], *, mutates: bool, limit: float = ...) -> R: ...


class Manage:
    """The operations. All raise `ConflictError` (`lifecycle`) while the Computer is not running."""

    def __init__(self, operate: Operate) -> None:
        self._operate = operate
        self.plugins = ManagePlugins(operate)

    # -- inputs ---------------------------------------------------------------------------

    async def inputs(self) -> tuple[InputView, ...]:
        """All defined inputs: who refers to them and where a value would come from; never a secret."""
        return (await self._operate(ListInputs(), mutates=False)).inputs

    async def define_input(
        self,
        definition: Mapping[str, Any],
        scope: DefiningScope = "local",
        *,
        expected_revision: str | None = None,
    ) -> ManagementResult:
        """Defines an input in a file, or with the scope `run` until the Computer stops.

        An id that a file defines already is changed there, whatever the scope (R-FILE-11).

        Raises:
            ConfigValidationError: The object is faulty, or the file cannot be understood.
            ConflictError: Its variable is another input's (`env_name_collision`), or the file is held or another.
            PolicyError: Policy defines this id.
        """
        message = DefineInput(given(definition, "definition"), scope, expected_revision)
        return await self._operate(message, mutates=True)

    async def undefine_input(self, input_id: str) -> ManagementResult:
        """Takes a definition away from this run and from all files people may write; its value stays.

        Raises:
            PolicyError, ConflictError: It is defined elsewhere (`read_only_scope`, `managed_by_plugin`).
        """
        return await self._operate(UndefineInput(input_id), mutates=True)

    async def input(self, input_id: str) -> InputView:
        """One input: its definition, who refers to it and where a value would come from; never a secret.

        Raises:
            ConfigValidationError: There is no such input (`unknown_input`).
        """
        return view_named(await self.inputs(), input_id)

    async def set_input(self, input_id: str, value: str | int | bool, *, for_run: bool = False) -> ManagementResult:
        """Keeps a value of an input; running servers take it at their next start (R-INPUT-20).

        Args:
            for_run: In memory only, and ahead of every other source.
        Raises:
            ConfigValidationError: There is no such input (`unknown_input`), or the value does not fit.
            InvalidSelectionError: It is no option.
        """
        message = SetInput(input_id, json_of(value, "value"), for_run)
        return await self._operate(message, mutates=True)

    async def unset_input(self, input_id: str) -> ManagementResult:
        """Forgets the value of an input, wherever it is kept."""
        return await self._operate(UnsetInput(input_id), mutates=True)

    async def clear_inputs(self) -> ManagementResult:
        """Forgets the values of all inputs."""
        return await self._operate(ClearInputs(), mutates=True)

    # -- approvals ------------------------------------------------------------------------

    async def pending(self) -> tuple[PendingApproval, ...]:
        """Servers that wait for an approval, with everything to decide by (R-GATE-12)."""
        return (await self._operate(GetProjectionStatus(), mutates=False)).pending

    async def approve(self, bundle_id: str, fingerprint: str | None = None) -> ManagementResult:
        """Approves a server as it is now and starts it.

        Args:
            fingerprint: That of the request which was shown; another server by now is refused then.
        Raises:
            ConfigValidationError: There is none of this bundle_id (`unknown_server`).
            ConflictError: It is not as it was shown any more (`stale_approval`).
            PolicyError: The administrator denies it.
        """
        return await self._operate(AnswerApproval("approve", bundle_id, fingerprint), mutates=True)

    async def deny(self, bundle_id: str) -> ManagementResult:
        """Denies a server; one that runs is stopped."""
        return await self._operate(AnswerApproval("deny", bundle_id), mutates=True)

    async def approve_all(self) -> ManagementResult:
        """Approves every server of the project, those to come included."""
        return await self._operate(AnswerApproval("approve_all"), mutates=True)

    async def authorize(self, bundle_id: str) -> ServerStatus:
        """Has an HTTP server authorized and starts it anew; a person has a few minutes for it (R-MCP-25).

        The page is shown as the option `browser` says. Nothing of it is visible to an Agent.

        Raises:
            ConfigValidationError: There is no such server (`unknown_server`), or it takes none (`no_authorization`).
            AuthError: It was not granted (`not_granted`), or there is no browser (`no_browser`).
            NetworkError: The server or its authorization server cannot be reached.
        """
        return await self._operate(AuthorizeServer(bundle_id), mutates=True, limit=AUTHORIZE_LIMIT)

    # -- servers --------------------------------------------------------------------------

    async def declare(
        self, server: Mapping[str, Any], scope: WritableScope = "local", *, expected_revision: str | None = None
    ) -> ManagementResult:
        """Adds or changes a server in a file and mounts it; the object is written as it is given (R-CORE-9).

        An identity that a file holds already is changed there, whatever the scope (R-FILE-11).

        Raises:
            ConfigValidationError: The object is faulty, or the file cannot be understood.
            ConflictError: The name is another server's in that file (`name_taken`), or the file is held or another.
            PolicyError: Policy declares this identity.
        """
        message = DeclareServer(given(server, "server"), scope, expected_revision)
        return await self._operate(message, mutates=True)

    async def servers(self) -> tuple[ServerView, ...]:
        """All members of the set, those that may not run included."""
        return (await self._operate(ListServers(), mutates=False)).servers

    async def remove(self, bundle_id: str) -> ManagementResult:
        """Deletes a server from all files people may write; what stands below shows again.

        Raises:
            PolicyError, ConflictError: It is declared elsewhere (`read_only_scope`, `managed_by_plugin`, `mounted`).
        """
        return await self._operate(RemoveServer(bundle_id), mutates=True)

    async def enable(self, bundle_id: str) -> ManagementResult:
        """Takes back that a server is disabled, wherever that may be written."""
        return await self._operate(SwitchServer(bundle_id, True), mutates=True)

    async def disable(self, bundle_id: str) -> ManagementResult:
        """Disables a server in local settings.

        Raises:
            ConflictError: It comes with a plugin (`managed_by_plugin`).
        """
        return await self._operate(SwitchServer(bundle_id, False), mutates=True)

    async def accept_tools(self, bundle_id: str) -> ManagementResult:
        """Takes the tools of a server as they are now; those held because they changed are shown (F-117)."""
        return await self._operate(AcceptTools(bundle_id), mutates=True)

    # -- settings and files -----------------------------------------------------------------

    async def settings(self, scope: ShownScope = "merged") -> SettingsView:
        """The settings as they count in this run."""
        return await self._operate(ShowSettings(scope), mutates=False)

    async def change_settings(
        self, scope: WritableScope, patch: Mapping[str, Any], *, expected_revision: str | None = None
    ) -> ManagementResult:
        """Changes the settings file of a scope: objects by key, arrays as a whole, null deletes (R-FILE-9).

        Args:
            expected_revision: Refuses the change when the file is another one (R-FILE-7).
        Raises:
            ConfigValidationError, PolicyError: The change holds what does not belong there, or policy decides it.
            ConflictError: The file is held by another process, or is another one.
        """
        message = ChangeSettings(scope, given(patch, "patch"), expected_revision)
        return await self._operate(message, mutates=True)

    async def reload(self) -> ManagementResult:
        """Absorbs what changed on disk, in files of the options too; one that is broken now counts as it was.

        Spec: R-PLUGIN-26.
        """
        return await self._operate(ReloadFiles(), mutates=True)

    async def pending_differences(self) -> dict[str, str]:
        """What `reload` would absorb: each file, and whether it was added, changed or removed."""
        return (await self._operate(GetPendingDifferences(), mutates=False)).files


def given(value: Mapping[str, Any], what: str) -> Attachment:
    """An object that a caller passed, as the JSON it has to be.

    Raises:
        ConfigValidationError: It is none, or holds what has no JSON (`bad_json`); does not quote it.
    """
    if not isinstance(value, Mapping):
        raise ConfigValidationError(f"{what} must be an object", code="wrong_type", field=what)
    return json_of(dict(value), what)


def json_of(value: Any, what: str) -> Attachment:
    """As `given`, for any value."""
    try:
        return Attachment(to_json(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        name = type(error).__name__
        raise ConfigValidationError(f"{what} holds what has no JSON ({name})", code="bad_json", field=what) from None


def values_of(view: SettingsView) -> dict[str, Any]:
    """The settings in a view."""
    values: dict[str, Any] = msgspec.json.decode(view.values.data)
    return values


def view_named(views: Iterable[InputView], input_id: str) -> InputView:
    """The view of one input.

    Raises:
        ConfigValidationError: There is none (`unknown_input`).
    """
    for view in views:
        if view.id == input_id:
            return view
    raise ConfigValidationError(f"no input has the id {input_id!r}", code="unknown_input", input_id=input_id)


def partial_failure(result: ChangeResult) -> PartialFailureError:
    """What a change ends with that not every server could take; these go on as they were (R-LIFE-17)."""
    applied = (*result.started, *result.stopped, *result.restarted, *result.remeta)
    message = f"{', '.join(result.failed)} could not take the change and run on as they were"
    return PartialFailureError(message, applied=applied, failed=result.failed)
