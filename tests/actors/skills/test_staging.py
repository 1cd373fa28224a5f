"""Staging of MCP skills in all three modes: what arrives, in which order, and what a failure costs."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.actors.skills.limits import PackageLimits
from smcp_runtime.wire.errors import NetworkError

from .archive_host import ArchiveHost, archive_host
from .conftest import Bench, StubServer, resource, sha256, skill_md, tar_gz, write_skill, zipped

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

ROOT = "skill://h/s"


@pytest.fixture
async def host() -> AsyncIterator[ArchiveHost]:
    async with archive_host() as made:
        yield made


@pytest.fixture
async def ready(bench: Bench) -> Bench:
    await bench.start()
    return bench


async def settled(bench: Bench) -> list[str]:
    """The names once nothing is being staged any more."""
    await bench.idle()
    return await bench.names()


async def error_of(bench: Bench) -> str:
    """The only error there is, once nothing is being staged any more; nothing of it may lie around."""
    await bench.idle()
    (note,) = await bench.notes("error")
    assert not any(path.name != path.parent.name and path.suffix != ".lock" for path in leftovers(bench))
    return note


def leftovers(bench: Bench) -> list[Path]:
    """What lies in workspaces."""
    return [path for folder in (bench.home / ".staging").glob("*/") for path in folder.iterdir()]


class TestMounted:
    @spec("C-SKILL-26", "C-SKILL-29", "C-SKILL-23")
    async def test_a_directory_of_the_server_is_copied_into_the_home(self, ready: Bench, tmp_path: Path) -> None:
        source = write_skill(tmp_path / "theirs", "s", {"run.sh": "x", "docs/a.md": "a"})
        (source / "run.sh").chmod(0o755)
        await ready.serve("srv", resource(ROOT, source="mounted", mount_dir=str(source)))
        await ready.until_names("mcp:srv:s")
        staged = ready.home / "mcp" / "srv" / "s"
        assert await ready.body("mcp:srv:s", "docs/a.md") == "a"
        assert stat.S_IMODE((staged / "run.sh").stat().st_mode) == 0o700
        (source / "docs" / "a.md").write_text("changed")
        assert await ready.body("mcp:srv:s", "docs/a.md") == "a"

    @spec("C-SKILL-30", "C-SKILL-14")
    async def test_later_edits_arrive_with_a_manual_refresh(self, ready: Bench, tmp_path: Path) -> None:
        source = write_skill(tmp_path / "theirs", "s")
        await ready.serve("srv", resource(ROOT, source="mounted", mount_dir=str(source), etag="same"))
        await ready.until_names("mcp:srv:s")
        write_skill(tmp_path / "theirs", "s", description="new")
        await ready.refresh("srv")
        assert [skill["description"] for skill in await ready.skills()] == ["new"]
        await ready.refresh("unknown")

    @spec("C-SKILL-27", "C-SEC-15")
    async def test_a_server_of_another_machine_exposes_nothing_of_this_one(self, ready: Bench, tmp_path: Path) -> None:
        source = write_skill(tmp_path / "theirs", "s")
        await ready.serve("srv", resource(ROOT, source="mounted", mount_dir=str(source)), local=False)
        assert "remote" in await error_of(ready)
        assert await ready.names() == []

    @spec("C-SKILL-27")
    async def test_a_mount_root_permits_what_lies_below_it(self, bench: Bench, tmp_path: Path) -> None:
        await bench.start(mount_roots=(str(tmp_path / "theirs"),))
        source = write_skill(tmp_path / "theirs", "s")
        await bench.serve("srv", resource(ROOT, source="mounted", mount_dir=str(source)), local=False)
        await bench.until_names("mcp:srv:s")

    @spec("C-SKILL-28", "C-SEC-15")
    async def test_the_home_itself_cannot_be_mounted(self, ready: Bench) -> None:
        write_skill(ready.home, "x")
        await ready.serve("srv", resource(ROOT, source="mounted", mount_dir=str(ready.home)))
        assert "directories of this Computer" in await error_of(ready)


def archive_meta(host: ArchiveHost, data: bytes, form: str = "tar.gz", path: str = "/a") -> dict[str, Any]:
    host.files[path] = data
    return {"source": "archive", "archive_uri": host.url + path, "archive_format": form}


class TestArchive:
    @spec("C-SKILL-31", "C-SKILL-34", "C-SKILL-22")
    @pytest.mark.parametrize("form", ["tar.gz", "zip"])
    async def test_an_archive_is_fetched_checked_and_unpacked(self, ready: Bench, host: ArchiveHost, form: str) -> None:
        files = {"s-1.0/SKILL.md": skill_md("s"), "s-1.0/docs/a.md": "a"}
        data = tar_gz(files) if form == "tar.gz" else zipped(files)
        meta = {**archive_meta(host, data, form), "archive_sha256": sha256(data).upper()}
        await ready.serve("srv", resource(ROOT, **meta))
        await ready.until_names("mcp:srv:s")
        assert await ready.body("mcp:srv:s", "docs/a.md") == "a"
        assert sorted(path.name for path in (ready.home / "mcp" / "srv").iterdir()) == ["s"]
        await ready.idle()
        assert leftovers(ready) == []

    @spec("C-SKILL-31", "C-SKILL-32", "C-SKILL-34")
    @pytest.mark.parametrize(
        "change",
        [
            {"archive_format": "tar"},
            {"archive_format": "TAR.GZ"},
            {"archive_format": None},
            {"archive_uri": None},
            {"archive_uri": "file:///etc/passwd"},
            {"archive_uri": "http://10.255.255.1/x"},
            {"archive_sha256": "abc"},
            {"archive_sha256": "0" * 64},
            {"archive_sha256": 7},
        ],
    )
    async def test_what_is_not_declared_properly_fails_that_skill_alone(
        self, ready: Bench, host: ArchiveHost, change: dict[str, Any]
    ) -> None:
        good = archive_meta(host, tar_gz({"SKILL.md": skill_md("good")}), path="/good")
        bad = {**archive_meta(host, tar_gz({"SKILL.md": skill_md("bad")}), path="/bad"), **change}
        await ready.serve("srv", resource("skill://h/bad", **bad), resource("skill://h/good", **good))
        await ready.until_names("mcp:srv:good")
        assert await error_of(ready)

    @spec("C-SKILL-34", "C-SEC-14")
    async def test_an_archive_with_the_wrong_hash_is_not_even_opened(
        self, ready: Bench, host: ArchiveHost, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[Any] = []
        monkeypatch.setattr("smcp_runtime.actors.skills.archive.unpack", lambda *given: opened.append(given))
        data = tar_gz({"SKILL.md": skill_md("s")})
        await ready.serve("srv", resource(ROOT, **archive_meta(host, data), archive_sha256=sha256(b"other")))
        assert "sha256" in await error_of(ready)
        assert opened == []

    @spec("C-SKILL-25", "C-SKILL-35", "C-SEC-14", "F-122")
    async def test_a_hostile_archive_writes_nothing_anywhere(self, ready: Bench, host: ArchiveHost) -> None:
        data = tar_gz({"SKILL.md": skill_md("s"), "../../../owned": "x"})
        await ready.serve("srv", resource(ROOT, **archive_meta(host, data)))
        assert "leaves the package" in await error_of(ready)
        assert not list(ready.home.parent.rglob("owned"))
        assert not (ready.home / "mcp").exists()

    @spec("C-SEC-16", "C-GEN-16")
    async def test_the_query_of_an_archive_url_is_in_no_note_and_no_log(
        self, ready: Bench, host: ArchiveHost, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(0)
        await ready.serve(
            "srv", resource(ROOT, source="archive", archive_format="zip", archive_uri=f"{host.url}/none?X=canary")
        )
        note = await error_of(ready)
        said = [record.getMessage() for record in caplog.records if not record.name.startswith("aiohttp.access")]
        assert "canary" not in note + "\n".join(said) + repr(ready.facts)

    @spec("C-SKILL-21")
    @pytest.mark.parametrize("key", ["etag", "archive_sha256"])
    async def test_an_intact_copy_with_an_equal_etag_is_not_fetched_again(
        self, ready: Bench, host: ArchiveHost, key: str
    ) -> None:
        data = tar_gz({"SKILL.md": skill_md("s")})
        meta = {**archive_meta(host, data), key: sha256(data)}
        await ready.serve("srv", resource(ROOT, **meta, version="1"))
        await ready.until_names("mcp:srv:s")
        await ready.serve("srv", resource(ROOT, **meta, version="2"), session=2)
        assert await settled(ready) == ["mcp:srv:s"]
        assert [skill["version"] for skill in await ready.skills()] == ["2"]
        assert len(host.requests) == 1
        (ready.home / "mcp" / "srv" / "s" / "SKILL.md").write_text(skill_md("s", "tampered"))
        await ready.change("srv", session=3)
        assert await settled(ready) == ["mcp:srv:s"]
        assert len(host.requests) == 2
        assert (ready.home / "mcp" / "srv" / "s" / "SKILL.md").read_text() == skill_md("s")

    @spec("C-SKILL-18")
    async def test_a_failed_transfer_is_tried_again(self, bench: Bench, host: ArchiveHost) -> None:
        await bench.start(retry_delays=(0.05, 0.1))
        meta = archive_meta(host, b"")
        data = host.files.pop("/a")
        await bench.serve("srv", resource(ROOT, **meta))
        await bench.eventually(lambda: _true(len(host.requests) >= 2))
        assert await bench.names() == []
        host.files["/a"] = tar_gz({"SKILL.md": skill_md("s")})
        await bench.until_names("mcp:srv:s")
        assert await bench.notes("error") == []
        assert data == b""

    @spec("C-SKILL-18")
    async def test_after_two_more_tries_it_waits_for_the_next_trigger(self, bench: Bench, host: ArchiveHost) -> None:
        await bench.start(retry_delays=(0.01, 0.02))
        meta = archive_meta(host, b"")
        del host.files["/a"]
        await bench.serve("srv", resource(ROOT, **meta))
        await bench.eventually(lambda: _true(len(host.requests) == 3))
        await bench.serve("other")
        await bench.idle()
        host.files["/a"] = tar_gz({"SKILL.md": skill_md("s")})
        assert await bench.names() == []
        bench.announce("srv", ROOT)
        await bench.until_names("mcp:srv:s")
        assert len(host.requests) == 4


class TestResources:
    @spec("C-SKILL-39", "C-SKILL-40")
    async def test_every_resource_below_the_root_is_read_and_written_by_its_path(self, ready: Bench) -> None:
        files: dict[str, str | bytes | Exception] = {
            "SKILL.md": skill_md("s"),
            "docs/a%20b.md": "é",
            "x.bin": b"\0\1\xff",
        }
        server = await ready.serve_files("srv", ROOT, files)
        await ready.until_names("mcp:srv:s")
        assert sorted(server.reads) == sorted(f"{ROOT}/{name}" for name in files)
        staged = ready.home / "mcp" / "srv" / "s"
        assert (staged / "docs" / "a b.md").read_bytes() == "é".encode()
        assert (staged / "x.bin").read_bytes() == b"\0\1\xff"

    @spec("C-SKILL-42")
    async def test_at_most_four_are_read_at_once(self, ready: Bench) -> None:
        await ready.serve("srv")
        server = ready.servers["srv"]
        server.hold()
        await ready.serve_files("srv", ROOT, {"SKILL.md": skill_md("s"), **{f"{n}.md": "x" for n in range(20)}})
        await ready.eventually(lambda: _true(server.at_once == 4))
        server.release.set()
        await ready.until_names("mcp:srv:s")
        assert server.most == 4

    @spec("C-SKILL-41", "C-SKILL-18")
    @pytest.mark.parametrize(
        "files",
        [
            {},
            {"SKILL.md": skill_md("s"), "x": NetworkError("down")},
            {"SKILL.md": skill_md("s"), "../x": "x"},
            {"a.md": "x"},
        ],
        ids=["none", "failed", "name", "no SKILL.md"],
    )
    async def test_no_files_a_failed_read_or_a_bad_name_fail_the_skill(
        self, ready: Bench, files: dict[str, Any]
    ) -> None:
        await ready.serve_files("srv", ROOT, files)
        assert await error_of(ready)
        assert await ready.names() == []

    @spec("C-SKILL-41", "C-GEN-14")
    async def test_a_read_that_takes_too_long_fails_the_skill(self, bench: Bench) -> None:
        await bench.start(read_timeout=0.05)
        await bench.serve("srv")
        bench.servers["srv"].hold()
        await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
        assert "deadline" in await error_of(bench)

    @spec("C-SKILL-24")
    @pytest.mark.parametrize("limits", [PackageLimits(bytes=200), PackageLimits(entries=3), PackageLimits(depth=2)])
    async def test_the_limits_of_a_package_hold_for_this_mode_too(self, bench: Bench, limits: PackageLimits) -> None:
        await bench.start(limits=limits)
        await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s"), "a/b/c.md": "x" * 200})
        assert await error_of(bench)


class TestRuns:
    @spec("C-SKILL-22", "C-SKILL-44", "C-SKILL-45", "F-120")
    @pytest.mark.parametrize(
        "entry",
        [
            "no header",
            "---\nname: s\n---\n",
            "---\ndescription: d\n---\n",
            "---\nname: Not Kebab\ndescription: d\n---\n",
            "---\nname: [s]\ndescription: d\n---\n",
            "---\nname: s\ndescription: a: b\n---\n",
            b"---\nname: s\ndescription: \xff\n---\n",
            "---\nname: ../../x\ndescription: d\n---\n",
        ],
    )
    async def test_a_header_that_cannot_be_used_is_an_error_and_the_next_skill_goes_on(
        self, ready: Bench, entry: Any
    ) -> None:
        await ready.serve("srv")
        files = {"skill://h/bad/SKILL.md": entry, "skill://h/good/SKILL.md": skill_md("good")}
        ready.servers["srv"].files.update(files)
        roots = [resource(f"skill://h/{name}", source="resources") for name in ("bad", "good")]
        await ready.serve("srv", *roots, *(resource(uri) for uri in files))
        await ready.until_names("mcp:srv:good")
        assert "SKILL.md" in await error_of(ready)

    @spec("C-SKILL-47", "C-SKILL-18")
    async def test_an_undecodable_body_costs_nothing(self, ready: Bench) -> None:
        data = skill_md("s").encode() + b"\xff\xfe"
        await ready.serve_files("srv", ROOT, {"SKILL.md": data})
        await ready.until_names("mcp:srv:s")
        assert (await ready.slice("mcp:srv:s", "SKILL.md")).data.data == b"# Body\n\xff\xfe"

    @spec("C-SKILL-45", "C-SKILL-17")
    async def test_the_name_is_that_of_the_header_and_numbers_are_text(self, ready: Bench) -> None:
        await ready.serve_files("srv", "skill://h/whatever", {"SKILL.md": skill_md("12")})
        await ready.until_names("mcp:srv:12")
        assert (ready.home / "mcp" / "srv" / "12").is_dir()

    @spec("C-SKILL-17")
    async def test_of_two_roots_with_one_name_the_first_wins_before_anything_is_replaced(self, ready: Bench) -> None:
        await ready.serve("srv")
        files = {"skill://h/one/SKILL.md": skill_md("s", "first"), "skill://h/two/SKILL.md": skill_md("s", "second")}
        ready.servers["srv"].files.update(files)
        roots = [resource(f"skill://h/{name}", source="resources") for name in ("one", "two")]
        await ready.serve("srv", *roots, *(resource(uri) for uri in files))
        await ready.until_names("mcp:srv:s")
        assert "has it" in await error_of(ready)
        assert (ready.home / "mcp" / "srv" / "s" / "SKILL.md").read_text() == skill_md("s", "first")
        assert [skill["uri"] for skill in await ready.skills()] == ["skill://h/one"]

    @spec("C-SKILL-17", "C-SKILL-57")
    async def test_skills_stand_in_the_order_of_the_listing(self, ready: Bench) -> None:
        await ready.serve("srv")
        names = ["c", "a", "b"]
        files = {f"skill://h/{name}/SKILL.md": skill_md(name) for name in names}
        ready.servers["srv"].files.update(files)
        roots = [resource(f"skill://h/{name}", source="resources") for name in names]
        await ready.serve("srv", *roots, *(resource(uri) for uri in files))
        await ready.until_names("mcp:srv:c", "mcp:srv:a", "mcp:srv:b")
        await ready.serve("srv", *reversed(roots), *(resource(uri) for uri in files))
        assert await settled(ready) == ["mcp:srv:c", "mcp:srv:a", "mcp:srv:b"]

    @spec("C-SKILL-20", "C-GEN-10")
    async def test_servers_are_staged_side_by_side(self, ready: Bench) -> None:
        await ready.serve("slow")
        ready.servers["slow"].hold()
        await ready.serve_files("slow", "skill://h/x", {"SKILL.md": skill_md("x")})
        await ready.servers["slow"].reading.wait()
        await ready.serve_files("fast", "skill://h/y", {"SKILL.md": skill_md("y")})
        await ready.until_names("mcp:fast:y")

    @spec("C-SKILL-8", "C-SKILL-7")
    async def test_tags_come_from_the_header_and_never_from_the_servers_metadata(self, ready: Bench) -> None:
        meta = {"tags": ["server"], "a2c_tool_meta": {"tags": ["server"]}}
        await ready.serve_files("srv", ROOT, {"SKILL.md": skill_md("s", tags="[mine]")}, **meta)
        await ready.until_names("mcp:srv:s")
        assert [skill["tags"] for skill in await ready.skills()] == [["mine"]]

    @spec("C-SKILL-23")
    async def test_a_local_secrets_file_survives_a_new_package(self, ready: Bench) -> None:
        await ready.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
        await ready.until_names("mcp:srv:s")
        secrets = ready.home / "mcp" / "srv" / "s" / ".skillenv"
        secrets.write_text("KEY=mine")
        await ready.serve_files("srv", ROOT, {"SKILL.md": skill_md("s", "new")}, version="2")
        await ready.eventually(lambda: _described(ready, "new"))
        assert secrets.read_text() == "KEY=mine"

    @spec("C-SKILL-13")
    async def test_a_server_with_a_name_too_long_for_a_directory_is_skipped_with_an_error(self, ready: Bench) -> None:
        await ready.serve_files("x" * 256, ROOT, {"SKILL.md": skill_md("s")})
        assert "too long" in await error_of(ready)

    @spec("C-SKILL-12", "R-FILE-3")
    async def test_a_home_that_is_made_is_private_and_one_that_exists_keeps_its_mode(self, ready: Bench) -> None:
        await ready.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
        await ready.until_names("mcp:srv:s")
        for folder in (ready.home, ready.home / "mcp", ready.home / "mcp" / "srv" / "s", ready.home / ".staging"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((ready.home / "mcp" / "srv" / "s" / "SKILL.md").stat().st_mode) == 0o600

    @spec("C-GEN-9", "C-SKILL-16")
    async def test_malformed_resources_hide_no_skill(self, ready: Bench) -> None:
        await ready.serve("srv")
        server: StubServer = ready.servers["srv"]
        server.files[f"{ROOT}/SKILL.md"] = skill_md("s")
        junk: list[Any] = [None, 7, {"uri": 1}, {"uri": "skill://h/x", "_meta": 3}]
        await ready.serve("srv", *junk, resource(ROOT, source="resources"), resource(f"{ROOT}/SKILL.md"))
        await ready.until_names("mcp:srv:s")


class TestSubscriptions:
    @spec("C-SKILL-14")
    async def test_each_root_is_wished_for_once_per_session_by_the_servers_own_uri(self, ready: Bench) -> None:
        roots = [resource(f"skill://h/{name}?q", source="resources") for name in "ab"]
        server = await ready.serve("srv", *roots, subscribe=True)
        await ready.eventually(lambda: _true(server.wishes == [("skill://h/a?q", "skill://h/b?q")]))
        await ready.serve("srv", *roots, resource("note://x"), subscribe=True)
        await ready.serve("srv", *roots[:1], subscribe=True)
        await ready.eventually(lambda: _true(server.wishes[1:] == [("skill://h/a?q",)]))
        await ready.serve("srv", *roots[:1], subscribe=True, session=2)
        await ready.eventually(lambda: _true(len(server.wishes) == 3))

    @spec("C-SKILL-14")
    async def test_without_the_capability_nothing_is_wished_for(self, ready: Bench) -> None:
        await ready.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
        await ready.until_names("mcp:srv:s")
        assert ready.servers["srv"].wishes == []

    @spec("C-SKILL-14")
    async def test_a_subscription_that_fails_is_noted_and_the_skill_is_there_all_the_same(self, ready: Bench) -> None:
        await ready.serve("srv")
        server = ready.servers["srv"]
        server.files[f"{ROOT}/SKILL.md"] = skill_md("s")
        server.refused.add(ROOT)
        await ready.serve("srv", resource(ROOT, source="resources"), resource(f"{ROOT}/SKILL.md"), subscribe=True)
        await ready.until_names("mcp:srv:s")
        await ready.eventually(lambda: _warned(ready))


async def _true(value: bool) -> bool:
    return value


async def _described(bench: Bench, text: str) -> bool:
    return [skill["description"] for skill in await bench.skills()] == [text]


async def _warned(bench: Bench) -> bool:
    return bool(await bench.notes("warning"))
