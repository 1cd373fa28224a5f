"""What commands print: one JSON document with `--json`, colour on a terminal, plain lines into a pipe.

Results go to stdout, everything about them (notes, progress, errors) to stderr, so that a pipe gets results only.
Text that came from a peer may hold terminal control sequences; `printable` takes them out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from ..wire.errors import ConfigValidationError, PeerError, SmcpError, StartupError

if TYPE_CHECKING:
    from rich.console import Console

Progress = Callable[[int, int], None]

_STEERING = (*range(32), *range(127, 160), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Control characters, line ends that are none of ASCII, and what turns the direction of a text."""
_CONTROL = {code: "\N{REPLACEMENT CHARACTER}" for code in _STEERING if chr(code) not in "\n\t"}
_LONGEST = 2_000
"""Letters of a foreign text that are shown to somebody who decides by it: most of its beginning, and its end."""
_END_SHOWN = 500


def printable(text: str) -> str:
    """The text without what could steer a terminal or turn a line around; line ends and tabs stay."""
    return text.translate(_CONTROL)


def one_line(text: str) -> str:
    """A foreign text on one line, so that it cannot pass for several, nor push away what comes before it."""
    shown = printable(text.replace("\n", "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}").replace("\t", " "))
    if len(shown) <= _LONGEST:
        return shown
    left_out = len(shown) - _LONGEST
    return f"{shown[: _LONGEST - _END_SHOWN]} [… {left_out} more letters …] {shown[-_END_SHOWN:]}"


class Output:
    """Prints for one command.

    Args:
        as_json: Print one JSON document on stdout and nothing else there.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.terminal = sys.stdout.isatty()
        self.errors_on_terminal = sys.stderr.isatty()

    def document(self, value: Any) -> None:
        """The JSON document of this command, whatever the mode; one line when piped, indented on a terminal."""
        import msgspec  # noqa: PLC0415 - `smcp --help` must not pay for it

        encoded = msgspec.json.encode(value)
        if self.terminal:
            encoded = msgspec.json.format(encoded, indent=2)
        with printing():
            sys.stdout.buffer.write(encoded + b"\n")
            sys.stdout.buffer.flush()

    def line(self, value: Any) -> None:
        """One JSON value on a line of its own, for commands that go on printing."""
        import msgspec  # noqa: PLC0415

        with printing():
            sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
            sys.stdout.buffer.flush()

    def text(self, text: str, *, style: str | None = None) -> None:
        """A result for people; with `--json` the document says it."""
        if self.as_json:
            return
        with printing():
            if self.terminal and style:
                self._console().print(printable(text), style=style, markup=False, highlight=False)
            else:
                print(printable(text), flush=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]], *, headed: bool = False) -> None:
        """Rows for people: aligned with a heading on a terminal, separated by tabs in a pipe.

        Args:
            headed: Whether a pipe gets the heading too, since rows such as counts do not say what they are.
        """
        if self.as_json:
            return
        cleaned = [[" ".join(printable(cell).split()) for cell in row] for row in rows]
        if not self.terminal:
            with printing():
                for row in [columns, *cleaned] if headed else cleaned:
                    print(*row, sep="\t", flush=True)
            return
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for row in cleaned:
            table.add_row(*map(Text, row))
        self._console().print(table)

    def note(self, text: str) -> None:
        """Something worth knowing that is no result."""
        with suppress(OSError):  # nobody can read notes there, which is no reason to fail
            print(printable(text), file=sys.stderr, flush=True)

    def event(self, value: Any) -> None:
        """Something that happens on the way, as a line of JSON beside the document."""
        import msgspec  # noqa: PLC0415

        with suppress(OSError):
            print(msgspec.json.encode(value).decode(), file=sys.stderr, flush=True)

    def error_console(self) -> Console:
        """Where people see what is no result."""
        return self._console(stderr=True)

    def error(self, error: BaseException) -> None:
        """Why the command failed: on stderr for people, with `--json` also as the document.

        A protocol error is its flat ErrorPayload in both (W-ERR-1).
        """
        facts = describe(error)
        if self.as_json:
            with suppress(OSError, StartupError):  # the first failure is the one that counts
                self.document(facts)
        heading = f"error {facts['code']}: {facts['message']}" if "code" in facts else f"error: {facts['message']}"
        lines = [heading, *_places(facts)]
        if isinstance(error, ConfigValidationError):
            told = [f"  {finding.field or '(whole)'}: {finding.reason}" for finding in error.findings]
            lines += [line for line in told if line not in heading]
        text = printable("\n".join(lines))
        with suppress(OSError):
            if self.errors_on_terminal:
                self._console(stderr=True).print(text, style="red", markup=False, highlight=False)
            else:
                print(text, file=sys.stderr, flush=True)

    def working(self, title: str) -> AbstractContextManager[object]:
        """A spinner with the time gone by, on stderr and only while that is a terminal."""
        if self.as_json or not self.errors_on_terminal:
            return nullcontext()
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        bar = Progress(*columns, console=self._console(stderr=True), transient=True)
        bar.add_task(printable(title), total=None)
        return bar

    @contextmanager
    def progress(self, title: str) -> Iterator[Progress]:
        """A bar of bytes on stderr while that is a terminal; yields what is told (bytes so far, bytes in total)."""
        if self.as_json or not self.errors_on_terminal:
            yield lambda _done, _total: None
            return
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
        from rich.progress import Progress as Bar  # noqa: PLC0415

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Bar(*columns, console=self._console(stderr=True), transient=True) as bar:
            task = bar.add_task(printable(title), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    def _console(self, *, stderr: bool = False) -> Console:
        from rich.console import Console  # noqa: PLC0415

        return Console(stderr=stderr, soft_wrap=not self.terminal)


def facts_of(record: Any) -> dict[str, Any]:
    """The fields of a record by name; messages travel as arrays, and people read objects."""
    return {name: getattr(record, name) for name in record.__struct_fields__}


def describe(error: BaseException) -> dict[str, Any]:
    """An error as JSON data: the flat ErrorPayload of a peer, else category, code, message and place.

    What is no error of ours keeps only its type's name: its text may hold anything.
    """
    if isinstance(error, PeerError):
        return error.payload
    if not isinstance(error, SmcpError):
        return {"category": "internal", "code": "internal", "message": f"unexpected {type(error).__name__}"}
    facts: dict[str, Any] = {"category": error.category, "code": error.code, "message": error.message}
    for name in ("field", "source", "bundle_id", "plugin_id", "input_id", "retry_hint"):
        if value := getattr(error, name):
            facts[name] = value
    if isinstance(error, ConfigValidationError) and error.findings:
        facts["findings"] = [
            {name: getattr(finding, name) for name in finding.__struct_fields__} for finding in error.findings
        ]
    return facts


def _places(facts: dict[str, Any]) -> list[str]:
    shown = ("category", "code", "message", "findings", "details")
    return [f"  {name}: {value}" for name, value in facts.items() if name not in shown]


@contextmanager
def printing() -> Iterator[None]:
    """Around whatever is written to stdout.

    Raises:
        BrokenPipeError: Whoever read the results has gone.
        StartupError: They cannot be written, to a full disk for example; the command failed, and nothing of ours did.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        reason = f"stdout cannot be written: {error.strerror}"
        raise StartupError(reason, code="unwritable", retry_hint="print to somewhere else") from None


def silence_stdout() -> None:
    """Call when stdout cannot be written any more: the interpreter must not complain about what is still buffered."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
