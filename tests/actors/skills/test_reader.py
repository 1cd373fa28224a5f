"""Reading files of packages: what they are, slices of them, and one hash for each content."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcp_runtime.actors.skills import digest
from smcp_runtime.actors.skills import reader as reader_module
from smcp_runtime.actors.skills.digest import Digests
from smcp_runtime.actors.skills.forbidden import ForbiddenNames
from smcp_runtime.actors.skills.publish import swapping
from smcp_runtime.actors.skills.reader import OutOfRange, Reader
from smcp_runtime.actors.skills.rel_path import Refused

from .conftest import sha256, skill_md

spec = pytest.mark.spec
INLINE = 100


@pytest.fixture
def digests() -> Digests:
    # Files of a test are new; a clock that is ahead makes them old enough to be remembered.
    return Digests(wall_clock=lambda: time.time() + 10)


@pytest.fixture
def reader(digests: Digests) -> Reader:
    return Reader(ForbiddenNames(), digests, cap=50_000_000, inline=INLINE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "SKILL.md").write_text(skill_md("a", body="# Body\r\n  ${TFROBOT_SKILL_DIR} ${X}\n"))
    return tmp_path


class TestDescribe:
    @spec("C-SKILL-47", "C-SKILL-63", "C-SKILL-64", "C-SKILL-72")
    def test_of_the_root_skill_md_the_bytes_behind_its_header_count_and_are_not_touched(
        self, reader: Reader, root: Path
    ) -> None:
        found = reader.describe(str(root), "SKILL.md")
        body = "# Body\r\n  ${TFROBOT_SKILL_DIR} ${X}\n"
        assert (found.body, found.total_size, found.sha256) == (body, len(body), sha256(body.encode()))
        assert found.mime_type == "text/markdown"

    @spec("C-SKILL-47")
    def test_of_any_other_file_all_bytes_count_a_nested_skill_md_included(self, reader: Reader, root: Path) -> None:
        (root / "docs").mkdir()
        (root / "docs" / "SKILL.md").write_text(skill_md("nested"))
        assert reader.describe(str(root), "docs/SKILL.md").body == skill_md("nested")

    @spec("C-SKILL-47")
    def test_a_skill_md_without_a_valid_header_counts_whole(self, reader: Reader, root: Path) -> None:
        (root / "SKILL.md").write_text("---\nname: a\nno end")
        assert reader.describe(str(root), "SKILL.md").body == "---\nname: a\nno end"

    @spec("C-SKILL-64")
    def test_text_up_to_the_inline_budget_is_given_whole_and_more_is_not(self, reader: Reader, root: Path) -> None:
        (root / "fits.txt").write_bytes(b"x" * INLINE)
        (root / "large.txt").write_bytes(b"x" * (INLINE + 1))
        (root / "empty.txt").write_bytes(b"")
        assert reader.describe(str(root), "fits.txt").body == "x" * INLINE
        assert reader.describe(str(root), "empty.txt").body == ""
        large = reader.describe(str(root), "large.txt")
        assert (large.body, large.total_size, large.sha256) == (None, INLINE + 1, sha256(b"x" * (INLINE + 1)))

    @spec("C-SKILL-64")
    def test_text_that_is_not_utf8_and_what_is_no_text_is_never_given_inline(self, reader: Reader, root: Path) -> None:
        (root / "latin.txt").write_bytes(b"\xe9")
        (root / "image.png").write_bytes(b"png")
        (root / "bom.txt").write_bytes(b"\xef\xbb\xbfx")
        assert reader.describe(str(root), "latin.txt").body is None
        assert reader.describe(str(root), "image.png").body is None
        body = reader.describe(str(root), "bom.txt").body
        assert body is not None
        assert body.encode() == b"\xef\xbb\xbfx"

    @spec("C-SKILL-62", "C-SKILL-66f")
    def test_a_file_above_the_cap_is_refused_before_a_byte_of_it_is_read(self, root: Path, digests: Digests) -> None:
        small = Reader(ForbiddenNames(), digests, cap=10, inline=INLINE)
        (root / "large.txt").write_bytes(b"x" * 11)
        with pytest.raises(Refused) as caught:
            small.describe(str(root), "large.txt")
        assert (caught.value.reason, caught.value.total_size) == ("too_large", 11)
        assert digests.computed == 0


class TestSlices:
    @spec("C-BLOB-12", "C-BLOB-14")
    @settings(max_examples=100)
    @given(size=st.integers(0, 500), offset=st.integers(0, 600), length=st.integers(0, 600))
    def test_a_slice_is_what_the_whole_has_there(
        self, size: int, offset: int, length: int, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        root = tmp_path_factory.getbasetemp() / "slices"
        root.mkdir(exist_ok=True)
        data = bytes(n % 251 for n in range(size))
        (root / "f.bin").write_bytes(data)
        made = Reader(ForbiddenNames(), Digests(), cap=1_000, inline=INLINE)
        if offset > size:
            with pytest.raises(OutOfRange) as caught:
                made.slice(str(root), "f.bin", offset, length)
            assert caught.value.total_size == size
        else:
            found = made.slice(str(root), "f.bin", offset, length)
            assert (found.data, found.total_size, found.sha256) == (data[offset : offset + length], size, sha256(data))

    @spec("C-BLOB-12", "C-SKILL-47")
    def test_offsets_of_the_root_skill_md_begin_behind_its_header(self, reader: Reader, root: Path) -> None:
        found = reader.slice(str(root), "SKILL.md", 2, 4)
        assert found.data == b"Body"
        with pytest.raises(OutOfRange):
            reader.slice(str(root), "SKILL.md", -1, 4)

    @spec("C-BLOB-14", "C-SEC-26")
    def test_a_large_file_is_hashed_once_and_never_held_whole(
        self, reader: Reader, root: Path, digests: Digests
    ) -> None:
        size = 40_000_000
        with (root / "large.bin").open("wb") as file:
            file.truncate(size)
        tracemalloc.start()
        try:
            whole = hashlib.sha256()
            for offset in range(0, size, 1_000_000):
                whole.update(reader.slice(str(root), "large.bin", offset, 1_000_000).data)
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()
        assert digests.computed == 1
        assert reader.describe(str(root), "large.bin").sha256 == whole.hexdigest()
        assert digests.computed == 1

    @spec("C-BLOB-15")
    def test_a_file_that_changes_between_hash_and_slice_is_read_once_more(
        self, reader: Reader, root: Path, digests: Digests, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = root / "f.bin"
        path.write_bytes(b"old " * 10)
        real: Callable[..., bytes] = digest.read_slice
        changes = iter([b"new " * 11])

        def changing(fd: int, offset: int, length: int) -> bytes:
            data = real(fd, offset, length)
            for change in changes:
                path.write_bytes(change)
            return data

        monkeypatch.setattr(reader_module, "read_slice", changing)
        found = reader.slice(str(root), "f.bin", 0, 8)
        assert (found.data, found.total_size, found.sha256) == (b"new new ", 44, sha256(b"new " * 11))

    @spec("C-BLOB-15")
    def test_a_file_that_never_stops_changing_is_answered_all_the_same(
        self, reader: Reader, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = root / "f.bin"
        path.write_bytes(b"0")
        real: Callable[..., bytes] = digest.read_slice
        times: list[int] = []

        def changing(fd: int, offset: int, length: int) -> bytes:
            data = real(fd, offset, length)
            times.append(1)
            path.write_bytes(b"x" * (len(times) + 1))
            return data

        monkeypatch.setattr(reader_module, "read_slice", changing)
        reader.slice(str(root), "f.bin", 0, 100)
        assert len(times) == 2

    @spec("C-SEC-18")
    def test_a_package_that_is_away_for_an_instant_is_waited_for(self, reader: Reader, root: Path) -> None:
        away = root.parent / "away"
        swapping.acquire()
        os.rename(root, away)
        found: list[str | None] = []
        thread = threading.Thread(target=lambda: found.append(reader.describe(str(root), "SKILL.md").body))
        thread.start()
        os.rename(away, root)
        swapping.release()
        thread.join(5)
        assert [text is not None for text in found] == [True]


class TestDigests:
    def of(self, digests: Digests, path: Path, start: int = 0) -> str:
        fd = os.open(path, os.O_RDONLY)
        try:
            return digests.of(fd, start)
        finally:
            os.close(fd)

    @spec("C-BLOB-14")
    def test_another_content_another_start_or_another_file_is_another_digest(
        self, tmp_path: Path, digests: Digests
    ) -> None:
        one = tmp_path / "one"
        one.write_bytes(b"abc")
        assert self.of(digests, one) == sha256(b"abc")
        assert self.of(digests, one, 1) == sha256(b"bc")
        one.write_bytes(b"abcd")
        assert self.of(digests, one) == sha256(b"abcd")
        os.utime(one, ns=(1, 1))
        assert self.of(digests, one) == sha256(b"abcd")
        assert digests.computed == 4

    @spec("C-BLOB-14")
    def test_only_so_many_are_kept_and_the_least_used_go_first(self, tmp_path: Path) -> None:
        digests = Digests(kept=2, wall_clock=lambda: time.time() + 10)
        paths = [tmp_path / name for name in "abc"]
        for path in paths:
            path.write_text(path.name)
        for index in (0, 1, 0, 2):
            self.of(digests, paths[index])
        assert digests.computed == 3
        self.of(digests, paths[0])
        assert digests.computed == 3
        self.of(digests, paths[1])
        assert digests.computed == 4

    @spec("C-BLOB-14")
    def test_what_was_written_within_one_tick_is_not_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_text("a")
        written = path.stat().st_mtime
        digests = Digests(wall_clock=lambda: written + 0.001)
        self.of(digests, path)
        self.of(digests, path)
        assert digests.computed == 2

    @spec("C-BLOB-14")
    def test_readers_that_come_together_share_one_computation(self, tmp_path: Path, digests: Digests) -> None:
        path = tmp_path / "large"
        with path.open("wb") as file:
            file.truncate(30_000_000)
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(self.of(digests, path))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(found), len(set(found)), digests.computed) == (6, 1, 1)
