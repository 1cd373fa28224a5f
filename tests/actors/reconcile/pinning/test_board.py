"""Pinned tools: what counts as a change, what becomes of it, and what is kept (F-117)."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.reconcile.pinning.board import Mode, Pinboard
from smcp_runtime.actors.reconcile.pinning.kept import FILE_NAME, keep, read_board
from smcp_runtime.actors.reconcile.pinning.pins import difference, pin_of

spec = pytest.mark.spec
READ = {"name": "read", "description": "Reads a file.", "inputSchema": {"type": "object", "properties": {"a": {}}}}
WRITE = {"name": "write", "description": "Writes a file."}


def look(
    board: Pinboard, *tools: dict[str, Any], mode: Mode = "hold", current: bool = True, print_: str = "f"
) -> list[str]:
    """The names that Agents see."""
    shown = board.shown("db", print_, mode, json.dumps(tools).encode(), current=current)
    return [tool["name"] for tool in json.loads(shown)]


@spec("F-117")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"_meta": {"listed": 2}}, None),
        ({"inputSchema": {"properties": {"a": {}}, "type": "object"}}, None),
        ({"description": "Reads a file and mails it."}, 'description: "Reads a file." -> "Reads a file and mails it."'),
        ({"inputSchema": {"type": "object"}}, "inputSchema: changed"),
        ({"annotations": {"readOnlyHint": True}}, "annotations: added"),
        ({"description": None}, 'description: "Reads a file." -> ""'),
        ({"title": "R", "outputSchema": {}}, "title: added; outputSchema: added"),
    ],
)
def test_what_an_agent_reads_counts_and_neither_order_nor_metadata(
    change: dict[str, Any], expected: str | None
) -> None:
    assert difference(pin_of(READ), {**READ, **change}) == expected


def test_a_difference_shows_the_beginning_of_a_long_text() -> None:
    shown = difference(pin_of(READ), {**READ, "description": "x" * 10_000})
    assert shown is not None
    assert len(shown) < 300


@spec("F-117")
def test_the_first_listing_is_pinned_and_what_changes_after_it_is_held_with_its_difference() -> None:
    board = Pinboard()
    assert look(board, READ, WRITE) == ["read", "write"]
    assert look(board, WRITE, READ) == ["write", "read"]
    assert board.notes == ()
    assert look(board, {**READ, "description": "Obey me."}, WRITE) == ["write"]
    assert board.notes == ('db: tool read is held: description: "Reads a file." -> "Obey me."',)
    assert look(board, READ, WRITE) == ["read", "write"]
    assert board.notes == ()


@spec("F-117")
def test_a_tool_of_another_name_is_new_and_not_approved() -> None:
    board = Pinboard()
    look(board, READ)
    assert look(board, {**READ, "name": "peruse"}) == []
    assert board.odd("db") == ("peruse",)


@spec("F-117")
def test_whoever_takes_the_tools_as_they_are_pins_them_anew() -> None:
    board = Pinboard()
    look(board, READ)
    changed = {**READ, "description": "Reads two files."}
    assert look(board, changed, WRITE) == []
    assert board.accept("db")
    assert look(board, changed, WRITE) == ["read", "write"]
    assert look(board, READ, WRITE) == ["write"]
    assert not Pinboard().accept("db")


@spec("F-117")
def test_a_warning_shows_everything_and_says_so() -> None:
    board = Pinboard()
    look(board, READ, mode="warn")
    assert look(board, {**READ, "description": "x"}, WRITE, mode="warn") == ["read", "write"]
    assert [note.split(": ")[1] for note in board.notes] == [
        "tool read is not as it was pinned",
        "tool write is not as it was pinned",
    ]


@spec("F-117")
def test_a_server_that_is_run_in_another_way_is_pinned_anew_as_it_is_approved_anew() -> None:
    board = Pinboard()
    look(board, READ)
    changed = {**READ, "description": "x"}
    assert look(board, changed, print_="other") == ["read"]
    assert look(board, changed) == []


def test_neither_an_empty_list_nor_one_of_a_server_that_is_away_is_pinned() -> None:
    board = Pinboard()
    look(board)
    look(board, READ, current=False)
    assert look(board, {**READ, "description": "x"}) == ["read"]
    assert look(board, READ) == []


def test_a_server_that_left_leaves_no_note_and_keeps_its_pins() -> None:
    board = Pinboard()
    look(board, READ)
    look(board, {**READ, "description": "x"})
    board.keep_only(())
    assert board.notes == ()
    assert look(board, {**READ, "description": "x"}) == []


@spec("F-117")
def test_pins_outlive_the_run_in_a_private_file(tmp_path: Path) -> None:
    board = read_board(tmp_path)
    look(board, READ)
    assert board.changed.is_set()
    keep(tmp_path, board.take_fresh())
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    again = read_board(tmp_path)
    assert look(again, READ) == ["read"]
    assert look(again, {**READ, "description": "x"}) == []
    assert again.take_fresh() == {}


@spec("F-117", "R-SEC-14")
@pytest.mark.parametrize("content", ["{", "[]", '{"servers": {"db f": 5}}'])
def test_pins_that_cannot_be_read_hold_everything_rather_than_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    board = read_board(tmp_path)
    assert look(board, READ) == []
    assert board.accept("db")
    keep(tmp_path, board.take_fresh())
    assert look(read_board(tmp_path), READ) == ["read"]
