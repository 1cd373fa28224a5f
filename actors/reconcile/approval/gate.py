"""The approval gate: seven steps in order, the first that applies decides (R-GATE-2). Pure.

A criterion counts only from a source more trusted than the server it is about; which
settings those are is decided where settings are read (R-GATE-4). No step asks who ships a
server: whoever needs no approval is not led through the steps that give one (R-GATE-10).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ..scopes.settings import Settings
from ..scopes.trust import TRUSTED_DECLARERS
from ..server_set import Judge, Judgement, SetEntry
from .fingerprint import fingerprint_of


class Rules(msgspec.Struct, frozen=True):
    """The gate's part of merged settings.

    Attributes:
        fingerprints: What approvals were given for, by bundle_id; an id without one is approved by id alone.
        approve_all: `enableAllProjectMcpServers`, or the flag of a run that approves everything.
    """

    denied: frozenset[str] = frozenset()
    allowed: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()
    fingerprints: Mapping[str, str] = {}
    approve_all: bool = False


def rules_of(settings: Settings, *, approve_all: bool = False) -> Rules:
    """The rules in settings that were read and filtered by scope.

    Args:
        approve_all: Whether this run approves every project server; written nowhere (R-GATE-12).
    """
    return Rules(
        denied=frozenset(settings.names("deniedMcpServers")),
        allowed=frozenset(settings.names("allowedMcpServers")),
        disabled=frozenset(settings.names("disabledMcpjsonServers")),
        enabled=frozenset(settings.names("enabledMcpjsonServers")),
        fingerprints=settings.merged.get("approvedMcpServerFingerprints", {}),
        approve_all=approve_all or settings.flag("enableAllProjectMcpServers"),
    )


def judge_safety(bundle_id: str, rules: Rules) -> Judgement | None:
    """Steps 1 to 3, which every entry passes whatever its origin; `None` when none of them objects (R-GATE-3)."""
    if bundle_id in rules.denied:
        return Judgement("DISABLED", 1, "denied by policy")
    if rules.allowed and bundle_id not in rules.allowed:
        return Judgement("DISABLED", 2, "not among the servers that policy allows")
    if bundle_id in rules.disabled:
        return Judgement("DISABLED", 3, "disabled in settings")
    return None


def judge(bundle_id: str, fingerprint: str, rules: Rules, *, is_trusted: bool) -> Judgement:
    """All seven steps.

    Args:
        fingerprint: That of the winning declaration.
        is_trusted: Whether its origin is trusted to declare servers.
    """
    objection = judge_safety(bundle_id, rules)
    if objection is not None:
        return objection
    if is_trusted:
        return Judgement("ENABLED", 4)
    recorded = rules.fingerprints.get(bundle_id)
    if bundle_id in rules.enabled and recorded in (None, fingerprint):
        return Judgement("ENABLED", 5)
    if rules.approve_all:
        return Judgement("ENABLED", 6)
    if bundle_id in rules.enabled:
        return Judgement("PENDING", 7, "changed since it was approved")
    return Judgement("PENDING", 7, "not approved yet")


def judge_declared(entry: SetEntry, rules: Rules) -> Judgement:
    """The judgement of an entry that needs a trusted origin or an approval."""
    is_trusted = entry.origin in TRUSTED_DECLARERS
    return judge(entry.bundle_id, fingerprint_of(entry.entry), rules, is_trusted=is_trusted)


def is_declared(entry: SetEntry) -> bool:
    """Whether an entry was declared by a scope, and is no baseline that a plugin brings along."""
    return entry.origin != "plugin"


def gate(rules: Rules, *, needs_trust: Callable[[SetEntry], bool] = is_declared) -> Judge:
    """The gate over a set: everything passes the safety steps, what needs trust also the others (R-GATE-3).

    Args:
        needs_trust: Who is led through all steps. Whoever mounts plugins adds those that a project alone enables
            (R-GATE-9).
    """

    def judged(entry: SetEntry) -> Judgement:
        if needs_trust(entry):
            return judge_declared(entry, rules)
        return judge_safety(entry.bundle_id, rules) or Judgement()

    return judged
