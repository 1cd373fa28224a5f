"""The blob actor on a bus, over real files: spool, re-authorisation, uploads, what stays behind."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.blobs import BlobActor, BlobSettings, Quota, UploadLimits
from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.bus import Bus
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import PeerError, StartupError
from smcp_runtime.wire.messages.blobs import (
    BlobChunk,
    ChangeOffice,
    EndUploads,
    GetBlobChunk,
    KeepFile,
    MintHandle,
    ReceiveChunk,
    SpoolBytes,
)
from smcp_runtime.wire.messages.channels import BlobSlice, BlobSource, ReadSkillBytes
from smcp_runtime.wire.payload import blob_refused

pytestmark = pytest.mark.anyio

BLOBS = Address("blobs")
DATA = bytes(range(256)) * 300


class ScriptedSkills(Actor):
    """Stands for the skill channel: one file, and a refusal when it is told to."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.asked: list[tuple[str, str, int, int]] = []

    @handler
    def read(self, message: ReadSkillBytes) -> BlobSlice:
        self.asked.append((message.name, message.rel_path, message.offset, message.length))
        if self.refusal is not None:
            raise blob_refused(self.refusal).to_error()
        if message.offset > len(DATA):
            raise blob_refused("range", len(DATA)).to_error()
        part = DATA[message.offset : message.offset + message.length]
        return BlobSlice(Attachment(part), "text/plain", len(DATA), hashlib.sha256(DATA).hexdigest())


class Stage:
    """A blob actor over a folder of its own."""

    def __init__(self, bus: Bus, supervisor: Supervisor, folder: Path) -> None:
        self.bus, self.supervisor, self.folder = bus, supervisor, folder
        self.skills = ScriptedSkills()
        self.landing = folder / "landing"
        self.root: str | None = str(self.landing)

    async def begin(self, **settings: Any) -> None:
        chosen = BlobSettings(
            computer="pc1",
            state_dir=self.folder / "state",
            spool_dir=self.folder / "cache" / ".blobspool",
            landing_root=lambda: self.root,
            **settings,
        )
        await self.supervisor.start_child(ChildSpec(Address("skills"), lambda: self.skills))
        await self.supervisor.start_child(ChildSpec(BLOBS, lambda: BlobActor(chosen)))
        await self.bus.ask(BLOBS, ChangeOffice("office-1"))

    async def again(self) -> None:
        """A new run over the same folder."""
        for name in ("blobs", "skills"):
            await self.supervisor.stop_child(Address(name))
        await self.begin()

    async def spool(self, data: bytes = DATA, mime: str = "image/png") -> str:
        ticket = await self.bus.ask(BLOBS, SpoolBytes(Attachment(data), mime))
        assert (ticket.total_size, ticket.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        return ticket.handle

    async def get(self, handle: str, offset: Any = None, most: int | None = None) -> BlobChunk:
        return await self.bus.ask(BLOBS, GetBlobChunk(handle, offset, most))

    async def refused(self, handle: str, offset: Any = None) -> str:
        with pytest.raises(PeerError) as caught:
            await self.get(handle, offset)
        assert caught.value.wire_code == 4018
        return str(caught.value.payload["details"]["reason"])

    async def put(self, agent: str = "agent", **request: Any) -> dict[str, Any]:
        answer = await self.bus.ask(BLOBS, ReceiveChunk(agent, Attachment(json.dumps(request).encode())))
        fields: dict[str, Any] = json.loads(answer.fields.data)
        return fields

    async def put_refused(self, agent: str = "agent", **request: Any) -> str:
        with pytest.raises(PeerError) as caught:
            await self.put(agent, **request)
        assert caught.value.wire_code == 4019
        assert str(self.folder) not in json.dumps(caught.value.payload)
        return str(caught.value.payload["details"]["reason"])

    def parts(self) -> list[str]:
        staging = self.landing / ".a2c-upload"
        return sorted(os.listdir(staging)) if staging.exists() else []

    def landed(self) -> list[str]:
        return sorted(name for name in os.listdir(self.landing) if name != ".a2c-upload")

    @property
    def spooled(self) -> Path:
        return self.folder / "cache" / ".blobspool"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Bus() as bus, Supervisor(bus) as supervisor:
        yield Stage(bus, supervisor, tmp_path)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def declared(data: bytes, chunk: bytes | None = None, **more: Any) -> dict[str, Any]:
    chunk = data if chunk is None else chunk
    eof = len(chunk) == len(data)
    facts = {"chunk_offset": 0, "eof": eof, "total_size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {**facts, "blob": b64(chunk), **more}


def contents(answer: dict[str, Any]) -> bytes:
    """What landed at the path of a last acknowledgement."""
    return Path(answer["landing_path"]).read_bytes()


class TestDownload:
    @pytest.mark.spec("C-BLOB-9", "C-BLOB-10", "C-BLOB-11", "C-BLOB-12", "W-BLOB-1")
    async def test_chunks_cover_the_content_from_any_offset(self, stage: Stage) -> None:
        await stage.begin(chunk_max=20_000)
        handle = await stage.spool()
        got = b""
        while True:
            chunk = await stage.get(handle, len(got), 10**9)
            assert (chunk.offset, chunk.total_size, chunk.mime_type) == (len(got), len(DATA), "image/png")
            got += chunk.data.data
            if chunk.eof:
                break
        assert got == DATA
        assert (await stage.get(handle, 5, 3)).data.data == DATA[5:8]
        for most in (None, 0, -1):
            assert len((await stage.get(handle, None, most)).data.data) == 20_000
        end = await stage.get(handle, len(DATA))
        assert (end.data.data, end.eof) == (b"", True)

    @pytest.mark.spec("C-BLOB-12")
    async def test_an_empty_content_is_one_answer(self, stage: Stage) -> None:
        await stage.begin()
        chunk = await stage.get(await stage.spool(b""))
        assert (chunk.data.data, chunk.total_size, chunk.eof) == (b"", 0, True)

    @pytest.mark.spec("C-BLOB-5", "C-BLOB-22", "C-BLOB-23")
    @pytest.mark.parametrize(("letters", "kept"), [(255, True), (256, False), (3_200, False), (100_000, False)])
    async def test_a_content_is_there_however_long_its_type_is(self, stage: Stage, letters: int, *, kept: bool) -> None:
        await stage.begin()
        mime = "image/png;x=".ljust(letters, "y")
        chunk = await stage.get(await stage.spool(mime=mime))
        assert chunk.data.data == DATA
        assert chunk.mime_type == (mime if kept else "application/octet-stream")

    @pytest.mark.spec("C-BLOB-9", "C-BLOB-17")
    @pytest.mark.parametrize("offset", [-1, len(DATA) + 1, "0", 1.0, True, [0]])
    async def test_an_offset_outside_the_content_is_a_range_fault(self, stage: Stage, offset: Any) -> None:
        await stage.begin()
        assert await stage.refused(await stage.spool(), offset) == "range"

    @pytest.mark.spec("C-BLOB-5", "C-BLOB-7")
    async def test_a_forged_handle_touches_no_source(self, stage: Stage) -> None:
        await stage.begin()
        ticket = await stage.bus.ask(BLOBS, MintHandle(BlobSource("s", name="x", rel_path="y"), 1, "0" * 64))
        assert await stage.refused(ticket.handle[:-1] + ("A" if ticket.handle[-1] != "A" else "B")) == "invalid_handle"
        assert stage.skills.asked == []

    @pytest.mark.spec("C-BLOB-8", "C-BLOB-6", "C-BLOB-16", "C-SEC-21", "W-BLOB-2")
    @pytest.mark.parametrize("reason", ["gone", "forbidden"])
    async def test_every_chunk_of_a_skill_is_authorised_again_by_its_channel(self, stage: Stage, reason: str) -> None:
        await stage.begin()
        ticket = await stage.bus.ask(BLOBS, MintHandle(BlobSource("s", name="a", rel_path="b/c"), len(DATA), "0" * 64))
        assert (await stage.get(ticket.handle, 10, 5)).data.data == DATA[10:15]
        assert stage.skills.asked == [("a", "b/c", 10, 5)]
        stage.skills.refusal = reason
        assert await stage.refused(ticket.handle) == reason
        assert await stage.refused(ticket.handle, "nonsense") == reason

    @pytest.mark.spec("C-BLOB-16", "C-SEC-23", "C-SEC-2")
    async def test_contents_of_one_office_are_unreadable_from_another(self, stage: Stage) -> None:
        await stage.begin()
        handle = await stage.spool()
        for office in ("", "office-2"):
            await stage.bus.ask(BLOBS, ChangeOffice(office))
            assert await stage.refused(handle) == "forbidden"
        await stage.bus.ask(BLOBS, ChangeOffice("office-1"))
        assert (await stage.get(handle)).total_size == len(DATA)

    @pytest.mark.spec("C-BLOB-3", "C-BLOB-35", "C-GEN-15")
    async def test_handles_survive_a_restart_with_the_same_home(self, stage: Stage) -> None:
        await stage.begin()
        handle = await stage.spool()
        await stage.again()
        assert (await stage.get(handle)).total_size == len(DATA)
        stage.supervisor.kill_child(BLOBS)
        with anyio.fail_after(5):
            while [(c.state, c.incarnation) for c in stage.supervisor.children()][-1] != ("up", 2):  # noqa: ASYNC110
                await anyio.sleep(0.005)
        await stage.bus.ask(BLOBS, ChangeOffice("office-1"))
        assert (await stage.get(handle)).total_size == len(DATA)

    @pytest.mark.spec("C-BLOB-34", "C-BLOB-16")
    async def test_a_deleted_content_is_gone(self, stage: Stage) -> None:
        await stage.begin()
        handle = await stage.spool()
        (stage.spooled / hashlib.sha256(DATA).hexdigest()).unlink()
        assert await stage.refused(handle) == "gone"


class TestSpool:
    @pytest.mark.spec("C-BLOB-32")
    async def test_what_nobody_used_for_long_is_collected_at_the_start(self, stage: Stage) -> None:
        await stage.begin()
        await stage.spool()
        old = stage.spooled / hashlib.sha256(DATA).hexdigest()
        os.utime(old, (1.0, 1.0))
        await stage.again()
        with anyio.fail_after(5):
            while old.exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)

    @pytest.mark.spec("C-BLOB-30")
    async def test_equal_contents_are_kept_once_in_private_files(self, stage: Stage) -> None:
        await stage.begin()
        assert await stage.spool() == await stage.spool()
        content = hashlib.sha256(DATA).hexdigest()
        assert sorted(os.listdir(stage.spooled)) == [content, f"{content}.mime"]
        assert (stage.spooled / f"{content}.mime").read_text() == "image/png\n"
        assert stat.S_IMODE(os.stat(stage.spooled).st_mode) == 0o700
        assert stat.S_IMODE(os.stat(stage.spooled / content).st_mode) == 0o600
        (stage.spooled / content).write_bytes(b"cut off")
        await stage.spool()
        assert (stage.spooled / content).read_bytes() == DATA

    @pytest.mark.spec("C-BLOB-31", "C-SEC-22", "C-SEC-25")
    async def test_a_link_in_the_spool_is_neither_read_nor_collected(self, stage: Stage) -> None:
        await stage.begin()
        secret = stage.folder / "secret"
        secret.write_text("hunter2")
        handle = await stage.spool()
        content = stage.spooled / hashlib.sha256(DATA).hexdigest()
        content.unlink()
        content.symlink_to(secret)
        assert await stage.refused(handle) == "gone"
        assert secret.read_text() == "hunter2"

    @pytest.mark.spec("C-BLOB-32", "C-BLOB-33", "C-SEC-25")
    async def test_over_the_quota_old_contents_go_and_foreign_files_stay(self, stage: Stage) -> None:
        await stage.begin(quota=Quota(most_bytes=250, unused_for=10**9, youngest=60.0))
        await stage.spool(b"a" * 100)
        old = stage.spooled / hashlib.sha256(b"a" * 100).hexdigest()
        os.utime(old, (1.0, 1.0))
        foreign = [stage.spooled / "notes.txt", stage.spooled / "folder", stage.spooled / ("f" * 64 + ".bak")]
        foreign[0].write_text("x" * 500)
        foreign[1].mkdir()
        foreign[2].write_text("x")
        await stage.spool(b"b" * 200)
        assert not old.exists()
        assert not old.with_name(f"{old.name}.mime").exists()
        assert all(path.exists() for path in foreign)
        with pytest.raises(StartupError) as caught:
            await stage.spool(b"c" * 100)
        assert caught.value.code == "spool_full"

    @pytest.mark.spec("C-BLOB-35")
    async def test_a_spool_that_is_not_persistent_is_empty_after_shutdown(self, stage: Stage) -> None:
        await stage.begin(persistent=False)
        await stage.spool()
        await stage.supervisor.stop_child(BLOBS)
        assert os.listdir(stage.spooled) == []

    @pytest.mark.spec("C-BLOB-4")
    async def test_the_key_is_private_and_made_once(self, stage: Stage) -> None:
        await stage.begin()
        (key,) = (stage.folder / "state").iterdir()
        first = key.read_bytes()
        assert (len(first), stat.S_IMODE(key.stat().st_mode)) == (32, 0o600)
        await stage.again()
        assert key.read_bytes() == first

    @pytest.mark.spec("C-BLOB-4")
    async def test_without_a_place_for_the_key_handles_work_for_this_run(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        (stage.folder / "state").write_text("a file where the directory should be")
        await stage.begin()
        assert (await stage.get(await stage.spool())).total_size == len(DATA)
        assert "end with this run" in caplog.text

    @pytest.mark.spec("C-DOC-33", "C-DOC-34")
    async def test_a_kept_file_lies_below_dpe(self, stage: Stage) -> None:
        await stage.begin()
        kept = await stage.bus.ask(BLOBS, KeepFile(Attachment(b"document")))
        assert Path(kept.path) == stage.spooled / "dpe" / hashlib.sha256(b"document").hexdigest()
        assert contents({"landing_path": kept.path}) == b"document"


class TestUpload:
    @pytest.mark.spec("C-UP-2", "C-UP-19", "C-UP-20", "C-UP-23", "W-BLOB-4")
    async def test_a_file_arrives_in_order_and_lands_whole(self, stage: Stage) -> None:
        await stage.begin()
        first = await stage.put(**declared(DATA, DATA[:1000], name_hint="report 1.txt"))
        assert first == {"upload_id": first["upload_id"], "chunk_offset": 0}
        assert stage.parts() == [f"{first['upload_id']}.part"]
        part = stage.landing / ".a2c-upload" / stage.parts()[0]
        assert stat.S_IMODE(part.stat().st_mode) == 0o600
        last = await stage.put(upload_id=first["upload_id"], chunk_offset=1000, eof=True, blob=b64(DATA[1000:]))
        path = stage.landing / f"{first['upload_id']}_report_1.txt"
        assert last == {
            "upload_id": first["upload_id"], "chunk_offset": 1000, "landing_path": str(path),
            "total_size": len(DATA), "sha256": hashlib.sha256(DATA).hexdigest(),
        }  # fmt: skip
        assert path.read_bytes() == DATA
        assert stage.parts() == []
        again = {"upload_id": first["upload_id"], "chunk_offset": len(DATA), "eof": True, "blob": ""}
        assert await stage.put_refused(**again) == "invalid_upload"

    @pytest.mark.spec("C-UP-3", "W-BLOB-5")
    async def test_one_chunk_may_be_first_and_last(self, stage: Stage) -> None:
        await stage.begin()
        done = await stage.put(**declared(b"tiny"))
        assert contents(done) == b"tiny"

    @pytest.mark.spec("C-UP-4", "C-UP-31", "C-UP-32", "C-SEC-31")
    async def test_without_a_usable_root_nothing_is_written(self, stage: Stage) -> None:
        await stage.begin()
        occupied = stage.folder / "file"
        occupied.write_text("not a directory")
        # In the last two nobody can write, whoever the tests run as.
        for root in (None, "relative/path", str(occupied), str(occupied / "below"), "/proc/landing", "/proc/self"):
            stage.root = root
            assert await stage.put_refused(**declared(b"x", total_size="nonsense")) == "forbidden"
        assert not stage.landing.exists()
        stage.root = str(stage.landing)
        await stage.put(**declared(b"x"))
        stage.root = str(stage.folder / "elsewhere")
        await stage.put(**declared(b"y"))
        assert len(stage.landed()) == 2

    @pytest.mark.spec("C-UP-4", "R-SCOPE-12")
    async def test_the_log_names_the_setting_an_upload_lacks_while_the_agent_hears_only_forbidden(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        await stage.begin()
        for root, reason in ((None, "landingRoot is not set"), ("relative/path", "landingRoot cannot be used")):
            stage.root = root
            caplog.clear()
            assert await stage.put_refused(**declared(b"x")) == "forbidden"
            assert reason in caplog.text

    @pytest.mark.spec("C-UP-32", "C-UP-28")
    async def test_a_root_that_was_swept_away_is_made_anew_and_what_was_in_it_begins_again(self, stage: Stage) -> None:
        await stage.begin()
        for swept in (stage.landing, stage.landing / ".a2c-upload", stage.landing):
            begun = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
            shutil.rmtree(swept)
            assert contents(await stage.put(**declared(b"whole"))) == b"whole"
            rest = {"chunk_offset": 3, "eof": True, "blob": b64(b"def")}
            assert await stage.put_refused(upload_id=begun, **rest) == "invalid_upload"

    @pytest.mark.spec("C-UP-2", "C-UP-32", "C-UP-28")
    @pytest.mark.parametrize("anew", [True, False])
    @pytest.mark.parametrize("place", ["", ".a2c-upload"])
    async def test_a_root_that_was_moved_away_takes_no_more_uploads(
        self, stage: Stage, place: str, *, anew: bool
    ) -> None:
        await stage.begin()
        begun = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
        moved = (stage.landing / place).rename(stage.folder / "moved")
        if anew:
            (stage.landing / place).mkdir()
        assert contents(await stage.put(**declared(b"whole"))) == b"whole"
        rest = {"chunk_offset": 3, "eof": True, "blob": b64(b"def")}
        assert await stage.put_refused(upload_id=begun, **rest) == "invalid_upload"
        assert [path for path in moved.rglob("*") if path.is_file()] == []

    @pytest.mark.spec("C-UP-2", "C-UP-22", "C-UP-17")
    @pytest.mark.parametrize("anew", [True, False])
    async def test_no_path_is_named_where_the_file_is_not(self, stage: Stage, *, anew: bool) -> None:
        await stage.begin()
        begun = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
        moved = stage.landing.rename(stage.folder / "moved")
        if anew:
            stage.landing.mkdir()
        rest = {"chunk_offset": 3, "eof": True, "blob": b64(b"def")}
        assert await stage.put_refused(upload_id=begun, **rest) == "io_error"
        assert [path for path in moved.rglob("*") if path.is_file()] == []

    @pytest.mark.spec("C-UP-18", "C-SEC-34")
    async def test_a_wrong_hash_leaves_nothing(self, stage: Stage) -> None:
        await stage.begin()
        assert await stage.put_refused(**declared(b"data", sha256="0" * 64)) == "integrity"
        assert stage.parts() == stage.landed() == []

    @pytest.mark.spec("C-UP-7", "C-UP-6", "C-UP-10", "W-BLOB-5")
    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            ({"chunk_offset": 3}, "range"),
            ({"blob": "?"}, "invalid_declaration"),
            ({"total_size": 2**61}, "too_large"),
            ({"total_size": 2**60}, "io_error"),  # more than any disk has room for
        ],
    )
    async def test_a_refused_first_chunk_leaves_no_session_and_no_file(
        self, stage: Stage, wrong: Any, reason: str
    ) -> None:
        await stage.begin(uploads=UploadLimits(most_open=1, most_bytes=2**60))
        assert await stage.put_refused(**declared(b"data", b"da", **wrong)) == reason
        assert stage.parts() == []
        assert (await stage.put(**declared(b"data", b"da")))["upload_id"]

    @pytest.mark.spec("C-UP-14", "C-UP-28")
    async def test_a_wrong_offset_keeps_the_session_and_the_right_one_goes_on(self, stage: Stage) -> None:
        await stage.begin()
        upload = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
        assert await stage.put_refused(upload_id=upload, chunk_offset=4, eof=True, blob=b64(b"ef")) == "range"
        done = await stage.put(upload_id=upload, chunk_offset=3, eof=True, blob=b64(b"def"))
        assert contents(done) == b"abcdef"

    @pytest.mark.spec("C-UP-15", "C-SEC-32")
    async def test_too_many_bytes_discard_the_session(self, stage: Stage) -> None:
        await stage.begin()
        upload = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
        assert await stage.put_refused(upload_id=upload, chunk_offset=3, eof=False, blob=b64(b"defg")) == "range"
        assert stage.parts() == []
        assert await stage.put_refused(upload_id=upload, chunk_offset=3, eof=True, blob=b64(b"def")) == "invalid_upload"

    @pytest.mark.spec("C-UP-11", "C-UP-27", "C-SEC-33", "C-SEC-2")
    async def test_an_upload_belongs_to_its_agent_and_office(self, stage: Stage) -> None:
        await stage.begin()
        upload = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
        rest = {"upload_id": upload, "chunk_offset": 3, "eof": True, "blob": b64(b"def")}
        assert await stage.put_refused("stranger", **rest) == "invalid_upload"
        await stage.bus.ask(BLOBS, EndUploads())
        assert await stage.put_refused(**rest) == "invalid_upload"
        upload = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
        await stage.bus.ask(BLOBS, ChangeOffice("office-2"))
        assert await stage.put_refused(**{**rest, "upload_id": upload}) == "invalid_upload"
        assert stage.parts() == []

    @pytest.mark.spec("C-UP-11")
    @pytest.mark.parametrize("wrong", [5, True, "", "unknown", "0" * 10_000, [], {}, "../../x\0"])
    async def test_what_is_no_open_upload_is_refused_and_hurts_none_that_is(self, stage: Stage, wrong: Any) -> None:
        await stage.begin()
        upload = (await stage.put(**declared(b"abcdef", b"abc")))["upload_id"]
        rest = {"chunk_offset": 3, "eof": True, "blob": b64(b"def")}
        assert await stage.put_refused(upload_id=wrong, **rest) == "invalid_upload"
        assert "landing_path" in await stage.put(upload_id=upload, **rest)
        assert await stage.put_refused(upload_id=upload, **rest) == "invalid_upload"

    @pytest.mark.spec("C-UP-8", "C-UP-25", "C-SEC-33")
    async def test_sessions_are_bounded_and_end_when_idle(self, stage: Stage) -> None:
        await stage.begin(uploads=UploadLimits(idle=0.2, most_open=2))
        for _ in range(2):
            await stage.put(**declared(b"abcdef", b"abc"))
        assert await stage.put_refused(**declared(b"abcdef", b"abc")) == "busy"
        with anyio.fail_after(5):
            while stage.parts():  # noqa: ASYNC110
                await anyio.sleep(0.02)
        await stage.put(**declared(b"abcdef", b"abc"))

    @pytest.mark.spec("C-UP-20", "C-UP-22", "C-SEC-30")
    async def test_a_planted_link_is_not_followed_out_of_the_root(self, stage: Stage) -> None:
        outside = stage.folder / "outside"
        outside.mkdir()
        stage.landing.mkdir()
        (stage.landing / ".a2c-upload").symlink_to(outside)
        await stage.begin()
        assert await stage.put_refused(**declared(b"x", name_hint="../../x")) == "forbidden"
        assert list(outside.iterdir()) == []

    @pytest.mark.spec("C-UP-29", "C-SEC-35")
    async def test_only_stale_parts_are_collected(self, stage: Stage) -> None:
        await stage.begin()
        await stage.put(**declared(b"x"))
        staging = stage.landing / ".a2c-upload"
        stale, fresh = staging / ("a" * 32 + ".part"), staging / ("b" * 32 + ".part")
        for path in (stale, fresh, staging / "notes"):
            path.write_text("x")
            os.utime(path, (1.0, 1.0))
        os.utime(fresh)
        (staging / ("c" * 32 + ".part")).mkdir()
        (staging / ("d" * 32 + ".part")).symlink_to(stage.folder)
        await stage.put(**declared(b"y"))
        assert sorted(path.name[0] for path in staging.iterdir()) == ["b", "c", "d", "n"]

    @pytest.mark.spec("C-UP-29")
    async def test_what_an_earlier_life_left_behind_is_collected_before_any_upload(self, stage: Stage) -> None:
        staging = stage.landing / ".a2c-upload"
        staging.mkdir(parents=True)
        stale, fresh = staging / ("a" * 32 + ".part"), staging / ("b" * 32 + ".part")
        for path in (stale, fresh):
            path.write_text("x")
        os.utime(stale, (1.0, 1.0))
        await stage.begin(uploads=UploadLimits(idle=0.5))
        with anyio.fail_after(5):
            while stale.exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)
            assert fresh.exists(), "somebody may be writing to it"
            while fresh.exists():  # noqa: ASYNC110
                await anyio.sleep(0.05)

    @pytest.mark.spec("C-UP-29", "C-UP-4")
    async def test_looking_for_leftovers_makes_no_directory(self, stage: Stage) -> None:
        await stage.begin(uploads=UploadLimits(idle=0.1))
        await anyio.wait_all_tasks_blocked()
        assert not stage.landing.exists()

    @pytest.mark.spec("C-UP-24", "D-38")
    async def test_landed_files_go_only_where_the_option_says_so(self, stage: Stage) -> None:
        await stage.begin(uploads=UploadLimits(idle=0.2, finished_kept=3600.0))
        old, new = [Path((await stage.put(**declared(data)))["landing_path"]) for data in (b"old", b"new")]
        foreign = stage.landing / "notes.txt"
        foreign.write_text("mine")
        for path in (old, foreign):
            os.utime(path, (1.0, 1.0))
        with anyio.fail_after(5):
            while old.exists():  # noqa: ASYNC110
                await anyio.sleep(0.02)
        assert stage.landed() == sorted([new.name, foreign.name])

    @pytest.mark.spec("C-UP-27", "C-GEN-15")
    async def test_a_stop_discards_open_uploads(self, stage: Stage) -> None:
        await stage.begin()
        await stage.put(**declared(b"abcdef", b"abc"))
        await stage.supervisor.stop_child(BLOBS)
        assert stage.parts() == []

    @pytest.mark.spec("C-UP-30")
    async def test_chunks_of_one_upload_are_taken_one_after_another(self, stage: Stage) -> None:
        await stage.begin()
        pieces = [bytes([number]) * 100_000 for number in range(8)]
        whole = b"".join(pieces)
        upload = (await stage.put(**declared(whole, b"")))["upload_id"]
        answers: list[dict[str, Any]] = []

        async def send(number: int) -> None:
            offset, eof = number * 100_000, number == len(pieces) - 1
            answers.append(await stage.put(upload_id=upload, chunk_offset=offset, eof=eof, blob=b64(pieces[number])))

        async with anyio.create_task_group() as tasks:
            for number in range(len(pieces)):
                tasks.start_soon(send, number)
        assert [answer["chunk_offset"] for answer in answers] == [number * 100_000 for number in range(8)]
        assert contents(answers[-1]) == whole

    @pytest.mark.spec("C-UP-30", "C-UP-24")
    async def test_uploads_run_side_by_side(self, stage: Stage) -> None:
        await stage.begin()
        done: list[str] = []

        async def upload(number: int) -> None:
            data = bytes([number]) * 50_000
            first = await stage.put(**declared(data, data[:10_000]))
            for offset in range(10_000, 50_000, 10_000):
                chunk = {"chunk_offset": offset, "eof": offset == 40_000, "blob": b64(data[offset : offset + 10_000])}
                last = await stage.put(upload_id=first["upload_id"], **chunk)
            assert contents(last) == data
            done.append(last["landing_path"])

        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(upload, number)
        assert len(set(done)) == 4
