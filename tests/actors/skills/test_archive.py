"""Unpacking archives from strangers: what is well-formed comes out whole, everything else leaves nothing."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcp_runtime.actors.skills import archive
from smcp_runtime.actors.skills.archive import Format, package_root, unpack
from smcp_runtime.actors.skills.limits import PackageLimits, StagingFailed, Stop
from smcp_runtime.actors.skills.package_writer import PackageWriter

from .conftest import tar_gz, zipped

spec = pytest.mark.spec
SMALL = PackageLimits(bytes=100_000, entries=50, ratio_free=1_000_000)


class Place:
    """Unpacks into `out` beneath `top`; nothing else in `top` may change."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.out = top / "area" / "out"
        self.out.parent.mkdir(parents=True)
        (top / "witness").write_text("untouched")

    def unpack(self, data: bytes, form: Format, limits: PackageLimits = SMALL) -> dict[str, bytes]:
        """The files that came out."""
        path = self.top / "archive"
        path.write_bytes(data)
        unpack(str(path), form, PackageWriter(str(self.out), limits, Stop(30, "unpacking")), limits)
        files = (found for found in self.out.rglob("*") if found.is_file() and not found.is_symlink())
        return {str(found.relative_to(self.out)): found.read_bytes() for found in files}

    def refuses(self, data: bytes, form: Format, limits: PackageLimits = SMALL) -> str:
        with pytest.raises(StagingFailed) as caught:
            self.unpack(data, form, limits)
        self.check()
        return str(caught.value)

    def check(self) -> None:
        """Nothing was written outside, and nothing inside leads there."""
        assert {found.name for found in self.top.iterdir()} <= {"area", "archive", "witness"}
        assert [found.name for found in self.out.parent.iterdir()] in ([], ["out"])
        assert (self.top / "witness").read_text() == "untouched"
        assert not any(found.is_symlink() for found in self.out.rglob("*"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "top")


def entry(name: str, kind: bytes = tarfile.REGTYPE, **fields: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def tar_of(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=form) as made:
        for info, content in entries:
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zip_of(*entries: tuple[zipfile.ZipInfo | str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as made:
        for info, content in entries:
            made.writestr(info, content)
    return packed.getvalue()


FILES = {"SKILL.md": b"s", "docs/a.md": b"a" * 5_000, "docs/deep/b.bin": bytes(range(256))}


@spec("C-SKILL-31")
@pytest.mark.parametrize(("pack", "form"), [(tar_gz, "tar.gz"), (zipped, "zip")])
def test_files_come_out_byte_for_byte(place: Place, pack: Callable[[Any], bytes], form: Format) -> None:
    assert place.unpack(pack(FILES), form) == FILES
    place.check()


@spec("C-SKILL-25")
def test_the_usual_archive_of_a_directory_with_its_own_entry_comes_out(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    (source / "SKILL.md").write_text("s")
    (source / "docs" / "a.md").write_text("a")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        made.add(source, arcname=".")
    assert place.unpack(packed.getvalue(), "tar.gz") == {"SKILL.md": b"s", "docs/a.md": b"a"}


@spec("C-SKILL-23")
def test_modes_owners_and_times_of_the_source_are_not_taken_over(place: Place) -> None:
    run = entry("run.sh", mode=0o6777, uid=4242, gid=4242, mtime=1)
    place.unpack(
        tar_of((run, b"x"), (entry("a.md", mode=0o444), b"y"), (entry("d", tarfile.DIRTYPE, mode=0o777), b"")), "tar.gz"
    )
    found = {name: os.stat(place.out / name) for name in ("run.sh", "a.md", "d")}
    modes = {name: stat.S_IMODE(info.st_mode) for name, info in found.items()}
    assert modes == {"run.sh": 0o700, "a.md": 0o600, "d": 0o700}
    assert {(info.st_uid, info.st_gid) for info in found.values()} == {(os.getuid(), os.getgid())}
    assert found["run.sh"].st_mtime > 1_000_000


@spec("C-SKILL-23")
def test_the_owner_execute_bit_survives_in_a_zip(place: Place) -> None:
    script, plain = zipfile.ZipInfo("run.sh"), zipfile.ZipInfo("a.md")
    script.external_attr = (stat.S_IFREG | 0o755) << 16
    place.unpack(zip_of((script, b"x"), (plain, b"y")), "zip")
    assert [stat.S_IMODE(os.stat(place.out / name).st_mode) for name in ("run.sh", "a.md")] == [0o700, 0o600]


HOSTILE_NAMES = ["../x", "/etc/x", "a/../../x", "..", "a\\..\\x", "C:/x", "a//b", "d/..", "n\nl"]


@spec("C-SKILL-25", "C-SEC-14", "F-122")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_one_bad_name_refuses_the_whole_archive(place: Place, name: str) -> None:
    place.refuses(tar_of((entry("SKILL.md"), b"s"), (entry(name), b"x")), "tar.gz")
    place = Place(place.top / "area" / "zip")
    place.refuses(zip_of(("SKILL.md", b"s"), (name, b"x")), "zip")


@spec("C-SKILL-25", "C-SEC-14")
def test_a_name_hidden_behind_a_nul_is_refused(place: Place) -> None:
    data = zip_of(("SKILL.md", b"s"), ("aXb", b"x")).replace(b"aXb", b"a\0b")
    place.refuses(data, "zip")


@spec("C-SKILL-35", "C-SEC-14", "F-122")
@pytest.mark.parametrize(
    "bad",
    [
        entry("link", tarfile.SYMTYPE, linkname="/etc"),
        entry("link", tarfile.SYMTYPE, linkname="SKILL.md"),
        entry("link", tarfile.LNKTYPE, linkname="SKILL.md"),
        entry("device", tarfile.CHRTYPE),
        entry("device", tarfile.BLKTYPE),
        entry("pipe", tarfile.FIFOTYPE),
        entry("cont", tarfile.CONTTYPE),
        entry("odd", b"V"),
        entry("sparse", tarfile.GNUTYPE_SPARSE),
        entry("sparse", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}),
    ],
    ids=lambda bad: f"{bad.name}-{bad.type!r}",
)
def test_any_entry_but_plain_files_and_directories_refuses_the_tar(place: Place, bad: tarfile.TarInfo) -> None:
    place.refuses(tar_of((entry("SKILL.md"), b"s"), (bad, b"")), "tar.gz")


@spec("C-SKILL-35", "C-SEC-14")
def test_a_link_and_a_file_written_through_it_refuse_the_tar(place: Place) -> None:
    link = entry("d", tarfile.SYMTYPE, linkname=str(place.top))
    place.refuses(tar_of((entry("SKILL.md"), b"s"), (link, b""), (entry("d/owned"), b"x")), "tar.gz")


@spec("C-SKILL-35", "C-SEC-14")
@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK, stat.S_IFDIR])
def test_an_entry_whose_mode_says_anything_but_a_plain_file_refuses_the_zip(place: Place, kind: int) -> None:
    bad = zipfile.ZipInfo("link")
    bad.create_system = 3
    bad.external_attr = (kind | 0o777) << 16
    place.refuses(zip_of(("SKILL.md", b"s"), (bad, b"/etc/passwd")), "zip")


@spec("C-SKILL-36")
@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_than_deflate_refuse_the_zip(place: Place, method: int) -> None:
    place.refuses(zip_of(("SKILL.md", b"s" * 100), method=method), "zip")


@spec("C-SKILL-36")
def test_an_encrypted_entry_refuses_the_zip(place: Place) -> None:
    data = bytearray(zip_of(("SKILL.md", b"s")))
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in place.refuses(bytes(data), "zip")


@spec("C-SKILL-25", "C-SKILL-38", "C-SEC-14")
@pytest.mark.parametrize("names", [("a", "a"), ("a", "A"), ("a", "a/b"), ("a/b", "a")])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_entries_that_collide_refuse_the_archive(place: Place, names: tuple[str, str]) -> None:
    place.refuses(tar_of(*((entry(name), b"x") for name in names)), "tar.gz")
    place = Place(place.top / "area" / "zip")
    place.refuses(zip_of(*((name, b"x") for name in names)), "zip")


class TestBombs:
    @spec("C-SKILL-24", "C-SEC-14")
    @pytest.mark.parametrize("form", ["tar.gz", "zip"])
    def test_more_bytes_than_the_limit_refuse_the_archive_whatever_is_declared(
        self, place: Place, form: Format
    ) -> None:
        files = {f"f{n}": b"x" * 30_000 for n in range(3)}
        pack = tar_gz if form == "tar.gz" else zipped
        assert len(place.unpack(pack(files), form)) == 3
        place = Place(place.top / "area" / "second")
        assert "larger than" in place.refuses(pack({**files, "last": b"x" * 10_001}), form)

    @spec("C-SKILL-24", "C-SKILL-37", "C-SEC-14")
    @pytest.mark.parametrize("form", ["tar.gz", "zip"])
    def test_more_entries_than_the_limit_refuse_the_archive(self, place: Place, form: Format) -> None:
        pack = tar_gz if form == "tar.gz" else zipped
        assert len(place.unpack(pack({f"f{n}": b"" for n in range(50)}), form)) == 50
        place = Place(place.top / "area" / "second")
        assert "entries" in place.refuses(pack({f"f{n}": b"" for n in range(51)}), form)

    @spec("C-SKILL-24")
    def test_directories_that_are_made_on_the_way_count_as_entries(self, place: Place) -> None:
        assert "entries" in place.refuses(tar_gz({f"d{n}/f": b"" for n in range(30)}), "tar.gz")

    @spec("C-SKILL-24", "C-SEC-14")
    @pytest.mark.parametrize("form", ["tar.gz", "zip"])
    def test_what_inflates_out_of_proportion_is_refused(self, place: Place, form: Format) -> None:
        limits = PackageLimits(ratio=50, ratio_free=100_000)
        pack = tar_gz if form == "tar.gz" else zipped
        noise = random.Random(1).randbytes(200_000)
        assert place.unpack(pack({"noise": noise}), form, limits)
        place = Place(place.top / "area" / "second")
        assert "times its size" in place.refuses(pack({"zeros": bytes(5_000_000)}), form, limits)

    @spec("C-SKILL-37", "C-SEC-14")
    @pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE])
    def test_a_tar_header_without_end_is_not_read_into_memory(self, place: Place, kind: bytes) -> None:
        header = entry("long", kind, size=60_000_000).tobuf(tarfile.USTAR_FORMAT)
        data = gzip.compress(header + bytes(60_000_000), 1)
        tracemalloc.start()
        try:
            assert "header without end" in place.refuses(data, "tar.gz", PackageLimits())
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()

    @spec("C-SKILL-37", "C-SEC-14")
    def test_global_tar_headers_do_not_add_up_in_memory(self, place: Place) -> None:
        stream = io.BytesIO()
        for n in range(40):
            record = b"k%d=%s\n" % (n, b"v" * 30_000)
            record = b"%d %s" % (len(record) + 6, record)
            header = entry("g", tarfile.XGLTYPE, size=len(record)).tobuf(tarfile.USTAR_FORMAT)
            stream.write(header + record.ljust(-(-len(record) // 512) * 512, b"\0"))
            stream.write(entry(f"f{n}").tobuf())
        assert "header without end" in place.refuses(gzip.compress(stream.getvalue()), "tar.gz")

    @spec("C-SKILL-37", "C-SEC-14")
    def test_the_list_of_a_zip_is_not_read_before_its_length_is_known_to_be_bearable(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = zipped({f"f{n}": b"" for n in range(300)})
        opened: list[int] = []
        monkeypatch.setattr(zipfile, "ZipFile", lambda file: opened.append(1))
        assert "entries" in place.refuses(data, "zip")
        assert opened == []

    @spec("C-SKILL-37")
    def test_a_pattern_is_counted_across_the_borders_of_what_is_read_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive, "CHUNK", 3)
        assert archive.count_occurrences(io.BytesIO(b"abPKcdPKPKx"), b"PK") == 3
        assert archive.count_occurrences(io.BytesIO(b"PQRSPQRSP"), b"PQRS") == 2


@spec("C-SEC-14")
@pytest.mark.parametrize("form", ["tar.gz", "zip"])
@pytest.mark.parametrize("data", [b"", b"not an archive", gzip.compress(b"no tar", mtime=0), b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_refused_or_empty(place: Place, data: bytes, form: Format) -> None:
    with contextlib.suppress(StagingFailed):
        assert place.unpack(data, form) == {}
    place.check()


@spec("C-SEC-14")
@pytest.mark.parametrize("form", ["tar.gz", "zip"])
def test_an_archive_cut_anywhere_never_passes_for_whole(place: Place, form: Format) -> None:
    data = (tar_gz if form == "tar.gz" else zipped)({"SKILL.md": b"s", "a": random.Random(2).randbytes(3_000)})
    for n, end in enumerate(range(1, len(data), 97)):
        place = Place(place.top / "area" / str(n)) if n else place
        place.refuses(data[:end], form)


@spec("C-SEC-14")
def test_a_wrong_checksum_is_noticed(place: Place) -> None:
    content = random.Random(3).randbytes(3_000)
    data = bytearray(zip_of(("a", content), method=zipfile.ZIP_STORED))
    data[data.index(content) + 1_000] ^= 1
    place.refuses(bytes(data), "zip")
    place = Place(place.top / "area" / "tar")
    data = bytearray(tar_gz({"a": content}))
    data[-8] ^= 1
    place.refuses(bytes(data), "tar.gz")


@spec("C-SKILL-24")
def test_a_size_that_lies_is_found_out(place: Place) -> None:
    data = bytearray(zip_of(("a", b"x" * 2_000)))
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = struct.pack("<I", 500)
    place.refuses(bytes(data), "zip")


KINDS = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
NAMES = st.lists(st.sampled_from(["..", ".", "a", "b", "A", "d", "", "é", "x\\y", "c:"]), min_size=1, max_size=4)
MEMBERS = st.lists(
    st.tuples(NAMES, KINDS, st.sampled_from(["..", "/", "a", "../../x", "d"]), st.binary(max_size=20)), max_size=6
)


@spec("C-SEC-14", "C-SKILL-25", "C-SKILL-35", "F-122")
@settings(max_examples=300)
@given(members=MEMBERS, absolute=st.booleans())
def test_no_tar_writes_outside_and_what_comes_out_is_what_its_names_say(
    members: list[Any], absolute: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = Place(tmp_path_factory.mktemp("tar") / "top")
    entries = []
    for parts, kind, target, content in members:
        name = ("/" if absolute else "") + "/".join(parts)
        info = entry(name, kind, linkname=target if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else "")
        entries.append((info, content if kind == tarfile.REGTYPE else b""))
    data = tar_of(*entries)
    try:
        found = place.unpack(data, "tar.gz")
    except StagingFailed:
        place.check()
        return
    place.check()
    kept = {
        "/".join(p for p in parts if p not in (".", "")): c for parts, kind, _, c in members if kind == tarfile.REGTYPE
    }
    assert found == kept
    assert not absolute or not members


@spec("C-SEC-14", "C-SKILL-25", "F-122")
@settings(max_examples=200)
@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), max_size=6),
    form=st.sampled_from(["tar.gz", "zip"]),
)
def test_no_damage_to_an_archive_makes_it_write_outside_or_fail_otherwise_than_refused(
    flips: list[tuple[int, int]], form: Format, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = Place(tmp_path_factory.mktemp("damage") / "top")
    files = {"SKILL.md": b"skill", "docs/a.md": b"text" * 20}
    plain = bytearray(gzip.decompress(tar_gz(files)) if form == "tar.gz" else zipped(files))
    for position, change in flips:
        plain[position % len(plain)] ^= change
    data = gzip.compress(bytes(plain)) if form == "tar.gz" else bytes(plain)
    with contextlib.suppress(StagingFailed, OSError):
        place.unpack(data, form)
    place.check()


class TestPackageRoot:
    def tree(self, top: Path, *files: str) -> str:
        for name in files:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text("x")
        return str(top)

    @spec("C-SKILL-22")
    def test_it_is_the_top_when_that_holds_a_skill_md(self, tmp_path: Path) -> None:
        assert package_root(self.tree(tmp_path, "SKILL.md", "sub/SKILL.md")) == str(tmp_path)

    @spec("C-SKILL-22")
    def test_it_is_the_one_directory_that_holds_one(self, tmp_path: Path) -> None:
        assert package_root(self.tree(tmp_path, "skill/SKILL.md", "__MACOSX/x")) == str(tmp_path / "skill")

    @spec("C-SKILL-22")
    @pytest.mark.parametrize(
        "files",
        [(), ("a/x",), ("skill.md",), ("a/SKILL.md", "b/SKILL.md"), ("a/b/SKILL.md",), ("SKILL.md/x",), ("Skill.MD",)],
    )
    def test_otherwise_there_is_none(self, tmp_path: Path, files: tuple[str, ...]) -> None:
        with pytest.raises(StagingFailed):
            package_root(self.tree(tmp_path, *files))
