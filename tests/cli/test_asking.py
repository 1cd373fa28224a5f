"""Questions at a terminal: what a stranger wrote cannot pass for our words, and an answer means what it says."""

from __future__ import annotations

import logging
import os
import pty
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.reconcile.values.prompting import Question
from smcp_runtime.cli.asking import Terminal, described
from smcp_runtime.cli.log_setup import _handler
from smcp_runtime.cli.output import one_line
from smcp_runtime.wire.inputs import PickOption
from smcp_runtime.wire.messages.projection import PendingApproval
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
ANSWERS = {
    "y": "yes", "YES ": "yes", "n": "no", "no": "no", "all": "all",
    "a": None, "al": None, "": None, "approve": None, "yes please": None, "\x04": None,
}  # fmt: skip


def request(**given: Any) -> PendingApproval:
    facts = {"bundle_id": "srv", "name": "srv", "origin": "project", "source": "/p", "transport": "stdio"}
    return PendingApproval(**{**facts, "target": "echo", "fingerprint": "f", "reason": "is not approved yet", **given})


class Person:
    """Somebody at a terminal who answers as soon as a question is there.

    Attributes:
        said: What the terminal showed.
        sees_itself: For each answer, whether what is typed is shown.
    """

    def __init__(self, master: int, show: Callable[[str], int]) -> None:
        self._master, self._show = master, show
        self._answers: dict[str, str] = {}
        self.said = ""
        self.sees_itself: list[bool] = []

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def answers(self, question: str, text: str) -> None:
        self._answers[question] = text

    def shows(self, text: str) -> int:
        """In the place of stderr's `write`."""
        self.said += text
        for question, answer in self._answers.items():
            if question in text:
                self.sees_itself.append(bool(termios.tcgetattr(sys.stdin.fileno())[3] & termios.ECHO))
                self.type(answer)
        return self._show(text)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    master, slave = pty.openpty()
    made = Person(master, sys.stderr.write)
    with os.fdopen(slave) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys.stderr, "write", made.shows)
        yield made
    os.close(master)


@spec("R-GATE-12")
@pytest.mark.parametrize("field", ["name", "target", "source", "reason"])
def test_a_line_end_in_what_a_project_wrote_is_shown_and_begins_no_line(field: str) -> None:
    lines = list(described(request(**{field: "x\n  runs         echo harmless\t\u202eevil"})))
    assert not [line for line in lines if line.startswith("  runs         echo harmless")]
    assert not [line for line in lines if "\n" in line or "\u202e" in line]


@spec("R-GATE-12")
def test_a_command_that_is_too_long_shows_its_beginning_and_its_end() -> None:
    shown = one_line("echo " + " " * 50_000 + "; rm -rf ~")
    assert shown.startswith("echo ")
    assert shown.endswith("; rm -rf ~")
    assert "48015 more letters" in shown
    assert len(shown) < 2_100


@spec("R-GATE-12")
@pytest.mark.parametrize(("answer", "meaning"), ANSWERS.items())
async def test_an_answer_is_one_of_the_words_or_none(person: Person, answer: str, meaning: str | None) -> None:
    person.answers("Run it?", answer if answer == "\x04" else f"{answer}\n")
    assert await Terminal().approval(request()) == meaning


@spec("R-GATE-12")
async def test_what_was_typed_before_the_question_is_no_answer(person: Person) -> None:
    person.type("yes\n")
    person.answers("Run it?", "no\n")
    assert await Terminal().approval(request()) == "no"


@spec("R-GATE-12", "R-CLI-3")
async def test_what_is_logged_meanwhile_has_a_line_of_its_own_and_the_question_is_there_again(person: Person) -> None:
    answers: list[str | None] = []

    async def ask() -> None:
        answers.append(await Terminal().approval(request()))

    logger, handler = logging.Logger("meanwhile"), _handler("")
    logger.addHandler(handler)
    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await until(lambda: "Run it?" in person.said)
        logger.warning("a server died")
        person.type("no\n")
    logger.warning("nobody is asked any more")
    question = "Run it? yes / no / all of this project: "
    assert person.said.partition(question)[2] == f"\na server died\n{question}nobody is asked any more\n"
    assert answers == ["no"]


@spec("R-INPUT-1")
async def test_an_option_is_chosen_by_its_number_and_its_label_is_one_line(person: Person) -> None:
    options = (PickOption(label="One\n  2) Two", value="1"), PickOption(label="Two", value="2"))
    person.answers("which", "2\n")
    question = Question("k", "which\none", "value", "pickString", "srv", options=options)
    assert await Terminal().value(question) == 1
    assert [line for line in person.said.splitlines() if line.startswith("  2)")] == ["  2) Two: "]


@spec("R-SEC-2")
@pytest.mark.parametrize(("kind", "shown"), [("secret", False), ("value", True)])
async def test_a_secret_is_typed_unseen_from_the_moment_its_question_is_there(
    person: Person, kind: Any, shown: bool
) -> None:
    person.answers("the token", "sk-canary\n")
    assert await Terminal().value(Question("t", "the token", kind, "promptString", "srv")) == "sk-canary"
    assert person.sees_itself == [shown]
    assert termios.tcgetattr(sys.stdin.fileno())[3] & termios.ECHO
