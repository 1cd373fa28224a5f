"""Faults: the actor killed, the disk full, servers dying, files vanishing. Nothing is half, lost or left hanging."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.skills import manifest, materialise
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import PeerError, SmcpError

from .conftest import SKILLS, Bench, refused, resource, sha256, skill_md, write_skill

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

ROOT = "skill://h/s"


def kill(bench: Bench) -> None:
    assert bench.supervisor.kill_child(SKILLS)


async def alive(bench: Bench) -> None:
    """Waits until the actor answers again."""

    async def answers() -> bool:
        try:
            await bench.status()
        except SmcpError:
            return False
        return True

    await bench.eventually(answers)


class TestRestart:
    @pytest.fixture
    async def full(self, bench: Bench) -> Bench:
        """A user skill and one of a server."""
        write_skill(bench.user, "a", {"x.png": b"png"})
        await bench.start()
        await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s"), "x.bin": bytes(50_000)})
        await bench.until_names("a", "mcp:srv:s")
        await bench.idle()
        return bench

    @spec("C-GEN-15")
    async def test_after_a_restart_everything_is_back_from_commit_disk_and_servers(self, full: Bench) -> None:
        before = await full.skills()
        kill(full)
        await alive(full)
        await full.commit()
        await full.eventually(lambda: _names_are(full, ["a", "mcp:srv:s"]))
        await full.idle()
        assert await full.skills() == before
        assert await full.body("mcp:srv:s") == "# Body\n"

    @spec("C-GEN-15", "C-BLOB-3")
    async def test_a_handle_stays_valid_over_a_restart(self, full: Bench) -> None:
        kill(full)
        await alive(full)
        await full.commit()
        assert (await full.slice("mcp:srv:s", "x.bin")).sha256 == sha256(bytes(50_000))
        assert (await full.slice("a", "x.png")).data.data == b"png"

    @spec("C-GEN-15", "DEC-4", "DEC-23")
    async def test_the_list_of_the_former_life_is_shown_until_the_new_one_has_read_its_sources(
        self, full: Bench
    ) -> None:
        full.servers["srv"].hold()
        kill(full)
        await alive(full)
        with anyio.fail_after(1):
            assert await full.names() == ["a", "mcp:srv:s"]
            applied = await full.commit()
            assert await full.names() == ["a", "mcp:srv:s"]
        assert not applied.changed
        told = full.told()
        full.servers["srv"].release.set()
        await full.idle()
        assert await full.names() == ["a", "mcp:srv:s"]
        assert full.told() == told

    @spec("C-GEN-15")
    async def test_a_read_that_meets_an_unfinished_rebuild_waits_for_it(self, full: Bench) -> None:
        full.servers["srv"].hold()
        kill(full)
        await alive(full)
        found: list[str] = []

        async def read() -> None:
            found.append(await full.body("mcp:srv:s"))

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await full.commit()
            with anyio.fail_after(5):
                await full.servers["srv"].reading.wait()
            assert found == []
            full.servers["srv"].release.set()
        assert found == ["# Body\n"]

    @spec("C-GEN-15", "C-GEN-14")
    async def test_a_rebuild_that_does_not_end_is_waited_for_only_so_long(self, bench: Bench) -> None:
        await bench.start(rebuild_wait=0.2)
        await bench.serve("srv")
        bench.servers["srv"].hold()
        await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
        kill(bench)
        await alive(bench)
        await bench.commit()
        with anyio.fail_after(3):
            assert await refused(bench.file("mcp:srv:s")) == (4014, {"name": "mcp:srv:s"})
        bench.servers["srv"].release.set()

    @spec("C-GEN-15")
    async def test_what_is_gone_after_a_restart_is_told_once_it_is_known(self, bench: Bench) -> None:
        write_skill(bench.user, "a")
        write_skill(bench.user, "b")
        await bench.start()
        await bench.commit()
        assert await bench.names() == ["a", "b"]
        kill(bench)
        (bench.user / "b" / "SKILL.md").unlink()
        await alive(bench)
        applied = await bench.commit()
        if not applied.changed:
            await bench.until_told(1)
        assert await bench.names() == ["a"]

    @spec("C-SEC-18")
    async def test_a_kill_in_the_middle_of_staging_leaves_nothing_visible_and_nothing_behind(
        self, bench: Bench
    ) -> None:
        await bench.start()
        await bench.serve("srv")
        server = bench.servers["srv"]
        server.files.update({f"{ROOT}/{n}.md": "x" for n in range(10)})
        await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s"), "big.bin": bytes(1_000_000)})
        await bench.until_names("mcp:srv:s")
        server.hold()
        bench.announce("srv", ROOT)
        with anyio.fail_after(5):
            await server.reading.wait()
        kill(bench)
        await alive(bench)
        staged = bench.home / "mcp" / "srv" / "s"
        assert sorted(path.name for path in staged.iterdir()) == ["SKILL.md", "big.bin"]
        server.release.set()
        await bench.commit()
        await bench.until_names("mcp:srv:s")
        await bench.idle()
        spaces = [path for path in (bench.home / ".staging").iterdir() if path.is_dir()]
        assert len(spaces) == 1
        assert list(spaces[0].iterdir()) == []

    @spec("R-LIFE-20", "C-SEC-18")
    async def test_a_graceful_stop_leaves_no_temporary_files(self, full: Bench) -> None:
        await full.supervisor.stop_child(SKILLS)
        assert list((full.home / ".staging").iterdir()) == []
        assert (full.home / "mcp" / "srv" / "s" / "SKILL.md").exists()


class TestVanishing:
    @spec("C-SKILL-66e", "C-BLOB-16", "C-SEC-21")
    async def test_a_skill_removed_while_it_is_read_ends_in_gone_or_forbidden_and_never_in_wrong_bytes(
        self, bench: Bench
    ) -> None:
        files = {f"skill://h/s/{n}.bin": bytes([n]) * 1_000 for n in range(8)}
        await bench.start()
        await bench.serve("srv")
        bench.servers["srv"].files.update({**files, f"{ROOT}/SKILL.md": skill_md("s")})
        listing = [resource(ROOT, source="resources"), resource(f"{ROOT}/SKILL.md"), *(resource(uri) for uri in files)]
        await bench.serve("srv", *listing)
        await bench.until_names("mcp:srv:s")
        ends: set[str] = set()

        async def read(n: int) -> None:
            while True:
                try:
                    assert (await bench.slice("mcp:srv:s", f"{n}.bin")).data.data == bytes([n]) * 1_000
                    ends.add("read")
                except PeerError as error:
                    ends.add(error.payload["details"]["reason"])
                    return

        async with anyio.create_task_group() as group:
            for n in range(8):
                group.start_soon(read, n)
            await bench.eventually(lambda: _true("read" in ends))
            await bench.serve("srv")
            await bench.eventually(lambda: _names_are(bench, []))
            await bench.clean_up()
        assert ends <= {"read", "forbidden", "gone"}
        assert not (bench.home / "mcp" / "srv").exists()

    @spec("C-SEC-18", "C-SKILL-17")
    async def test_reads_during_restaging_see_one_version_or_the_other_whole(self, bench: Bench) -> None:
        await bench.start()
        versions = [{"SKILL.md": skill_md("s", body=mark * 10), "x.md": mark * 10_000} for mark in "ab"]
        await bench.serve_files("srv", ROOT, versions[0])
        await bench.until_names("mcp:srv:s")
        seen: set[str] = set()
        end = anyio.Event()

        async def read() -> None:
            while not end.is_set():
                body = await bench.body("mcp:srv:s", "x.md")
                assert set(body) in ({"a"}, {"b"})
                assert len(body) == 10_000
                seen.add(body[0])

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            for n in range(20):
                bench.servers["srv"].files.update({f"{ROOT}/{name}": text for name, text in versions[n % 2].items()})
                bench.announce("srv", ROOT)
                await bench.names()
                await bench.idle()
            end.set()
        assert seen == {"a", "b"}

    @spec("C-SKILL-18", "C-GEN-10")
    async def test_a_server_that_dies_while_its_skill_is_read_costs_that_skill_and_nothing_else(
        self, bench: Bench
    ) -> None:
        write_skill(bench.user, "a")
        await bench.start(retry_delays=(0.05,))
        await bench.serve("srv")
        bench.servers["srv"].hold()
        await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
        with anyio.fail_after(5):
            await bench.servers["srv"].reading.wait()
        bench.servers["srv"].release.set()
        bench.servers["srv"].hold()
        assert bench.supervisor.kill_child(Address("mcp/srv"))
        bench.servers["srv"].release.set()
        assert await bench.names() in (["a"], ["a", "mcp:srv:s"])
        await bench.until_names("a", "mcp:srv:s")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB in memory, or, where mounting is not permitted, a limit on what a file may become."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode == 0:
        yield folder
        subprocess.run(["umount", "-l", str(folder)], check=True)
        return
    with _stub_quota(folder, 2 << 20):
        yield folder


class _stub_quota:
    """Makes writes below a directory fail once they add up to more than a quota."""

    def __init__(self, folder: Path, quota: int) -> None:
        self._folder, self._quota, self._used = str(folder), quota, 0
        self._patch = pytest.MonkeyPatch()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        real = os.fdopen

        def limited(fd: int, *given: Any, **more: Any) -> Any:
            file = real(fd, *given, **more)
            if not os.readlink(f"/proc/self/fd/{fd}").startswith(self._folder) or "w" not in given[0]:
                return file
            write = file.write

            def counted(data: bytes) -> int:
                with self._lock:
                    self._used += len(data)
                if self._used > self._quota:
                    raise OSError(errno.ENOSPC, "no space left on device")
                return int(write(data))

            file.write = counted
            return file

        self._patch.setattr(os, "fdopen", limited)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


@spec("C-SKILL-18", "C-SEC-18")
async def test_a_full_disk_costs_the_skill_that_does_not_fit_and_leaves_the_rest_and_the_old_copy(
    bench: Bench, small_disk: Path
) -> None:
    bench.home = small_disk / "home"
    bench.user = bench.home / "user"
    await bench.start(retry_delays=(0.05, 0.1))
    await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s"), "x.bin": b"old"})
    await bench.until_names("mcp:srv:s")
    await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s"), "x.bin": bytes(3 << 20)}, version="2")
    await bench.eventually(lambda: _noted(bench, "ENOSPC"))
    await bench.eventually(lambda: _names_are(bench, []))
    assert (bench.home / "mcp" / "srv" / "s" / "x.bin").read_bytes() == b"old"
    assert not list((bench.home / ".staging").glob("*/*"))
    await bench.serve_files("other", "skill://h/t", {"SKILL.md": skill_md("t")})
    await bench.until_names("mcp:other:t")
    await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s"), "x.bin": b"new"}, version="3")
    await bench.until_names("mcp:other:t", "mcp:srv:s")
    assert (await bench.slice("mcp:srv:s", "x.bin")).data.data == b"new"


@spec("C-SKILL-18", "DEC-4", "C-GEN-10")
async def test_a_fault_of_ours_costs_the_package_that_hits_it_and_nothing_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No input is known that raises anything unforeseen, so one is made up."""
    real = manifest.read_manifest

    def faulty(head: bytes, *given: Any) -> Any:
        if b"name: bad" in head:
            raise ZeroDivisionError
        return real(head, *given)

    monkeypatch.setattr(materialise, "read_manifest", faulty)
    await bench.start()
    await bench.serve("srv")
    files = {f"skill://h/{name}/SKILL.md": skill_md(name) for name in ("bad", "good")}
    bench.servers["srv"].files.update(files)
    roots = [resource(f"skill://h/{name}", source="resources") for name in ("bad", "good")]
    await bench.serve("srv", *roots, *(resource(uri) for uri in files))
    await bench.until_names("mcp:srv:good")
    assert await _noted(bench, "ZeroDivisionError")
    (child,) = [child for child in bench.supervisor.children() if child.address == SKILLS]
    assert child.incarnation == 1


@spec("F-120", "C-GEN-10")
async def test_names_that_no_message_can_carry_cost_nothing_but_themselves(bench: Bench) -> None:
    write_skill(bench.user, "good")
    for name in (b"bad\xff", b"line\nERROR forged"):
        folder = os.path.join(os.fsencode(bench.user), name)
        os.mkdir(folder)
        with open(os.path.join(folder, b"SKILL.md"), "w") as file:  # noqa: ASYNC230
            file.write(skill_md("x"))
    await bench.start()
    applied = await bench.commit()
    assert await bench.names() == ["good"]
    assert sorted(note.partition("user/")[2].partition(":")[0] for note in applied.notes) == [
        "bad\\udcff",
        "line\\u000aERROR forged",
    ]


@spec("C-GEN-14", "C-SKILL-41")
async def test_a_server_that_answers_every_read_slowly_does_not_hold_its_skill_for_ever(bench: Bench) -> None:
    await bench.start(reading_time=0.2, retry_delays=())
    await bench.serve("srv")
    bench.servers["srv"].hold()
    await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
    await bench.eventually(lambda: _noted(bench, "took longer than 0.2 s"))
    await bench.eventually(lambda: _idle(bench))


@spec("DEC-4", "C-GEN-10")
async def test_many_silent_servers_do_not_keep_another_one_from_being_staged(bench: Bench) -> None:
    await bench.start()
    for n in range(12):
        await bench.serve(f"silent{n}")
        bench.servers[f"silent{n}"].hold()
        await bench.serve_files(f"silent{n}", ROOT, {"SKILL.md": skill_md("s")})
    await bench.serve_files("quick", ROOT, {"SKILL.md": skill_md("s")})
    await bench.until_names("mcp:quick:s")


@spec("C-SKILL-18", "DEC-4")
async def test_a_home_that_cannot_be_written_costs_staged_skills_only(bench: Bench, tmp_path: Path) -> None:
    bench.home = tmp_path / "file"
    bench.home.write_text("in the way")
    bench.roots = (str(tmp_path / "mine"),)
    write_skill(tmp_path / "mine", "a")
    await bench.start()
    await bench.serve_files("srv", ROOT, {"SKILL.md": skill_md("s")})
    await bench.eventually(lambda: _noted(bench, "nothing can be staged"))
    assert await bench.names() == ["a"]


async def _true(value: bool) -> bool:
    return value


async def _names_are(bench: Bench, names: list[str]) -> bool:
    return await bench.names() == names


async def _idle(bench: Bench) -> bool:
    return not (await bench.status()).staging


async def _noted(bench: Bench, text: str) -> bool:
    return any(text in note for note in await bench.notes("error"))
