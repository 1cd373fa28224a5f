"""Which files of a package can be read: every way out of it, and every spelling of what is forbidden in it."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcp_runtime.actors.skills import beneath, package_file
from smcp_runtime.actors.skills.forbidden import ForbiddenNames
from smcp_runtime.actors.skills.package_file import open_package_file
from smcp_runtime.actors.skills.rel_path import Refused

spec = pytest.mark.spec
FORBIDDEN = ForbiddenNames()
CAP = 1_000


@pytest.fixture(params=["held", "checked"])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening: by handles, and the fallback of systems that have none."""
    if request.param == "checked":
        monkeypatch.setattr(beneath, "HAS_HANDLES", False)
        monkeypatch.setattr(package_file, "HAS_HANDLES", False)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    (package / "docs").mkdir(parents=True)
    (package / "SKILL.md").write_text("skill")
    (package / "docs" / "a.md").write_text("a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    return package


def read(root: Path, rel_path: str) -> bytes:
    with open_package_file(str(root), rel_path, FORBIDDEN, CAP) as file:
        return os.read(file.found.fd, 10_000)


def why(root: Path, rel_path: str) -> str:
    with pytest.raises(Refused) as caught:
        read(root, rel_path)
    return caught.value.reason


pytestmark = pytest.mark.usefixtures("sandbox")


class TestForm:
    @spec("C-SKILL-66a", "C-SEC-11", "T-SEC-4")
    @pytest.mark.parametrize(
        "path",
        [
            *("../outside/secret.txt", "docs/../../outside/secret.txt", "..", "docs/..", "/etc/passwd", "//etc/passwd"),
            *(
                "/",
                "docs\\a.md",
                "..\\x",
                "C:\\x",
                "C:x",
                "a:b",
                "SKILL.md::$DATA",
                "SKILL.md\0",
                "\0",
                "a\nb",
                "a\x7fb",
            ),
            *("a\x85b", "\ud800", "a" * 256, "é" * 128, "a/" * 512 + "a", "x" * 300_000),
        ],
    )
    def test_a_path_with_a_bad_form_is_traversal(self, root: Path, path: str) -> None:
        assert why(root, path) == "traversal"

    @spec("C-SKILL-67")
    @pytest.mark.parametrize(
        "path", ["docs/a.md", "./docs/a.md", "docs//a.md", "docs/./a.md", "docs/a.md/", "./././docs/a.md"]
    )
    def test_dots_and_empty_segments_do_not_count(self, root: Path, path: str) -> None:
        assert read(root, path) == b"a"

    @spec("C-SKILL-67")
    @pytest.mark.parametrize("path", [".", "./", "././."])
    def test_a_path_with_nothing_left_is_not_found(self, root: Path, path: str) -> None:
        assert why(root, path) == "not_found"

    @spec("C-SKILL-66a")
    def test_the_longest_allowed_path_is_looked_for(self, root: Path) -> None:
        assert why(root, "/".join(["a" * 255] * 4)) == "not_found"
        assert why(root, "/".join(["a" * 255] * 4) + "/b") == "traversal"


class TestForbidden:
    @spec("C-SKILL-66b", "C-SEC-12")
    @pytest.mark.parametrize(
        "path",
        [
            *(".skillenv", ".SKILLENV", ".skillenv.", ".skillenv ", "docs/.skillenv", ".skillenv/a", ".git/config"),
            *("．skillenv", "docs/../.skillenv"[8:], "id_rsa", "keys/tls.pem", "a/.env.production"),
        ],
    )
    def test_a_forbidden_name_anywhere_is_forbidden_whether_it_exists_or_not(self, root: Path, path: str) -> None:
        assert why(root, path) == "forbidden"
        for name in (".skillenv", "docs/.skillenv", "id_rsa"):
            (root / name).write_text("KEY=canary")
        assert why(root, path) == "forbidden"

    @spec("C-SKILL-66a", "C-SKILL-66b")
    def test_form_is_judged_before_forbidden_names(self, root: Path) -> None:
        assert why(root, "../.skillenv") == "traversal"
        assert why(root, "/.skillenv") == "traversal"

    @spec("C-SKILL-69", "C-SEC-13")
    def test_no_call_to_the_file_system_is_made_for_a_forbidden_name(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[str] = []
        for name in ("open", "stat", "lstat", "scandir", "listdir", "readlink"):
            real = getattr(os, name)

            def spied(*arguments: Any, name: str = name, real: Any = real, **more: Any) -> Any:
                calls.append(name)
                return real(*arguments, **more)

            monkeypatch.setattr(os, name, spied)
        assert why(root, "docs/.skillenv") == "forbidden"
        assert why(root, "../x") == "traversal"
        assert calls == []
        assert why(root, "docs/missing") == "not_found"
        assert calls

    @spec("C-SKILL-66d", "C-SEC-12")
    def test_a_link_to_a_forbidden_file_is_forbidden_whether_its_target_exists_or_not(self, root: Path) -> None:
        (root / "link.md").symlink_to(".skillenv")
        assert why(root, "link.md") == "forbidden"
        (root / ".skillenv").write_text("KEY=canary")
        assert why(root, "link.md") == "forbidden"

    @spec("C-SKILL-66d", "C-SEC-12")
    def test_a_link_into_a_forbidden_directory_is_forbidden(self, root: Path) -> None:
        (root / ".git").mkdir()
        (root / ".git" / "config").write_text("canary")
        (root / "shown").symlink_to(".git")
        assert why(root, "shown/config") == "forbidden"

    @spec("C-SKILL-66d", "C-SEC-12")
    @pytest.mark.parametrize("secret", [".skillenv", "docs/.skillenv", ".git/hooks"])
    def test_a_hard_link_to_a_forbidden_file_is_forbidden(self, root: Path, secret: str) -> None:
        (root / secret).parent.mkdir(exist_ok=True)
        (root / secret).write_text("KEY=canary")
        os.link(root / secret, root / "notes.md")
        assert why(root, "notes.md") == "forbidden"

    @spec("C-SKILL-66d")
    def test_a_hard_link_to_a_harmless_file_is_read(self, root: Path) -> None:
        os.link(root / "SKILL.md", root / "copy.md")
        assert read(root, "copy.md") == b"skill"


class TestLinks:
    @spec("C-SKILL-66c", "C-SEC-11", "R-SEC-10")
    def test_a_link_that_leaves_the_package_is_traversal(self, root: Path) -> None:
        (root / "file.md").symlink_to("../outside/secret.txt")
        (root / "absolute.md").symlink_to(root.parent / "outside" / "secret.txt")
        (root / "folder").symlink_to("../outside")
        (root / "docs" / "up").symlink_to("../..")
        (root / "etc").symlink_to("/etc")
        paths = ("file.md", "absolute.md", "folder/secret.txt", "docs/up/outside/secret.txt", "etc/passwd", "etc/none")
        assert {why(root, path) for path in paths} == {"traversal"}

    @spec("C-SKILL-66c", "C-SEC-11")
    def test_a_link_that_leaves_the_package_for_nothing_is_traversal_too(self, root: Path) -> None:
        (root / "nowhere").symlink_to("../outside/missing")
        assert why(root, "nowhere") == "traversal"

    @spec("C-SKILL-66c", "C-SEC-11")
    def test_a_loop_of_links_is_traversal(self, root: Path) -> None:
        (root / "a").symlink_to("b")
        (root / "b").symlink_to("a")
        (root / "self").symlink_to("self")
        assert {why(root, path) for path in ("a", "b", "self", "a/x")} == {"traversal"}

    @spec("C-SKILL-66c")
    def test_a_link_inside_the_package_is_followed(self, root: Path) -> None:
        (root / "one").symlink_to("docs/a.md")
        (root / "docs" / "two").symlink_to("../one")
        (root / "three").symlink_to(root / "docs" / "two")
        (root / "back").symlink_to("../package/docs")
        (root / "around").symlink_to("docs/../docs/./a.md")
        assert {read(root, path) for path in ("one", "docs/two", "three", "back/a.md", "around")} == {b"a"}

    @spec("C-SKILL-66c")
    def test_a_package_reached_through_links_is_judged_by_where_it_really_lies(self, root: Path) -> None:
        alias = root.parent / "alias"
        alias.symlink_to("package")
        (root / "absolute").symlink_to(alias / "docs" / "a.md")
        assert read(alias, "absolute") == b"a"
        assert read(root, "absolute") == b"a"


class TestKinds:
    @spec("C-SKILL-66e")
    def test_what_is_no_readable_regular_file_is_not_found(self, root: Path) -> None:
        os.mkfifo(root / "fifo")
        (root / "dangling").symlink_to("missing")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(root / "socket"))
            paths = ("missing", "docs", "docs/", "fifo", "socket", "SKILL.md/x", "missing/x", "dangling")
            assert {path: why(root, path) for path in paths} == dict.fromkeys(paths, "not_found")

    @spec("C-SKILL-66e")
    def test_a_package_that_is_gone_is_not_found(self, root: Path) -> None:
        assert why(root / "missing", "SKILL.md") == "not_found"
        assert why(root / "SKILL.md", "SKILL.md") == "not_found"

    @spec("C-SKILL-66f")
    def test_a_file_above_the_cap_is_too_large_and_the_size_is_told(self, root: Path) -> None:
        (root / "exact.bin").write_bytes(b"x" * CAP)
        assert len(read(root, "exact.bin")) == CAP
        (root / "large.bin").write_bytes(b"x" * (CAP + 1))
        with pytest.raises(Refused) as caught:
            read(root, "large.bin")
        assert (caught.value.reason, caught.value.total_size) == ("too_large", CAP + 1)

    @spec("C-SKILL-67")
    def test_descriptors_are_given_back_whatever_the_answer(self, root: Path) -> None:
        (root / "up").symlink_to("../outside/secret.txt")
        (root / "large.bin").write_bytes(b"x" * (CAP + 1))
        before = len(os.listdir("/proc/self/fd"))
        for path in ("docs/a.md", "docs/missing", "up", "large.bin", "docs", ".skillenv", "../x"):
            with contextlib.suppress(Refused):
                read(root, path)
        assert len(os.listdir("/proc/self/fd")) == before


# -- a generated tree --------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c", ".skillenv", ".git"])
PLACES = st.lists(NAMES, min_size=1, max_size=2)
TARGETS = st.one_of(
    PLACES,
    st.lists(st.sampled_from(["..", ".", "a", "b", "out", "package", ".skillenv", ".git"]), min_size=1, max_size=4),
    st.sampled_from([[".."], ["..", "out"], ["..", "a"], ["..", "out", "a"], ["..", "package", "a"]]),
)
ENTRIES = st.lists(
    st.tuples(PLACES, st.sampled_from(["file", "dir", "link", "link", "absolute"]), TARGETS), min_size=1, max_size=8
)
NOISE = st.lists(st.sampled_from(["..", ".", "", "a", "b", "out", ".GIT", ".skillenv"]), max_size=2)


@st.composite
def trees(draw: st.DrawFn) -> tuple[Any, str]:
    """The entries of a tree, and a path that leads to one of them or past it."""
    entries = draw(ENTRIES)
    parts = draw(st.sampled_from([parts for parts, _, _ in entries]))
    return entries, "/".join([*parts, *draw(NOISE)])


def grow(root: Path, entries: Any) -> None:
    """Makes a tree; entries that do not fit are left out."""
    for parts, kind, target in entries:
        place = root.joinpath(*parts)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            # What is written through a link must still say where it really lies.
            real = place.parent.resolve() / place.name
            if not real.is_relative_to(root.resolve()) or place.is_symlink():
                continue
            if kind == "file":
                hidden = any(part in FORBIDDEN for part in real.relative_to(root.resolve()).parts)
                place.write_text("forbidden" if hidden else "inside")
            elif kind == "dir":
                place.mkdir()
            elif kind == "link":
                place.symlink_to("/".join(target))
            else:
                place.symlink_to(root.parent.joinpath(*target))
        except OSError:
            continue


@spec("C-SKILL-66", "C-SEC-11", "C-SEC-12", "R-SEC-10")
@settings(max_examples=500)
@given(tree=trees())
def test_whatever_the_tree_and_the_path_only_permitted_files_inside_are_ever_read(
    tree: tuple[Any, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("tree")
    (top / "out").mkdir()
    for name in ("a", "b", "c", "out/a", "out/b"):
        (top / name).write_text("outside")
    root = top / "package"
    (root / ".git").mkdir(parents=True)
    for name in (".skillenv", ".git/a", ".git/b"):
        (root / name).write_text("forbidden")
    entries, path = tree
    grow(root, entries)
    with contextlib.suppress(Refused):
        assert read(root, path) == b"inside"
