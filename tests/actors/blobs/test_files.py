"""Spool and landing root over real files, on a clock we move and on disks that are full."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.blobs import Quota, UploadLimits
from smcp_runtime.actors.blobs.landing import LandingRoot
from smcp_runtime.actors.blobs.spool import STALE_DRAFT, TOUCH_EVERY, Spool, SpoolFull
from smcp_runtime.actors.blobs.upload_desk import UploadDesk
from smcp_runtime.wire.errors import PeerError

from .test_actor import b64, contents, declared

DAY = 24 * 3600.0


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file of this process grows beyond `room` bytes, as on a disk without more."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


class TestSpool:
    def spool(self, folder: Path, **quota: Any) -> tuple[Spool, Clock]:
        clock = Clock()
        return Spool(folder / "spool", Quota(**quota), clock), clock

    def read(self, spool: Spool, content_id: str) -> bytes:
        descriptor, size = spool.open(content_id)
        try:
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)

    @pytest.mark.spec("C-BLOB-32")
    def test_reading_counts_as_use(self, tmp_path: Path) -> None:
        spool, clock = self.spool(tmp_path)
        read, unread = spool.store(b"read", "t"), spool.store(b"unread", "t")
        clock.now += 0.9 * DAY
        assert self.read(spool, read) == b"read"
        clock.now += 0.2 * DAY
        assert spool.collect() == 1
        assert self.read(spool, read) == b"read"
        with pytest.raises(FileNotFoundError):
            spool.open(unread)

    @pytest.mark.spec("C-BLOB-32")
    def test_use_is_recorded_at_most_once_a_minute(self, tmp_path: Path) -> None:
        spool, clock = self.spool(tmp_path)
        content = spool.store(b"x", "t")
        stored = clock.now
        clock.now += TOUCH_EVERY - 1
        self.read(spool, content)
        assert (tmp_path / "spool" / content).stat().st_mtime == stored
        clock.now += 1
        self.read(spool, content)
        assert (tmp_path / "spool" / content).stat().st_mtime == clock.now

    @pytest.mark.spec("C-BLOB-32")
    def test_many_who_store_at_once_stay_within_the_quota_together(self, tmp_path: Path) -> None:
        def slowly() -> float:
            time.sleep(0.002)  # every thread is between its look and its deed at some time
            return 1_000_000.0

        spool = Spool(tmp_path / "spool", Quota(most_bytes=40), slowly)
        together = Barrier(8)

        def store(number: int) -> bool:
            together.wait()
            with suppress(SpoolFull):
                return bool(spool.store(bytes([number]) * 10, "t"))
            return False

        with ThreadPoolExecutor(8) as threads:
            stored = list(threads.map(store, range(8)))
        kept = [file.stat().st_size for file in (tmp_path / "spool").iterdir() if file.suffix != ".mime"]
        assert (sum(stored), sum(kept)) == (4, 40)

    @pytest.mark.spec("C-BLOB-34")
    def test_who_opened_a_content_before_it_was_collected_reads_it_to_the_end(self, tmp_path: Path) -> None:
        spool, clock = self.spool(tmp_path)
        descriptor, size = spool.open(spool.store(b"still here", "t"))
        clock.now += 2 * DAY
        assert spool.collect() == 1
        assert os.pread(descriptor, size, 0) == b"still here"
        os.close(descriptor)

    @pytest.mark.spec("C-BLOB-31", "C-SEC-22")
    @pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "A" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n", ""])
    def test_only_a_content_id_names_a_content(self, tmp_path: Path, name: str) -> None:
        spool, _clock = self.spool(tmp_path)
        spool.store(b"x", "t")
        (tmp_path / "secret").write_bytes(b"secret")
        with pytest.raises(FileNotFoundError):
            spool.open(name)

    @pytest.mark.spec("C-BLOB-31")
    def test_what_is_no_regular_file_is_no_content(self, tmp_path: Path) -> None:
        spool, _clock = self.spool(tmp_path)
        spool.store(b"x", "t")
        (tmp_path / "spool" / ("d" * 64)).mkdir()
        os.mkfifo(tmp_path / "spool" / ("f" * 64))
        for name in ("d" * 64, "f" * 64):
            with pytest.raises(FileNotFoundError):
                spool.open(name)

    @pytest.mark.spec("C-BLOB-33", "C-SEC-25")
    def test_collection_takes_drafts_and_sidecars_left_behind_and_follows_no_link(self, tmp_path: Path) -> None:
        spool, clock = self.spool(tmp_path)
        folder, outside = tmp_path / "spool", tmp_path / "outside"
        spool.store(b"x", "t")
        outside.mkdir()
        (outside / ("e" * 64)).write_bytes(b"foreign")
        ours = [folder / f".draft-{'0' * 16}", folder / f"{'a' * 64}.mime"]
        foreign = [folder / "draft-0", folder / "b.mime", outside / ("e" * 64)]
        for path in (*ours, *foreign):
            path.write_bytes(b"left")
            os.utime(path, (clock.now, clock.now))
        links = [folder / ("c" * 64), folder / "dpe", folder / f".draft-{'1' * 16}"]
        links[0].symlink_to(outside / ("e" * 64))
        links[1].symlink_to(outside, target_is_directory=True)
        links[2].symlink_to(outside / ("e" * 64))
        clock.now += max(STALE_DRAFT, 2 * DAY)
        spool.collect()
        assert not any(path.exists() for path in ours)
        assert all(path.exists() for path in foreign)
        assert all(path.is_symlink() for path in links)

    @pytest.mark.spec("C-BLOB-30", "C-BLOB-25")
    def test_a_full_disk_leaves_neither_half_a_content_nor_a_draft(self, tmp_path: Path) -> None:
        spool, _clock = self.spool(tmp_path)
        kept = spool.store(b"before", "t")
        with full_disk(100_000), pytest.raises(OSError, match="too large"):
            spool.store(bytes(200_000), "t")
        assert sorted(os.listdir(tmp_path / "spool")) == [kept, f"{kept}.mime"]
        spool.store(bytes(200_000), "t")


class TestLanding:
    @pytest.mark.spec("C-UP-20", "C-UP-22", "C-SEC-30")
    @pytest.mark.parametrize("taken", ["a file", "a link", "a link to nothing", "a directory"])
    def test_a_name_that_is_taken_is_never_written_over(self, tmp_path: Path, taken: str) -> None:
        root = LandingRoot(str(tmp_path / "landing"))
        outside, target = tmp_path / "outside", tmp_path / "landing" / ("a" * 32 + "_hint")
        outside.write_bytes(b"mine")
        if taken == "a file":
            target.write_bytes(b"mine")
        elif taken == "a directory":
            target.mkdir()
        else:
            target.symlink_to(outside if taken == "a link" else tmp_path / "nowhere")
        part = root.begin("a" * 32)
        part.write(b"theirs")
        with pytest.raises(FileExistsError):
            part.finish("hint")
        part.discard()
        root.close()
        assert outside.read_bytes() == b"mine"
        assert not (tmp_path / "nowhere").exists()
        if taken == "a file":
            assert target.read_bytes() == b"mine"


@pytest.mark.anyio
class TestDesk:
    def desk(self, folder: Path, **limits: Any) -> tuple[UploadDesk, Clock]:
        clock = Clock()
        root = str(folder / "landing")
        return UploadDesk(UploadLimits(**limits), lambda: root, clock, anyio.CapacityLimiter(2)), clock

    async def refused(self, desk: UploadDesk, **request: Any) -> str:
        with pytest.raises(PeerError) as caught:
            await desk.receive(request, agent="a", office="o")
        return str(caught.value.payload["details"]["reason"])

    @pytest.mark.spec("C-UP-26", "C-UP-25", "C-SEC-33")
    async def test_only_a_chunk_that_adds_bytes_keeps_an_upload_open(self, tmp_path: Path) -> None:
        desk, clock = self.desk(tmp_path, idle=100.0)
        upload = (await desk.receive(declared(b"abcdef", b"ab"), agent="a", office="o")).upload_id
        clock.now += 60
        await desk.receive(
            {"upload_id": upload, "chunk_offset": 2, "eof": False, "blob": b64(b"cd")}, agent="a", office="o"
        )
        clock.now += 60
        empty = {"upload_id": upload, "chunk_offset": 4, "eof": False, "blob": ""}
        await desk.receive(empty, agent="a", office="o")
        assert await self.refused(desk, **{**empty, "chunk_offset": 9}) == "range"
        clock.now += 60
        assert await self.refused(desk, **empty) == "invalid_upload"
        assert os.listdir(tmp_path / "landing" / ".a2c-upload") == []
        await desk.close()

    @pytest.mark.spec("C-UP-25", "C-SEC-33")
    async def test_dripping_bytes_keeps_no_upload_open_beyond_its_lifetime(self, tmp_path: Path) -> None:
        desk, clock = self.desk(tmp_path, idle=120.0, lifetime=3600.0)
        upload = (await desk.receive(declared(bytes(1000), b""), agent="a", office="o")).upload_id
        for minute in range(59):
            clock.now += 60
            drip = {"upload_id": upload, "chunk_offset": minute, "eof": False, "blob": b64(b"\0")}
            await desk.receive(drip, agent="a", office="o")
        clock.now += 60
        assert await self.refused(desk, upload_id=upload, chunk_offset=59, eof=False, blob="") == "invalid_upload"
        await desk.close()

    @pytest.mark.spec("C-UP-27")
    @pytest.mark.parametrize("chunk", [b"first", b"first and last"])
    async def test_an_upload_that_only_begins_is_discarded_with_the_others(self, tmp_path: Path, chunk: bytes) -> None:
        threads = anyio.CapacityLimiter(1)
        desk = UploadDesk(UploadLimits(), lambda: str(tmp_path / "landing"), Clock(), threads)
        reasons: list[str] = []

        async def begin() -> None:
            reasons.append(await self.refused(desk, **declared(b"first and last", chunk)))

        async with anyio.create_task_group() as tasks, threads:  # as if the disk were busy
            tasks.start_soon(begin)
            await anyio.wait_all_tasks_blocked()
            await desk.discard()
        assert reasons == ["invalid_upload"]
        assert [path for path in (tmp_path / "landing").rglob("*") if path.is_file()] == []
        await desk.receive(declared(b"another"), agent="a", office="o")
        await desk.close()

    @pytest.mark.spec("C-UP-17", "C-SEC-34")
    async def test_a_disk_that_fills_discards_the_upload_and_leaves_nothing_of_it(self, tmp_path: Path) -> None:
        desk, _clock = self.desk(tmp_path)
        data = bytes(300_000)
        upload = (await desk.receive(declared(data, data[:50_000]), agent="a", office="o")).upload_id
        rest = {"upload_id": upload, "chunk_offset": 50_000, "eof": True, "blob": b64(data[50_000:])}
        with full_disk(100_000):
            assert await self.refused(desk, **rest) == "io_error"
        assert await self.refused(desk, **rest) == "invalid_upload"
        assert [path for path in (tmp_path / "landing").rglob("*") if path.is_file()] == []
        done = await desk.receive(declared(data), agent="a", office="o")
        assert contents({"landing_path": done.landing_path}) == data
        await desk.close()
