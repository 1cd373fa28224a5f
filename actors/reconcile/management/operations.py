"""Management operations on files: what each writes, and what became of it. Blocking where it says so.

Nothing is written that could not become effective because policy stands above it, and no
success is reported for a value that something else shadows (R-FILE-13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....wire.errors import ConfigValidationError, ConflictError, PolicyError, SmcpError
from ....wire.messages.management import Answer, AnswerApproval, ManagementResult, ShownScope, WritableScope
from ..approval.answers import approving, approving_all, denying
from ..approval.approved import remember_approved
from ..approval.fingerprint import fingerprint_of, shown_shape
from ..approval.gate import Rules, judge_safety
from ..config.findings import Findings, error_of, render
from ..files.intent import change_intent
from ..scopes.places import Places
from ..scopes.settings import Settings, SettingsLayer, read_scope
from ..server_set import Origin, SetEntry, Verdict


def answered(message: AnswerApproval, member: SetEntry | None, rules: Rules, files: Places) -> bool:
    """Writes an answer to the local settings file; whether that changed it. Blocking.

    Args:
        member: The server it is about, `None` for all.
    Raises:
        ConflictError: The server is not the one that was shown (`stale_approval`), or the file is held.
        PolicyError: The administrator denies the server (R-FILE-13).
        ConfigValidationError, StartupError: The file cannot be understood or written.
    """
    path = files.settings("local")
    if member is None:
        return change_intent(path, "settings", approving_all).changed
    bundle_id, fingerprint = member.bundle_id, fingerprint_of(member.entry)
    if message.fingerprint not in (None, fingerprint):
        raise ConflictError(f"{bundle_id} is not as it was shown any more", code="stale_approval", bundle_id=bundle_id)
    if message.answer == "deny":
        return change_intent(path, "settings", denying(bundle_id)).changed
    objection = judge_safety(bundle_id, rules)
    if objection is not None and objection.step < 3:
        raise PolicyError(f"{bundle_id} is {objection.reason}", code="denied", bundle_id=bundle_id)
    change = change_intent(path, "settings", approving(bundle_id, fingerprint))
    with suppress(SmcpError):  # only a difference hangs on it, that may be shown one day
        remember_approved(files.state, {fingerprint: shown_shape(member.entry)})
    return change.changed


def outcome_of(changed: bool, member: SetEntry, answer: Answer, settings: Settings) -> ManagementResult:
    """What became of an answer: whether the server has the verdict it was meant to have."""
    wanted: Verdict = "ENABLED" if answer == "approve" else "DISABLED"
    if member.verdict == wanted:
        return ManagementResult(changed, written_scope="local")
    above = settings.listing("disabledMcpjsonServers", member.bundle_id)
    return ManagementResult(
        changed, False, above.label if above is not None else member.source, "local", (member.reason or "",)
    )


def outcome_of_declaring(changed: bool, scope: WritableScope, winner: SetEntry | None) -> ManagementResult:
    """What became of a declaration: whether it counts, or that of a layer above it."""
    shadow = winner.source if winner is not None and winner.origin != scope else None
    return ManagementResult(changed, shadow is None, shadow, scope)


def outcome_of_removing(changed: bool, winner: SetEntry | None) -> ManagementResult:
    """What became of a removal: whether the server is gone, or shows again as something below declares it."""
    return ManagementResult(changed, winner is None, winner.source if winner is not None else None)


def changed_settings(
    path: Path, scope: WritableScope, patch: object, before: Settings, expected: str | None
) -> tuple[bool, tuple[str, ...]]:
    """Writes a change of a scope's settings; whether it changed them, and warnings. Blocking.

    Raises:
        ConfigValidationError, PolicyError: The change holds what does not belong there; nothing is written.
        ConflictError, StartupError: See `change_intent`.
    """
    if not isinstance(patch, Mapping):
        raise ConfigValidationError("a change of settings is an object", field="patch", code="wrong_type")
    findings = Findings(str(path))
    read_scope(_without_nulls(patch), scope, str(path), findings)
    if findings.faults:
        raise error_of(findings.faults, str(path))
    for place, value in leaves(patch):
        shadow = before.shadow_of(place, scope) if value is not None else None
        if shadow is not None and shadow.origin == "policy":
            raise PolicyError(f"policy decides {'.'.join(place)}", code="policy_shadowed", field=".".join(place))
    change = change_intent(path, "settings", lambda _: patch, expected=expected)
    return change.changed, tuple(map(render, findings.warnings))


def outcome_of_settings(
    changed: bool, warnings: tuple[str, ...], patch: Mapping[str, Any], scope: WritableScope, after: Settings
) -> ManagementResult:
    """What became of a change of settings: whether a layer above keeps any part of it from counting."""
    shadows = (after.shadow_of(place, scope) for place, value in leaves(patch) if value is not None)
    shadow: SettingsLayer | None = next((found for found in shadows if found is not None), None)
    return ManagementResult(changed, shadow is None, None if shadow is None else shadow.label, scope, warnings)


def shown_settings(settings: Settings, scope: ShownScope) -> tuple[dict[str, Any], str | None]:
    """The settings of a scope as they count, and the file they come from."""
    if scope == "merged":
        return settings.merged, None
    origin: Origin = scope
    label = next((layer.label for layer in settings.layers if layer.origin == origin), None)
    return settings.of(origin), label


def leaves(patch: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every single value of a change, with its path of keys."""
    for key, value in patch.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _without_nulls(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in tree.items()
        if value is not None
    }
