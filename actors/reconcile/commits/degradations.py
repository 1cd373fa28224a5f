"""Open degradations (R-LIFE-24): what does not work now, since when, and what would help. They close by themselves."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from ....wire.errors import Finding, SmcpError
from ....wire.messages.mcp import ServerStatus
from ....wire.messages.projection import Degradation
from ....wire.messages.skills import SkillNote

_HINTS = {
    "missing_input": "supply the value, then start again",
    "invalid_selection": "choose a legal option",
    "validation": "fix the declaration",
    "policy": "change policy",
    "conflict": "resolve, then reload",
    "auth": "finish the authorization",
    "network": "retry",
    "startup": "inspect the diagnostics",
}

_ON_DISK = ("settings", "inputs", "marketplace", "plugin")
"""Components whose degradations come from files and what was fetched."""


class Degradations:
    """The register of one Computer, by component and identity.

    Args:
        on_change: Called whenever an entry was opened, changed or closed.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._open: dict[tuple[str, str], Degradation] = {}
        self._on_change = on_change

    def __len__(self) -> int:
        return len(self._open)

    def open(self, found: Degradation) -> bool:
        """Opens or changes an entry; `since` of one that was open stays. `True` when something changed."""
        place = (found.component, found.identity)
        known = self._open.get(place)
        if known is not None:
            since = known.since
            found = Degradation(
                found.component, found.identity, found.category, found.code, since, found.reason, found.retry_hint
            )
        self._open[place] = found
        if known == found:
            return False
        self._on_change()
        return True

    def close(self, component: str, identity: str) -> bool:
        """Closes an entry; `False` when there was none."""
        if self._open.pop((component, identity), None) is None:
            return False
        self._on_change()
        return True

    def of(self, component: str, identity: str) -> Degradation | None:
        """The open entry of one, if there is one."""
        return self._open.get((component, identity))

    def snapshot(self) -> tuple[Degradation, ...]:
        """All open entries, ordered by component and identity."""
        return tuple(self._open[place] for place in sorted(self._open))

    def lose(self, found: Mapping[tuple[str, str], Finding], now: float) -> None:
        """Makes what is lost on disk, by component and identity, all that is open of these components."""
        self._close_others(_ON_DISK, found.keys())
        for (component, identity), finding in found.items():
            reason = f"{finding.field}: {finding.reason}"
            hint = _HINTS.get(finding.category)
            self.open(Degradation(component, identity, finding.category, finding.code, now, reason, hint))

    def take_skills(self, notes: Iterable[SkillNote], now: float) -> None:
        """Makes the errors among these notes all that is open of skills; one entry for each source of skills."""
        found: dict[str, list[SkillNote]] = {}
        for note in notes:
            if note.level == "error":
                found.setdefault(note.owner, []).append(note)
        self._close_others(("skill",), {("skill", owner) for owner in found})
        for owner, errors in found.items():
            rest = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
            reason = f"{errors[0].place}: {errors[0].text}{rest}"
            self.open(Degradation("skill", owner, "validation", "skill_error", now, reason, _HINTS["validation"]))

    def _close_others(self, components: Iterable[str], found: Container[tuple[str, str]]) -> None:
        for place in tuple(self._open):
            if place[0] in components and place not in found:
                self.close(*place)

    def follow(self, status: ServerStatus, now: float) -> bool:
        """Opens or closes the entry of a server by its status. Starting is none until its budget is over (DEC-37)."""
        found = degradation_of(status, now)
        if found is not None:
            return self.open(found)
        if is_settled_well(status):
            return self.close("server", status.bundle_id)
        return False


def degradation_of(status: ServerStatus, now: float) -> Degradation | None:
    """The degradation a status stands for; `None` for a server that works, is stopped, or is on its way up."""
    if status.activation == "stopped" or status.connection not in ("error", "authorization_required"):
        return None
    category = status.category or ("auth" if status.connection == "authorization_required" else "startup")
    code = status.code or ("parked" if status.phase == "parked" else category)
    return Degradation(
        "server", status.bundle_id, category, code, status.since or now, status.reason or "", _HINTS.get(category)
    )


def is_settled_well(status: ServerStatus) -> bool:
    """Whether a server works or is meant to be off, so that what was wrong with it no longer counts."""
    return status.connection == "connected" or status.activation == "stopped" or status.phase == "idle"


def degradation_of_error(bundle_id: str, error: SmcpError, now: float) -> Degradation:
    """The degradation of a server that an operation failed for; `now` in Unix seconds."""
    hint = error.retry_hint or _HINTS.get(error.category)
    return Degradation("server", bundle_id, error.category, error.code, now, error.message, hint)
