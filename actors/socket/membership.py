"""Whether this Computer takes part in an office now, and so whether requests may be executed (R-LIFE-3).

Pure. The link keeps the wish and replays it; what is decided here is the gate in front of
every `client:*` event: open from the moment a join is sent, because the others hear of us
before we do (W-ROOM-31), shut in every other phase and while draining (DEC-26).
"""

from __future__ import annotations

from ...wire.messages.socket import LinkPhase


class Membership:
    """The gate of one Computer."""

    def __init__(self) -> None:
        self._phase: LinkPhase = "offline"
        self._joining = False
        self._returning = False
        self.draining = False

    @property
    def phase(self) -> LinkPhase:
        """Where the link is."""
        return self._phase

    @property
    def serving(self) -> bool:
        """Whether requests are executed."""
        if self.draining:
            return False
        return self._phase == "joined" or (self._phase == "connected" and (self._joining or self._returning))

    @property
    def joining(self) -> bool:
        """Whether a join is under way."""
        return self._joining

    def moved(self, phase: LinkPhase, *, wished: bool) -> None:
        """The link is in this phase; `wished` says that it has an office to return to."""
        self._phase = phase
        self._returning = wished

    def asked(self) -> None:
        """A join is about to be sent."""
        self._joining = True

    def answered(self) -> None:
        """The join was answered, or never will be."""
        self._joining = False
