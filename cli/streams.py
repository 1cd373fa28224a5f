"""The three standard streams of the process, made fit for use before anything is opened or printed."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def mend_streams() -> None:
    """Puts the null device in place of closed streams, and lets no character of a peer end a command.

    Without it the first socket of a process whose starter closed stdout would get its number, and whatever a library
    prints would go out to a peer.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or _reopened(0, "r")
    sys.stdout = sys.stdout or _reopened(1, "w")
    sys.stderr = sys.stderr or _reopened(2, "w")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _reopened(number: int, mode: str) -> TextIO:
    return open(number, mode, encoding="utf-8", closefd=False)  # type: ignore[return-value]
