"""What a server wrote to stdout that is no message: greetings, logs, garbage. Skipped, counted, reported (DEC-6)."""

from __future__ import annotations

from ....wire.redaction import Redaction

SAMPLES = 3
SAMPLE_BYTES = 120


class Noise:
    """Counts noise and keeps its first lines, cut.

    Args:
        redaction: Knows the secrets that no cut may go through; they are still in the notes (R-INPUT-23).
    """

    def __init__(self, redaction: Redaction | None = None) -> None:
        self.count = 0
        self._redaction = redaction or Redaction()
        self._samples: list[str] = []

    def add(self, line: bytes) -> None:
        """Takes one line; an empty one is no noise."""
        line = line.strip()
        if not line:
            return
        self.count += 1
        if len(self._samples) < SAMPLES:
            at = min(len(line), self._redaction.cut(line, SAMPLE_BYTES))
            text = line[:at].decode("utf-8", "replace")
            self._samples.append(text if at == len(line) else f"{text}…")

    def notes(self) -> tuple[str, ...]:
        """One diagnostic, or none."""
        if not self.count:
            return ()
        plural = "" if self.count == 1 else "s"
        return (f"{self.count} line{plural} on stdout that are no messages, first: {' | '.join(self._samples)}",)
