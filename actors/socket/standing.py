"""Where a Computer stands towards its Server, as its runtime knows it from the outside.

Pure. Answers of the SocketActor and facts about it arrive in any order; the numbers of the
changes say which is newer. What is kept here is also what a restarted SocketActor is told.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...wire.errors import ActorLost, Failure, to_failure
from ...wire.lifecycle import Phase
from ...wire.messages.socket import LinkChanged, LinkPhase, LinkStatus, LinkTarget

PHASES: Final[dict[LinkPhase, Phase]] = {
    "offline": "started",
    "connecting": "connecting",
    "connected": "connected",
    "joined": "joined_office",
}


class Wish(msgspec.Struct, frozen=True):
    """Where the Computer wants to be; what a restarted actor returns to."""

    target: LinkTarget | None = None
    office: str | None = None

    def upheld(self, phase: LinkPhase, office: str | None) -> tuple[LinkPhase, str | None]:
        """Phase and office as a life tells them that returns to this wish.

        A try that failed, or has not come to the office yet, ends no wish: another one follows.
        """
        if self.target is None:
            return phase, office
        return "connecting" if phase == "offline" else phase, office or self.office


class Standing:
    """Phase of the link, the wish behind it, and why it was lost.

    Attributes:
        phase: What the link makes of a running Computer's phase.
        wish: The Server and the office to be in.
        failure: Why the link was lost or the office given up; `None` after a success.
    """

    def __init__(self) -> None:
        self.phase: Phase = "started"
        self.wish = Wish()
        self.failure: Failure | None = None
        self._number = 0

    @property
    def office(self) -> str | None:
        """The office it is in."""
        return self.wish.office if self.phase == "joined_office" else None

    @property
    def turned_away(self) -> bool:
        """Whether the link or the office was lost and is not looked for any more."""
        return self.failure is not None and self.phase in ("started", "connected")

    def connecting(self, target: LinkTarget) -> None:
        """A connection is wished for."""
        self.phase, self.wish, self.failure = "connecting", Wish(target), None

    def refused(self) -> None:
        """The first connection failed: there is no wish."""
        self.phase, self.wish = "started", Wish()

    def reported(self, status: LinkStatus) -> None:
        """The SocketActor answered."""
        if status.change >= self._number:
            self._number = status.change
            self._moved(status.phase, status.office)

    def learned(self, fact: LinkChanged) -> bool:
        """The SocketActor announced a change; false when it is news no more, or of an attempt given up meanwhile."""
        if fact.number <= self._number:
            return False
        self._number = fact.number
        if self.wish.target is None:
            return False
        self._moved(fact.phase, fact.office)
        self.failure = fact.error
        return True

    def left(self) -> None:
        """The office was left on request."""
        self.wish = Wish(self.wish.target)
        if self.phase == "joined_office":
            self.phase = "connected"

    def ended(self) -> None:
        """The connection was ended on request."""
        self.phase, self.wish, self.failure = "started", Wish(), None

    def actor_down(self, *, returns: bool) -> None:
        """The SocketActor died: its next life restores the wish, if there is one."""
        wished = self.wish.target is not None
        self.phase = "connecting" if returns and wished else "started"
        if wished and not returns:
            self.failure = to_failure(ActorLost("the link to the Server broke too often", code="actor_down"))

    def _moved(self, phase: LinkPhase, office: str | None) -> None:
        self.phase = PHASES[phase]
        if phase == "offline":
            self.wish = Wish()
        elif phase != "connecting":
            self.wish = Wish(self.wish.target, office)
