"""The pulse: who has been heard lately, and whether we ourselves were away.

Any frame is a sign of life; beats only fill silence. A process that was stopped must not
judge others by the time it slept, nor work on what queued up meanwhile: its peers have
given it up and told their callers so. Pure: times are passed in.
"""

from __future__ import annotations

import msgspec

EVERY = 1.0
LOST_AFTER = 5.0


class Pulse(msgspec.Struct, frozen=True):
    """Seconds between beats, and seconds of silence after which a peer is lost."""

    every: float = EVERY
    lost_after: float = LOST_AFTER

    def __post_init__(self) -> None:
        if not 0 < self.every < self.lost_after:
            raise ValueError("a peer cannot be lost before its next beat is due")


class Watch:
    """Our own presence: `tick` is called about every `pulse.every` seconds while the process runs."""

    def __init__(self, pulse: Pulse, now: float) -> None:
        self.pulse = pulse
        self._ticked = now

    def tick(self, now: float) -> None:
        """We are here."""
        self._ticked = now

    def was_away(self, now: float) -> bool:
        """Whether we were absent for so long that our peers count us as lost."""
        return now - self._ticked > self.pulse.lost_after
