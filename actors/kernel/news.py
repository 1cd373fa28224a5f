"""Saying what is new among diagnostics: each once, and a bounded number of lines whatever a stranger's list holds."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

LINES: Final = 20


def say_new(logger: logging.Logger, notes: Iterable[str], said: Collection[str]) -> None:
    """Logs, as warnings, the notes that are not among those said before; beyond `LINES` only how many more there are.

    A server with thousands of malformed items must not push everything else out of the log.
    """
    fresh = [note for note in dict.fromkeys(notes) if note not in said]
    for note in fresh[:LINES]:
        logger.warning("%s", note)
    if len(fresh) > LINES:
        logger.warning("and %d more like these", len(fresh) - LINES)
