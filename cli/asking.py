"""Asking whoever sits at the terminal: values of inputs, and approvals of a project's servers (R-GATE-12, R-CLI-3).

Only where stdin and stderr are a terminal; a pipe is nobody. Questions go to stderr, since
stdout carries results, and one is asked at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

import anyio

from ..actors.reconcile.values.prompting import Question
from ..wire.messages.projection import PendingApproval
from .open_question import QUESTION
from .output import one_line, printable

_ANSWERS = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "all": "all"}
MOST = 64 * 1024
"""Bytes of an answer."""


class Terminal:
    """Where questions are asked and answers typed."""

    def __init__(self) -> None:
        self._turn = anyio.Lock()

    async def ask(self, text: str, *, hidden: bool = False) -> str | None:
        """One line of answer, `None` when there will be none (end of input)."""
        _forget_typed()
        try:
            # Unseen before the question is there: whoever is quick, or pastes, answers at once.
            with _without_echo() if hidden else nullcontext(), QUESTION.standing(printable(text)):
                line = await _line()
        finally:
            if hidden:
                print(file=sys.stderr, flush=True)
        return line

    async def value(self, question: Question) -> object | None:
        """A value for an input; an empty answer leaves it to the default."""
        async with self._turn:
            lines = [f"{one_line(question.description)} ({one_line(question.input_id)}, for {question.bundle_id})"]
            lines += [
                f"  {number}) {one_line(option.label)}" for number, option in enumerate(question.options, start=1)
            ]
            shown = "" if question.default is None else f" [{one_line(_word(question.default))}]"
            choices = f" ({'/'.join(map(one_line, question.choices))})" if question.choices else ""
            answer = await self.ask("\n".join(lines) + f"{choices}{shown}:", hidden=question.kind == "secret")
        if not answer:
            return None
        if question.options:
            return _position(answer, len(question.options))
        if question.choices and answer in question.choices:
            return answer == question.choices[0]
        return answer

    async def approval(self, request: PendingApproval) -> str | None:
        """An answer to an approval request; anything that is none leaves the server pending.

        All of a project are approved by the whole word only: an `a` may have been meant for something else.
        """
        async with self._turn:
            answer = await self.ask("\n".join(described(request)) + "\nRun it? yes / no / all of this project:")
        return _ANSWERS.get((answer or "").strip().lower())


def described(request: PendingApproval) -> Iterator[str]:
    """A request in lines: everything to decide by, and nothing secret."""
    yield one_line(f"{request.bundle_id} {request.reason}:")
    facts = {
        "name": request.name,
        "declared by": f"{request.origin}, {request.source}",
        "runs" if request.transport == "stdio" else "connects to": request.target,
        "inputs": ", ".join(request.inputs),
        "variables": ", ".join(request.variables),
        "plugin": request.plugin_id or "",
        "changed": "; ".join(request.differences),
    }
    for name, text in facts.items():
        if text:
            yield f"  {name:12} {one_line(text)}"


def terminal() -> Terminal | None:
    """The terminal, where there is somebody to ask."""
    return Terminal() if sys.stdin.isatty() and sys.stderr.isatty() else None


async def _line() -> str | None:
    """A line from stdin, read when there is something to read, so that waiting for it can be cancelled."""
    descriptor = sys.stdin.fileno()
    typed = b""
    while not typed.endswith(b"\n") and len(typed) < MOST:
        await anyio.wait_readable(descriptor)
        data = os.read(descriptor, MOST)
        if not data:
            return typed.decode(errors="replace") or None
        typed += data
    return typed.decode(errors="replace").rstrip("\r\n")


def _forget_typed() -> None:
    """Forgets what was typed before the question was there to be read: it is no answer to it."""
    try:
        import termios  # noqa: PLC0415 - exists on POSIX only
    except ImportError:
        return
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


@contextmanager
def _without_echo() -> Iterator[None]:
    """Types unseen, as far as the system can do that."""
    try:
        import termios  # noqa: PLC0415 - exists on POSIX only
    except ImportError:
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(descriptor, termios.TCSADRAIN, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _position(answer: str, count: int) -> object:
    """The position of the option that was numbered so; any other answer as it is, for the chain to refuse."""
    number = int(answer) if answer.isascii() and answer.isdecimal() and len(answer) < 9 else 0
    return number - 1 if 1 <= number <= count else answer


def _word(default: str | int | bool) -> str:
    return ("yes" if default else "no") if isinstance(default, bool) else str(default)
