"""The question that stands on the terminal and waits for its answer; what else is written there keeps off its line.

A process has one terminal at most, so there is one of these. `asking` opens it; the log and the ready line go aside.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class OpenQuestion:
    """A line without an end, where somebody may be typing."""

    def __init__(self) -> None:
        self._line: str | None = None

    @contextmanager
    def standing(self, text: str) -> Iterator[None]:
        """Shows a question; it stands until the context ends."""
        print(text, end=" ", file=sys.stderr, flush=True)
        self._line = text.rpartition("\n")[2]
        try:
            yield
        finally:
            self._line = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Around whatever else is written to the terminal: on a line of its own, and then the question again."""
        if self._line is not None:
            print(file=sys.stderr, flush=True)
        yield
        if self._line is not None:
            print(self._line, end=" ", file=sys.stderr, flush=True)


QUESTION = OpenQuestion()
