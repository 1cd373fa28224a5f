"""Diagnostics of skills: said once, and never so many that they push everything else out of the log."""

from __future__ import annotations

import pytest

from smcp_runtime.actors.skills.notes import MAX_NOTES, NoteBook
from smcp_runtime.wire.messages.skills import SkillNote


def note(place: str, text: str = "malformed") -> SkillNote:
    return SkillNote("error", "mcp:shop", place, text)


@pytest.mark.spec("DEC-6", "F-120")
def test_a_source_with_thousands_of_faults_is_logged_up_to_a_number_and_shown_with_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    book = NoteBook()
    for number in range(MAX_NOTES + 50):
        book.write("mcp:shop", f"skill://a/{number}", [note(f"skill://a/{number}")])
    assert len(caplog.messages) == MAX_NOTES + 1
    assert caplog.messages[-1] == "skills of mcp:shop: further notes are counted, not logged"
    assert book.all()[-1].text == "50 more notes"
    book.write("mcp:shop", "skill://a/0", [note("skill://a/0", "worse")])
    assert caplog.messages[-1] == "skills of mcp:shop: skill://a/0: worse"
