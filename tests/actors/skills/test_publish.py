"""Putting packages in place: whole or not at all, and what is left behind by lives that were cut short."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.skills import publish as publishing
from smcp_runtime.actors.skills.limits import StagingFailed
from smcp_runtime.actors.skills.publish import exchange, make_directory, publish, tree_signature
from smcp_runtime.actors.skills.upkeep import bundle_directory_name, clean_up
from smcp_runtime.actors.skills.workspace import Workspace, sweep

spec = pytest.mark.spec


def package(folder: Path, mark: str, files: int = 2) -> Path:
    folder.mkdir(parents=True)
    for n in range(files):
        (folder / f"{n}.md").write_text(mark)
    return folder


@pytest.fixture(params=["exchange", "rename"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the one-step exchange of directories, and without."""
    if request.param == "rename":
        monkeypatch.setattr(publishing, "_renameat2", None)
    return str(request.param)


@pytest.mark.usefixtures("way")
class TestPublish:
    @spec("C-SKILL-17")
    def test_a_package_takes_the_place_of_the_old_one_and_nothing_else_remains(self, tmp_path: Path) -> None:
        live = tmp_path / "mcp" / "srv" / "skill"
        publish(str(package(tmp_path / "new1", "one", files=3)), str(live))
        publish(str(package(tmp_path / "new2", "two")), str(live))
        assert {path.name: path.read_text() for path in live.iterdir()} == {"0.md": "two", "1.md": "two"}
        assert [path.name for path in tmp_path.iterdir()] == ["mcp"]
        assert [path.name for path in live.parent.iterdir()] == ["skill"]

    @spec("C-SKILL-23")
    def test_the_local_secrets_file_is_carried_over_unless_the_new_package_has_one(self, tmp_path: Path) -> None:
        live = tmp_path / "live"
        publish(str(package(tmp_path / "new", "1")), str(live))
        (live / ".skillenv").write_text("KEY=mine")
        (live / ".skillenv").chmod(0o644)
        publish(str(package(tmp_path / "new", "2")), str(live))
        assert (live / ".skillenv").read_text() == "KEY=mine"
        assert stat.S_IMODE((live / ".skillenv").stat().st_mode) == 0o600
        fresh = package(tmp_path / "new", "3")
        (fresh / ".skillenv").write_text("KEY=theirs")
        publish(str(fresh), str(live))
        assert (live / ".skillenv").read_text() == "KEY=theirs"

    @spec("C-SKILL-23")
    def test_a_secrets_file_that_is_a_link_is_not_carried_over(self, tmp_path: Path) -> None:
        live = tmp_path / "live"
        publish(str(package(tmp_path / "new", "1")), str(live))
        (tmp_path / "elsewhere").write_text("x")
        (live / ".skillenv").symlink_to(tmp_path / "elsewhere")
        publish(str(package(tmp_path / "new", "2")), str(live))
        assert not os.path.lexists(live / ".skillenv")
        assert (tmp_path / "elsewhere").read_text() == "x"

    @spec("C-SKILL-17")
    def test_a_link_in_the_way_is_replaced_and_what_it_leads_to_stays(self, tmp_path: Path) -> None:
        precious = package(tmp_path / "precious", "p")
        live = tmp_path / "live"
        live.symlink_to(precious)
        publish(str(package(tmp_path / "new", "2")), str(live))
        assert not live.is_symlink()
        assert (precious / "0.md").read_text() == "p"

    @spec("C-SKILL-17", "C-SEC-18")
    def test_when_the_new_package_cannot_be_moved_the_old_one_is_still_there(self, tmp_path: Path) -> None:
        live = package(tmp_path / "live", "old")
        with pytest.raises(FileNotFoundError):
            publish(str(tmp_path / "never made"), str(live))
        assert (live / "0.md").read_text() == "old"

    @spec("C-SEC-18")
    def test_a_reader_never_finds_half_of_a_package(self, tmp_path: Path, way: str) -> None:
        live = tmp_path / "live"
        publish(str(package(tmp_path / "first", "0", files=20)), str(live))
        end, seen, missing = threading.Event(), set(), []

        def look() -> None:
            while not end.is_set():
                try:
                    folder = os.open(live, os.O_RDONLY)
                except FileNotFoundError:
                    missing.append(1)
                    continue
                try:
                    texts = set()
                    for n in range(20):
                        with open(os.open(f"{n}.md", os.O_RDONLY, dir_fd=folder)) as file:
                            texts.add(file.read())
                    seen.add(len(texts))
                except FileNotFoundError:
                    continue  # it was replaced and is being deleted
                finally:
                    os.close(folder)

        thread = threading.Thread(target=look)
        thread.start()
        for n in range(60):
            publish(str(package(tmp_path / f"new{n}", str(n), files=20)), str(live))
        end.set()
        thread.join()
        assert seen == {1}
        assert way == "rename" or not missing


@spec("C-SKILL-12", "R-FILE-3")
def test_directories_we_make_are_private_and_existing_ones_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    (tmp_path / "home").chmod(0o755)
    make_directory(str(tmp_path / "home" / "mcp" / "srv"))
    modes = [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("home", "home/mcp", "home/mcp/srv")]
    assert modes == [0o755, 0o700, 0o700]


@spec("C-SKILL-21")
def test_a_signature_changes_with_anything_that_happens_to_a_tree(tmp_path: Path) -> None:
    folder = package(tmp_path / "a", "x")
    limits = 10
    seen = [tree_signature(str(folder), limits)]
    assert tree_signature(str(folder), limits) == seen[0]
    (folder / "0.md").write_text("y")
    seen.append(tree_signature(str(folder), limits))
    (folder / "1.md").rename(folder / "2.md")
    seen.append(tree_signature(str(folder), limits))
    (folder / "sub").mkdir()
    seen.append(tree_signature(str(folder), limits))
    (folder / "sub" / "n").write_text("")
    seen.append(tree_signature(str(folder), limits))
    assert len(set(seen)) == len(seen)
    assert None not in seen
    assert tree_signature(str(folder / "gone"), limits) is None
    assert tree_signature(str(package(tmp_path / "b", "x", files=11)), limits) is None


def _die_in_the_middle(home: str, ready: Any) -> None:
    workspace = Workspace(home)
    os.mkdir(workspace.fresh())
    ready.send(os.listdir(os.path.join(home, ".staging")))
    os.kill(os.getpid(), 9)


class TestWorkspace:
    @spec("C-SKILL-12", "C-SEC-18", "R-FILE-2")
    def test_it_lies_below_the_home_and_is_private(self, tmp_path: Path) -> None:
        workspace = Workspace(str(tmp_path / "home"))
        fresh = workspace.fresh()
        assert Path(fresh).parent.parent == tmp_path / "home" / ".staging"
        assert stat.S_IMODE(os.stat(Path(fresh).parent).st_mode) == 0o700
        assert fresh != workspace.fresh()
        workspace.clear()
        workspace.release()
        assert os.listdir(tmp_path / "home" / ".staging") == []

    @spec("C-SEC-18")
    def test_what_a_killed_process_left_is_swept_by_the_next(self, tmp_path: Path) -> None:
        receiver, sender = multiprocessing.get_context("spawn").Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=_die_in_the_middle, args=(str(tmp_path), sender))
        process.start()
        process.join(20)
        left = receiver.recv()
        assert len(left) == 2
        workspace = Workspace(str(tmp_path))
        assert not set(left) & set(os.listdir(tmp_path / ".staging"))
        workspace.release()

    @spec("C-SEC-18")
    def test_what_a_living_one_uses_is_not_swept(self, tmp_path: Path) -> None:
        first = Workspace(str(tmp_path))
        os.mkdir(first.fresh())
        (tmp_path / ".staging" / "foreign").mkdir()
        before = set(os.listdir(tmp_path / ".staging"))
        second = Workspace(str(tmp_path))
        assert before <= set(os.listdir(tmp_path / ".staging"))
        first.release()
        sweep(str(tmp_path / ".staging"))
        assert len(before - set(os.listdir(tmp_path / ".staging"))) == 2
        second.release()


class TestDirectoryNames:
    @spec("C-SKILL-13")
    def test_where_case_counts_a_server_has_a_directory_of_its_own_name(self) -> None:
        for bundle_id in ("Srv", "srv"):
            name = bundle_directory_name(bundle_id, ["Srv", "srv"], folds_case=False, name_bytes=255)
            assert name == bundle_id

    @spec("C-SKILL-13")
    def test_where_case_is_folded_a_second_server_of_that_name_gets_another_one(self) -> None:
        known = ["Srv", "other", "srv", "SRV"]
        names = {i: bundle_directory_name(i, known, folds_case=True, name_bytes=255) for i in known}
        assert names["SRV"] == "SRV"
        assert names["other"] == "other"
        assert names["srv"].startswith("srv~")
        assert len(names["srv"]) == 12
        assert len({name.casefold() for name in names.values()}) == 4

    @spec("C-SKILL-13")
    def test_a_name_longer_than_the_file_system_takes_fails(self) -> None:
        assert bundle_directory_name("x" * 255, [], folds_case=False, name_bytes=255) == "x" * 255
        with pytest.raises(StagingFailed):
            bundle_directory_name("x" * 256, [], folds_case=False, name_bytes=255)


@spec("C-SKILL-56")
def test_cleaning_up_deletes_what_is_not_in_use_and_follows_no_links(tmp_path: Path) -> None:
    kept, gone = package(tmp_path / "mcp" / "a" / "kept", "k"), package(tmp_path / "mcp" / "a" / "gone", "g")
    last = package(tmp_path / "mcp" / "b" / "last", "l")
    precious = package(tmp_path / "precious", "p")
    (tmp_path / "mcp" / "c").symlink_to(precious)
    (tmp_path / "mcp" / "a" / "link").symlink_to(precious)
    (tmp_path / "mcp" / "file").write_text("f")
    assert clean_up(str(tmp_path), lambda path: path == str(kept)) == (str(gone), str(last))
    assert sorted(path.name for path in (tmp_path / "mcp").iterdir()) == ["a", "c", "file"]
    assert (precious / "0.md").read_text() == "p"
    assert clean_up(str(tmp_path / "none"), lambda _: False) == ()


@spec("C-SKILL-17")
def test_an_exchange_needs_both_sides(tmp_path: Path) -> None:
    package(tmp_path / "a", "x")
    assert not exchange(str(tmp_path / "a"), str(tmp_path / "none"))
