"""The progress bar that a terminal sees while a tool works."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from .output import printable


class TerminalBar:
    """A spinner that becomes a bar once a total is known; gone when it is left."""

    def __init__(self, title: str, console: Console) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._title = printable(title)

    def __enter__(self) -> TerminalBar:
        self._progress.start()
        self._task = self._progress.add_task(self._title, total=None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._progress.stop()

    def show(self, done: float, total: float | None, message: str | None) -> None:
        """`done` of `total`, which is None while nobody knows it."""
        title = f"{self._title}: {printable(message)}" if message else self._title
        self._progress.update(self._task, completed=done, total=total, description=Text(title).plain)
