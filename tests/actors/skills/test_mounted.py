"""Copying a directory that a server names: which ones, and what of them."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcp_runtime.actors.skills import beneath
from smcp_runtime.actors.skills.limits import PackageLimits, StagingFailed, Stop
from smcp_runtime.actors.skills.mounted import MountRules, copy_mount, mount_directory
from smcp_runtime.actors.skills.package_writer import PackageWriter

spec = pytest.mark.spec


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    folder = tmp_path / "mount"
    (folder / "docs").mkdir(parents=True)
    (folder / "SKILL.md").write_text("skill")
    (folder / "docs" / "a.md").write_text("a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return folder


def copy(mount: Path, limits: PackageLimits | None = None, stop: Stop | None = None) -> tuple[Path, tuple[str, ...]]:
    """A copy beside the mount, and what was left out."""
    target = mount.parent / "copy"
    writer = PackageWriter(str(target), limits or PackageLimits(), stop or Stop(30, "copying"))
    return target, copy_mount(os.path.realpath(mount), writer)


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


class TestWhich:
    @spec("C-SKILL-26")
    @pytest.mark.parametrize(
        "value", [None, 7, "", "relative", "~/skills", "$HOME/skills", "/no/such/place", "/etc/passwd", "/\0"]
    )
    def test_only_an_existing_absolute_directory_is_mounted(self, value: Any) -> None:
        with pytest.raises(StagingFailed):
            mount_directory(value, MountRules(), local=True)

    @spec("C-SKILL-27", "C-SEC-15")
    def test_a_server_of_another_machine_may_only_name_what_lies_below_a_mount_root(self, mount: Path) -> None:
        with pytest.raises(StagingFailed):
            mount_directory("/etc", MountRules(), local=False)
        with pytest.raises(StagingFailed):
            mount_directory(str(mount), MountRules(roots=[str(mount)]), local=False)
        rules = MountRules(roots=["/nowhere", str(mount.parent)])
        assert mount_directory(str(mount), rules, local=False) == os.path.realpath(mount)

    @spec("C-SKILL-27", "C-SEC-15")
    def test_a_link_below_a_mount_root_is_judged_by_where_it_leads(self, mount: Path) -> None:
        (mount / "link").symlink_to("../outside")
        with pytest.raises(StagingFailed):
            mount_directory(str(mount / "link"), MountRules(roots=[str(mount)]), local=False)
        with pytest.raises(StagingFailed):
            mount_directory(str(mount / "docs" / ".." / ".." / "outside"), MountRules(roots=[str(mount)]), local=False)

    @spec("C-SKILL-28", "C-SEC-15")
    def test_neither_the_root_nor_the_users_home_nor_what_holds_our_directories_is_mounted(self, mount: Path) -> None:
        home = mount / "state" / "home"
        home.mkdir(parents=True)
        alias = mount.parent / "alias"
        alias.symlink_to(mount)
        rules = MountRules(protected=[str(home), ""], user_home=str(mount / "docs"))
        for refused in ("/", str(mount / "docs"), str(home), str(home.parent), str(mount), str(alias)):
            with pytest.raises(StagingFailed):
                mount_directory(refused, rules, local=True)
        (home / "user").mkdir()
        assert mount_directory(str(home / "user"), rules, local=True) == os.path.realpath(home / "user")


@pytest.fixture(params=["held", "checked"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "checked":
        monkeypatch.setattr(beneath, "HAS_HANDLES", False)
    return str(request.param)


@pytest.mark.usefixtures("way")
class TestWhat:
    @spec("C-SKILL-29", "C-SKILL-23")
    def test_files_are_copied_with_nothing_of_their_source_but_the_execute_bit(self, mount: Path) -> None:
        (mount / "run.sh").write_text("x")
        (mount / "run.sh").chmod(0o4755)
        (mount / "SKILL.md").chmod(0o644)
        os.link(mount / "SKILL.md", mount / "hard.md")
        target, left_out = copy(mount)
        assert files(target) == {"SKILL.md": b"skill", "hard.md": b"skill", "docs/a.md": b"a", "run.sh": b"x"}
        assert left_out == ()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in target.rglob("*")}
        assert modes == {"SKILL.md": 0o600, "hard.md": 0o600, "a.md": 0o600, "run.sh": 0o700, "docs": 0o700}
        assert (target / "SKILL.md").stat().st_nlink == 1

    @spec("C-SKILL-29", "C-SEC-15")
    def test_a_link_inside_the_mount_is_copied_as_content_and_one_that_leaves_it_is_left_out(self, mount: Path) -> None:
        (mount / "one.md").symlink_to("docs/a.md")
        (mount / "more").symlink_to("docs")
        (mount / "two.md").symlink_to(mount / "one.md")
        for name, target in {
            "x": "../outside/secret",
            "y": "/etc/passwd",
            "z": "../outside",
            "w": "nothing",
            "v": "v",
        }.items():
            (mount / name).symlink_to(target)
        target, left_out = copy(mount)
        assert files(target) == {"SKILL.md": b"skill"} | dict.fromkeys(
            ("docs/a.md", "more/a.md", "one.md", "two.md"), b"a"
        )
        assert not any(path.is_symlink() for path in target.rglob("*"))
        assert [note.startswith("5 links") for note in left_out] == [True]

    @spec("C-SKILL-29")
    def test_a_circle_of_directories_is_left_out(self, mount: Path) -> None:
        (mount / "docs" / "up").symlink_to("..")
        (mount / "docs" / "same").symlink_to(".")
        target, left_out = copy(mount)
        assert files(target) == {"SKILL.md": b"skill", "docs/a.md": b"a"}
        assert [note.startswith("2 links") for note in left_out] == [True]

    @spec("C-SKILL-29")
    def test_special_files_and_git_directories_are_left_out(self, mount: Path) -> None:
        os.mkfifo(mount / "pipe")
        (mount / ".git").mkdir()
        (mount / ".git" / "config").write_text("x")
        (mount / "docs" / ".git").mkdir()
        (mount / "shown").symlink_to(".git")
        (mount / ".gitignore").write_text("i")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(mount / "socket"))
            target, left_out = copy(mount)
        assert files(target) == {"SKILL.md": b"skill", "docs/a.md": b"a", ".gitignore": b"i"}
        assert left_out == ("2 entries that are neither files nor directories",)

    @spec("C-SKILL-24")
    @pytest.mark.parametrize(
        "limits",
        [PackageLimits(bytes=5), PackageLimits(entries=2), PackageLimits(depth=1), PackageLimits(path_bytes=8)],
    )
    def test_a_mount_above_a_limit_is_refused(self, mount: Path, limits: PackageLimits) -> None:
        with pytest.raises(StagingFailed):
            copy(mount, limits)

    @spec("C-SKILL-24", "C-GEN-14")
    def test_copying_ends_when_its_time_is_over_or_nobody_waits(self, mount: Path) -> None:
        with pytest.raises(StagingFailed) as caught:
            copy(mount, stop=Stop(0.0, "copying", clock=iter([0.0, 1.0]).__next__))
        assert caught.value.transfer
        stop = Stop(30, "copying")
        stop.give_up()
        with pytest.raises(StagingFailed):
            stop.check()


@spec("C-SKILL-29", "C-SEC-15")
def test_links_that_are_swapped_while_a_mount_is_copied_bring_nothing_in_from_outside(mount: Path) -> None:
    end = threading.Event()
    (mount / "z").mkdir()

    def swap() -> None:
        while not end.is_set():
            os.rename(mount / "z", mount / "kept")
            os.symlink("../outside", mount / "z")
            os.unlink(mount / "z")
            os.rename(mount / "kept", mount / "z")

    for n in range(30):
        (mount / "z" / f"{n}").write_text("in")
    (mount.parent / "outside" / "0").write_text("secret")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for n in range(60):
            target = mount.parent / f"copy{n}"
            writer = PackageWriter(str(target), PackageLimits(), Stop(30, "copying"))
            try:
                copy_mount(os.path.realpath(mount), writer)
            except (StagingFailed, OSError):
                continue
            finally:
                assert b"secret" not in files(target).values()
    finally:
        end.set()
        thread.join()


ENTRIES = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
        st.sampled_from(["file", "dir", "link", "link"]),
        st.lists(st.sampled_from(["..", ".", "a", "b", "out", "mount"]), min_size=1, max_size=4),
    ),
    max_size=10,
)


@spec("C-SKILL-29", "C-SEC-15")
@settings(max_examples=200)
@given(entries=ENTRIES)
def test_a_copy_of_any_tree_holds_only_what_lies_inside(entries: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    top = tmp_path_factory.mktemp("mount")
    mount = top / "mount"
    mount.mkdir()
    (top / "out").mkdir()
    for name in ("a", "b", "out/a", "out/b"):
        (top / name).write_text("outside")
    for parts, kind, target in entries:
        place = mount.joinpath(*parts)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.is_symlink() or not place.parent.resolve().is_relative_to(mount.resolve()):
                continue
            if kind == "file":
                place.write_text("inside")
            elif kind == "dir":
                place.mkdir()
            else:
                place.symlink_to("/".join(target))
        except OSError:
            continue
    writer = PackageWriter(str(top / "copy"), PackageLimits(entries=200), Stop(30, "copying"))
    try:
        copy_mount(os.path.realpath(mount), writer)
    except StagingFailed:
        return
    found = files(top / "copy")
    assert set(found.values()) <= {b"inside"}
    assert not any(path.is_symlink() for path in (top / "copy").rglob("*"))
    plain = {name for name in files(mount) if not any(p.is_symlink() for p in [mount / name, *(mount / name).parents])}
    assert plain <= set(found)
