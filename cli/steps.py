"""What an operation is at while it takes long: a line that changes on a terminal, lines in a pipe; all on stderr.

With `--json` each line is a JSON object with `event`, so that stdout stays one document.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .output import Output, printable

if TYPE_CHECKING:
    from rich.progress import Progress

MIB = 1024 * 1024


class Steps:
    """Shows steps as they are told; a context that takes its line away at the end."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._ends = ExitStack()
        self._bar: Progress | None = None
        self._last = ""

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def tell(self, step: Mapping[str, Any]) -> None:
        """One step: `what` it is done with, the word for it, and the `size` of a fetch so far."""
        size = step.get("size")
        heading = f"{step['step']} {step['what']}"
        if self._output.as_json:
            self._output.event({"event": "progress", **step})
        elif self._output.errors_on_terminal:
            self._show(heading if size is None else f"{heading}: {size / MIB:.1f} MiB")
        elif heading != self._last:
            self._output.note(heading)
        self._last = heading

    def _show(self, text: str) -> None:
        if self._bar is None:
            from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._output.error_console(), transient=True)
            self._bar.add_task("", total=None)
            self._ends.enter_context(self._bar)
        self._bar.update(self._bar.task_ids[0], description=printable(text))
