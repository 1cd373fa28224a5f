"""Intent files: one writer at a time, old or new content, and nothing done to a file nobody understands."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from smcp_runtime.actors.reconcile.files import lock
from smcp_runtime.actors.reconcile.files.atomic import MAX_BYTES, read_file, replace_file
from smcp_runtime.actors.reconcile.files.intent import change_intent, read_intent
from smcp_runtime.wire.errors import ConfigValidationError, ConflictError, StartupError

spec = pytest.mark.spec


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a2c" / "settings.json"


@spec("R-SCOPE-4")
def test_a_missing_file_says_nothing(file: Path) -> None:
    intent = read_intent(file, "settings")
    assert (intent.tree, intent.revision) == ({}, None)
    assert not file.parent.exists()


@spec("R-FILE-4", "R-FILE-5")
def test_a_change_makes_the_file_and_leaves_nothing_beside_it_but_the_lock(file: Path) -> None:
    change = change_intent(file, "settings", lambda _: {"名": "你好", "list": ["b", "a"]})
    assert change.changed
    assert file.read_text("utf-8") == '{\n  "名": "你好",\n  "list": [\n    "b",\n    "a"\n  ]\n}\n'
    assert sorted(path.name for path in file.parent.iterdir()) == ["settings.json", "settings.json.lock"]


@spec("R-FILE-3")
def test_files_locks_and_directories_we_make_are_private_and_existing_modes_stay(file: Path) -> None:
    change_intent(file, "settings", lambda _: {"a": 1})
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.with_name("settings.json.lock").stat().st_mode) == 0o600
    file.chmod(0o644)
    change_intent(file, "settings", lambda _: {"a": 2})
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@spec("R-FILE-12")
def test_a_change_to_what_is_there_already_writes_nothing(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"a":1}')
    before = file.stat()
    assert not change_intent(file, "settings", lambda _: {"a": 1, "b": None}).changed
    after = file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@spec("R-FILE-7")
def test_a_change_computed_from_an_older_revision_is_refused(file: Path) -> None:
    first = change_intent(file, "settings", lambda _: {"a": 1}).intent
    second = change_intent(file, "settings", lambda _: {"a": 2}, expected=first.revision).intent
    with pytest.raises(ConflictError) as caught:
        change_intent(file, "settings", lambda _: {"a": 3}, expected=first.revision)
    assert (caught.value.code, caught.value.retryable) == ("stale_write", True)
    assert read_intent(file, "settings").revision == second.revision


@spec("R-FILE-8", "T-SCOPE-4", "F-112")
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("settings", b"{not json"),
        ("settings", b""),
        ("settings", b"[]"),
        ("settings", b'{"a": "\xff"}'),
        ("mcp", b'{"servers": []}'),
        ("mcp", b'{"mcpServers": 5}'),
        ("mcp", b'{"inputs": {}}'),
        ("mcp", b"[" * 100_000),
    ],
)
def test_t_scope_4_a_file_nobody_understands_is_not_written_to(file: Path, kind: str, content: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(ConfigValidationError) as caught:
        change_intent(file, kind, lambda _: {"a": 1})  # type: ignore[arg-type]
    assert caught.value.code == "corrupt_file"
    assert str(file) in caught.value.message
    assert file.read_bytes() == content
    with pytest.raises(ConfigValidationError):
        read_intent(file, kind)  # type: ignore[arg-type]


@spec("R-FILE-9")
@pytest.mark.parametrize("held", [["q@acme"], "q@acme", 5])
def test_what_stands_where_an_object_belongs_is_not_taken_away_by_a_change_within_that(
    file: Path, held: object
) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"enabledPlugins": held}))
    before = file.read_bytes()
    with pytest.raises(ConfigValidationError) as caught:
        change_intent(file, "settings", lambda _: {"enabledPlugins": {"p@acme": True}})
    assert (caught.value.code, caught.value.field) == ("corrupt_file", "enabledPlugins")
    assert str(file) in caught.value.message
    assert file.read_bytes() == before
    # Who means it may delete it, or put another value in its place.
    assert change_intent(file, "settings", lambda _: {"enabledPlugins": None}).intent.tree == {}


@spec("R-FILE-12")
@pytest.mark.parametrize(("held", "wanted"), [(1, True), (0, False), ([1], [True]), ({"a": 1}, {"a": True})])
def test_a_number_is_not_the_truth_value_that_python_takes_it_for(file: Path, held: object, wanted: object) -> None:
    file.parent.mkdir()
    file.write_text(json.dumps({"x": held}))
    assert change_intent(file, "settings", lambda _: {"x": wanted}).changed
    assert json.dumps(read_intent(file, "settings").tree) == json.dumps({"x": wanted})
    assert not change_intent(file, "settings", lambda _: {"x": wanted}).changed


@spec("R-FILE-8")
def test_a_change_may_not_break_the_shape_of_a_file(file: Path) -> None:
    with pytest.raises(ConfigValidationError):
        change_intent(file, "mcp", lambda _: {"servers": []})
    assert not file.exists()


def test_a_file_larger_than_any_declaration_is_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    with file.open("wb") as sparse:
        sparse.truncate(50 * 1024 * 1024)
    with pytest.raises(ConfigValidationError) as caught:
        read_file(file)
    assert caught.value.code == "too_large"
    assert str(MAX_BYTES // 1024**2) in caught.value.message


@spec("R-FILE-6", "T-SCOPE-3")
def test_t_scope_3_a_lock_that_is_held_all_the_time_ends_in_a_retryable_conflict_without_a_write(file: Path) -> None:
    slept: list[float] = []
    with lock.locked(file), pytest.raises(ConflictError) as caught, lock.locked(file, sleep=slept.append):
        raise AssertionError("the body ran without the lock")
    assert (caught.value.code, caught.value.retryable) == ("lock_timeout", True)
    assert slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0]


@spec("R-FILE-6")
def test_a_lock_that_is_given_back_in_time_is_taken(file: Path) -> None:
    holder = lock.locked(file)
    holder.__enter__()
    released: list[float] = []

    def give_back(delay: float) -> None:
        released.append(delay)
        if len(released) == 3:
            holder.__exit__(None, None, None)

    with lock.locked(file, sleep=give_back):
        assert len(released) == 3


@spec("R-FILE-4")
def test_a_disk_that_refuses_leaves_the_old_content_and_no_rest(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_intent(file, "settings", lambda _: {"a": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StartupError) as caught:
        change_intent(file, "settings", lambda _: {"a": 2})
    assert caught.value.code == "unwritable"
    assert read_intent(file, "settings").tree == {"a": 1}
    assert not list(file.parent.glob("*.tmp"))


@spec("R-FILE-4")
def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_text("{}")
    link.symlink_to(real)
    change_intent(link, "settings", lambda _: {"a": 1})
    assert link.is_symlink()
    assert read_intent(real, "settings").tree == {"a": 1}


@spec("R-FILE-4")
def test_a_reader_sees_old_or_new_content_and_never_a_mix(file: Path) -> None:
    replace_file(file, b"a" * 100_000)
    done = threading.Event()

    def write() -> None:
        for letter in b"bcdefghij":
            replace_file(file, bytes([letter]) * 100_000)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        seen.append(file.read_bytes())
    writer.join(10)
    assert all(len(content) == 100_000 and len(set(content)) == 1 for content in seen)


@spec("R-SCOPE-13", "R-FILE-8")
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device", "directory", "link to itself"])
def test_what_is_no_regular_file_is_refused_at_once_and_not_written_over(file: Path, kind: str) -> None:
    file.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    else:
        file.symlink_to({"device": "/dev/null", "link to a device": "/dev/zero"}.get(kind, file))
    for use in (lambda: read_intent(file, "settings"), lambda: change_intent(file, "settings", lambda _: {"a": 1})):
        with pytest.raises(ConfigValidationError) as caught:
            use()
        assert str(file) in caught.value.message
    assert os.path.lexists(file)
    assert not list(file.parent.glob("*.tmp"))


@spec("R-FILE-8")
def test_a_file_that_is_nested_too_deep_is_not_written_to(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"a":' * 700 + "1" + "}" * 700)
    before = file.read_bytes()
    with pytest.raises(ConfigValidationError) as caught:
        change_intent(file, "settings", lambda _: {"b": 1})
    assert (caught.value.code, file.read_bytes()) == ("corrupt_file", before)
