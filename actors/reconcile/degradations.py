"""Open degradations (R-LIFE-24): what does not work now, since when, and what would help. They close by themselves."""

from __future__ import annotations

from collections.abc import Mapping

from ...wire.errors import Finding, SmcpError
from ...wire.messages.mcp import ServerStatus
from ...wire.messages.projection import Degradation

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
    """The register of one Computer, by component and identity."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Degradation] = {}

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
        return known != found

    def close(self, component: str, identity: str) -> bool:
        """Closes an entry; `False` when there was none."""
        return self._open.pop((component, identity), None) is not None

    def of(self, component: str, identity: str) -> Degradation | None:
        """The open entry of one, if there is one."""
        return self._open.get((component, identity))

    def snapshot(self) -> tuple[Degradation, ...]:
        """All open entries, ordered by component and identity."""
        return tuple(self._open[place] for place in sorted(self._open))

    def lose(self, found: Mapping[tuple[str, str], Finding], now: float) -> None:
        """Makes what is lost on disk, by component and identity, all that is open of these components."""
        for component, identity in tuple(self._open):
            if component in _ON_DISK and (component, identity) not in found:
                self.close(component, identity)
        for (component, identity), finding in found.items():
            reason = f"{finding.field}: {finding.reason}"
            hint = _HINTS.get(finding.category)
            self.open(Degradation(component, identity, finding.category, finding.code, now, reason, hint))

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
    return status.connection == "connected" or status.activation == "stopped"


def degradation_of_error(bundle_id: str, error: SmcpError, now: float) -> Degradation:
    """The degradation of a server that an operation failed for; `now` in Unix seconds."""
    hint = error.retry_hint or _HINTS.get(error.category)
    return Degradation("server", bundle_id, error.category, error.code, now, error.message, hint)
