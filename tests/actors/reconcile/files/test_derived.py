"""Derived files: a header for people, tolerance for what is in them, and a broken one is set aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from smcp_runtime.actors.reconcile.files.derived import HEADER, read_derived, write_derived

spec = pytest.mark.spec


@spec("R-FILE-5")
def test_it_starts_with_its_header_and_holds_its_version(tmp_path: Path) -> None:
    write_derived(tmp_path / "known.json", {"marketplaces": {"名": 1}})
    assert (tmp_path / "known.json").read_text("utf-8") == (
        f'{HEADER}\n{{\n  "version": 1,\n  "marketplaces": {{\n    "名": 1\n  }}\n}}\n'
    )


@spec("R-FILE-10")
def test_header_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text(f'\n{HEADER}\n// more\n\n{{"version": 1, "marketplaces": {{}}}}')
    assert read_derived(path, ("marketplaces",)) == ({"marketplaces": {}}, ())
    assert read_derived(tmp_path / "missing.json", ("marketplaces",)) == ({}, ())


@spec("R-FILE-10")
def test_what_is_odd_is_noted_and_what_is_recognised_used(tmp_path: Path) -> None:
    path = tmp_path / "known.json"
    path.write_text('{"version": 9, "marketplaces": {"a": 1}, "mine": 2}')
    fields, notes = read_derived(path, ("marketplaces",))
    assert fields == {"marketplaces": {"a": 1}}
    assert len(notes) == 2


@spec("R-FILE-10")
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_broken_one_is_set_aside_under_the_moment_it_was_found(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "known.json"
    path.write_bytes(content)
    fields, notes = read_derived(path, ("marketplaces",), wall_clock=lambda: 0.0)
    assert fields == {}
    assert len(notes) == 1
    assert not path.exists()
    assert (tmp_path / "known.json.corrupt-19700101T000000Z.bak").read_bytes() == content
