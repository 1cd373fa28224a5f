"""What management asks of `reconcile`: inputs, approvals, settings (03 §11). Local; no Agent can send these."""

from __future__ import annotations

from typing import Literal

from ..codec import Attachment
from ..message import Ask, Record
from .mcp import ServerStatus

WritableScope = Literal["user", "project", "local"]
DefiningScope = Literal["user", "project", "local", "run"]
ShownScope = Literal["user", "project", "local", "embed", "flag", "policy", "merged"]
Answer = Literal["approve", "deny", "approve_all"]


class ManagementResult(Record):
    """What an operation changed (R-MGMT-3).

    `effective` says whether it counts now; if not, `shadowed_by` names the layer that stands above it.
    `written_scope` is the scope or store that was written to.
    """

    changed: bool
    effective: bool = True
    shadowed_by: str | None = None
    written_scope: str | None = None
    warnings: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()


class InputView(Record):
    """One input as an operator may see it; `value` is JSON, and there only for what is no secret.

    `place` says where a value is kept (`run`, `keyring`, `file`), `variable` which environment variable supplies one
    now; either may be `None`. `servers` are the bundle_ids that refer to it, `variables` all names looked for.
    `definition` is JSON, without the default of a secret; `origin` and `source` are its scope and file.
    """

    id: str
    type: str
    kind: str
    description: str
    place: str | None = None
    variable: str | None = None
    value: Attachment | None = None
    servers: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    definition: Attachment | None = None
    origin: str = ""
    source: str = ""


class InputViews(Record):
    """All defined inputs, by id."""

    inputs: tuple[InputView, ...]


class ListInputs(Ask[InputViews]):
    """The inputs; never a secret's value."""


class SetInput(Ask[ManagementResult]):
    """Keeps a value of an input; `value` is JSON. `for_run` keeps it in memory, ahead of every other source.

    Raises `ConfigValidationError` (`unknown_input`, `bad_value`, `no_value`), `InvalidSelectionError`.
    """

    input_id: str
    value: Attachment
    for_run: bool = False

    def __repr__(self) -> str:
        return f"SetInput({self.input_id!r}, …)"


class UnsetInput(Ask[ManagementResult]):
    """Forgets the value of an input wherever it is kept; an id that is not defined any more is fine."""

    input_id: str


class ClearInputs(Ask[ManagementResult]):
    """Forgets the values of all inputs that are defined, and every one in the value store."""


class DefineInput(Ask[ManagementResult]):
    """Defines an input (JSON) in the file of a scope, or where its id stands already; `run` is for this run alone.

    Raises `ConfigValidationError`, `ConflictError` (`env_name_collision`, `stale_write`, `lock_timeout`),
    `PolicyError` (`policy_shadowed`).
    """

    definition: Attachment
    scope: DefiningScope = "local"
    expected_revision: str | None = None


class UndefineInput(Ask[ManagementResult]):
    """Takes a definition away: that of this run, and those of all files people may write. Values stay.

    Raises `PolicyError`, `ConflictError` (`read_only_scope`, `managed_by_plugin`).
    """

    input_id: str


class AnswerApproval(Ask[ManagementResult]):
    """Answers a pending approval in local settings (R-GATE-12). `fingerprint` is that of the request which was shown.

    Raises `ConfigValidationError` (`unknown_server`), `ConflictError` (`stale_approval`: the server is another now).
    """

    answer: Answer
    bundle_id: str = ""
    fingerprint: str | None = None


class SettingsView(Record):
    """Settings of one scope, or of all, as JSON; `source` is the file, `revision` that of its content."""

    values: Attachment
    source: str | None = None
    revision: str | None = None
    findings: tuple[str, ...] = ()


class ShowSettings(Ask[SettingsView]):
    """The settings as they count in this run."""

    scope: ShownScope = "merged"


class ChangeSettings(Ask[ManagementResult]):
    """Changes the settings file of a scope; `patch` is a JSON object, null deletes (R-FILE-9).

    Raises `ConflictError` (`stale_write`, `lock_timeout`), `ConfigValidationError` (`corrupt_file` and faults of the
    values), `PolicyError` (policy decides the field, or the scope may not supply it).
    """

    scope: WritableScope
    patch: Attachment
    expected_revision: str | None = None


class DeclareServer(Ask[ManagementResult]):
    """Writes a server object (JSON) into the file of a scope, or where its identity stands already (R-FILE-11).

    In `project` and `local` that approves it as well (R-GATE-14). Raises `ConfigValidationError`, `ConflictError`
    (`name_taken`, `stale_write`, `lock_timeout`), `PolicyError`.
    """

    server: Attachment
    scope: WritableScope = "local"
    expected_revision: str | None = None


class AuthorizeServer(Ask[ServerStatus]):
    """Has an HTTP server authorized, with a person at a browser of this machine if it takes one, and starts it anew.

    Raises `ConfigValidationError` (`unknown_server`, `no_authorization`), `PolicyError`, `AuthError` (`not_granted`),
    `NetworkError`.
    """

    bundle_id: str


class ReloadFiles(Ask[ManagementResult]):
    """Absorbs what changed on disk since the files were read (R-PLUGIN-26)."""


class PendingDifferences(Record):
    """Files that are not as they were read, and what happened to each: added, changed, removed."""

    files: dict[str, str]


class GetPendingDifferences(Ask[PendingDifferences]):
    """What `ReloadFiles` would absorb."""
