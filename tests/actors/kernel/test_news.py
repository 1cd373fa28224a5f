"""What is new among diagnostics is said once, and in a bounded number of lines."""

from __future__ import annotations

import logging

import pytest

from smcp_runtime.actors.kernel.news import LINES, say_new

logger = logging.getLogger("told")


@pytest.mark.spec("DEC-6")
def test_what_was_said_before_is_not_said_again(caplog: pytest.LogCaptureFixture) -> None:
    say_new(logger, ["old", "new", "new"], {"old"})
    assert caplog.messages == ["new"]


@pytest.mark.spec("DEC-6")
def test_thousands_of_notes_are_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    say_new(logger, [f"item {number} is malformed" for number in range(5000)], ())
    assert len(caplog.messages) == LINES + 1
    assert caplog.messages[-1] == f"and {5000 - LINES} more like these"
