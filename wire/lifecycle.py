"""The life of a Computer as a table: its phases, and what each operation may do in each of them (03 §6).

Pure. The runtime asks `admit` before it acts and reports every step to a `Lifecycle`,
which numbers the changes that observers see. Nothing else decides about phases.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from .errors import ConflictError

Phase = Literal[
    "created",
    "starting",
    "started",
    "connecting",
    "connected",
    "joined_office",
    "syncing",
    "disconnecting",
    "stopping",
    "stopped",
    "shutdown",
    "error",
]
State = Phase | Literal["degraded"]
Operation = Literal["start", "connect", "join", "leave", "disconnect", "sync_config", "manage", "stop", "shutdown"]
"""`manage` stands for every change of single servers of a running Computer."""

Verdict = Literal["go", "no_op", "replace", "switch"]
"""Do it; there is nothing to do; only replace the held configuration; leave the present office, then join."""

SERVICEABLE: Final[frozenset[Phase]] = frozenset({"started", "connected", "joined_office"})
"""Phases in which an open degradation shows as the state `degraded` (R-LIFE-1)."""

RUNNING: Final[frozenset[Phase]] = SERVICEABLE | {"connecting"}
"""Phases between two operations in which the local runtime is up."""

INTERRUPTIBLE: Final[frozenset[Phase]] = frozenset({"starting", "connecting", "syncing"})
"""Phases of an operation that stop and shutdown do not wait for (R-LIFE-5)."""

_IDLE: Final[frozenset[Phase]] = frozenset({"created", "stopped", "error"})
_ONLINE: Final[frozenset[Phase]] = frozenset({"connecting", "connected", "joined_office"})
_LIVE: Final[frozenset[Phase]] = frozenset(get_args(Phase)) - {"shutdown"}

_GO: Final[dict[Operation, frozenset[Phase]]] = {
    "start": _IDLE,
    "connect": frozenset({"started"}),
    "join": frozenset({"connected"}),
    "leave": frozenset({"joined_office"}),
    "disconnect": _ONLINE,
    "sync_config": SERVICEABLE,
    "manage": RUNNING,
    "stop": _LIVE - {"created", "stopped"},
    "shutdown": _LIVE,
}
_NO_OP: Final[dict[Operation, frozenset[Phase]]] = {
    "start": _LIVE - _IDLE,
    "connect": _ONLINE,
    "join": frozenset({"joined_office"}),
    "leave": frozenset(get_args(Phase)) - {"joined_office"},
    "disconnect": frozenset(get_args(Phase)) - _ONLINE,
    "stop": frozenset({"created", "stopped", "shutdown"}),
    "shutdown": frozenset({"shutdown"}),
}


class StateChange(msgspec.Struct, frozen=True):
    """One change of the public state.

    Attributes:
        sequence: Counts the changes of one Computer from 1; observers see each once, in order (R-LIFE-26).
        at: Unix seconds.
        code: Why, when a failure caused it: its stable code.
    """

    sequence: int
    phase: Phase
    state: State
    at: float
    code: str | None = None


def admit(
    operation: Operation, phase: Phase, *, same_target: bool = True, same_office: bool = True, wished: bool = False
) -> Verdict:
    """What an operation does when it meets a phase.

    Args:
        same_target: Whether connect asks for the Server it is connected to.
        same_office: Whether join asks for the office it is in.
        wished: Whether there is an office to return to once a lost connection is back.
    Raises:
        ConflictError: It is not allowed (code `lifecycle`); nothing changes.
    Spec: 03 §6.2, R-LIFE-4.
    """
    if phase in _GO[operation] or (operation == "leave" and phase == "connecting" and wished):
        return "go"
    if operation == "sync_config" and phase in _IDLE:
        return "replace"
    if operation == "join" and phase == "joined_office" and not same_office:
        return "switch"
    if phase in _NO_OP.get(operation, ()) and (operation != "connect" or same_target):
        return "no_op"
    raise ConflictError(f"{operation} is not possible while the Computer is {phase}", code="lifecycle")


class Lifecycle:
    """Phase and state of one Computer, with the numbers of their changes."""

    def __init__(self) -> None:
        self._phase: Phase = "created"
        self._degraded = False
        self._sequence = 0

    @property
    def phase(self) -> Phase:
        """Where its life is; never `degraded`."""
        return self._phase

    @property
    def state(self) -> State:
        """The phase, or `degraded` (R-LIFE-1)."""
        return "degraded" if self._degraded and self._phase in SERVICEABLE else self._phase

    @property
    def sequence(self) -> int:
        """Number of the last change, 0 before the first."""
        return self._sequence

    def enter(self, phase: Phase, at: float, code: str | None = None) -> StateChange | None:
        """Takes the next step; `None` when neither phase nor state differs from before."""
        return self._apply(phase, self._degraded, at, code)

    def degrade(self, *, degraded: bool, at: float) -> StateChange | None:
        """Notes whether any degradation is open."""
        return self._apply(self._phase, degraded, at, None)

    def _apply(self, phase: Phase, degraded: bool, at: float, code: str | None) -> StateChange | None:
        before = (self._phase, self.state)
        self._phase, self._degraded = phase, degraded
        if (self._phase, self.state) == before:
            return None
        self._sequence += 1
        return StateChange(self._sequence, self._phase, self.state, at, code)
