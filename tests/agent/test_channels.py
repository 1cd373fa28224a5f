"""Blobs, uploads, skills and documents in whole, through a real Server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import random
import resource
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.agent import (
    AsyncAgent,
    BlobChanged,
    BlobUnavailable,
    UploadFailed,
    UploadUnsupported,
    chunk_fetcher,
)
from smcp_runtime.server.app import Running
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.errors import ConfigValidationError, MalformedReplyError, NetworkError, PeerError
from support.blob_peer import BlobSource, UploadTarget, handle_error
from support.scripted_computer import ScriptedComputer
from support.scripted_server import Relay, ScriptedServer

pytestmark = pytest.mark.anyio

OFFICE = "office-1"
BIG = random.Random(1).randbytes(1_500_000)
NOT_THERE = {"code": 404, "message": "Computer with name 'pc' not found", "details": {"computer_name": "pc"}}


def agent_of(url: str, **options: Any) -> AsyncAgent:
    return AsyncAgent(url, **{"name": "ada", "office": OFFICE, "watch_tools": False} | options)


@pytest.fixture
async def computer(server: Running) -> AsyncIterator[ScriptedComputer]:
    async with ScriptedComputer(server.url, "pc", OFFICE) as joined:
        yield joined


@pytest.fixture
async def agent(server: Running) -> AsyncIterator[AsyncAgent]:
    async with agent_of(server.url) as joined:
        yield joined


# --- reading blobs ---


@pytest.mark.spec("W-BLOB-1", "W-BLOB-3", "C-BLOB-36")
@pytest.mark.parametrize("size", [0, 1, 262_144, 262_145, len(BIG)])
@pytest.mark.parametrize("parallel", [1, 4])
async def test_a_blob_of_any_size_arrives_whole(
    computer: ScriptedComputer, agent: AsyncAgent, size: int, parallel: int
) -> None:
    computer.answers["client:get_blob"] = BlobSource(BIG[:size], mime_type="image/png")
    heard: list[tuple[int, int]] = []
    blob = await agent.read_blob("pc", "h1", parallel=parallel, progress=lambda *at: heard.append(at))
    assert blob.data == BIG[:size]
    assert (blob.mime_type, blob.sha256) == ("image/png", hashlib.sha256(BIG[:size]).hexdigest())
    assert heard[-1] == (size, size)
    assert heard == sorted(heard)


async def test_a_computer_that_gives_small_chunks_is_read_too(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    source = BlobSource(BIG[:300_000])
    source.chunk = 50_000
    computer.answers["client:get_blob"] = source
    assert (await agent.read_blob("pc", "h1")).data == BIG[:300_000]


@pytest.mark.spec("C-BLOB-36")
async def test_chunks_are_under_way_side_by_side_after_the_first(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    source = BlobSource(BIG)
    release = asyncio.Event()

    async def answer(request: Any) -> Any:
        answered = source(request)
        if request["chunk_offset"]:
            await release.wait()
        return answered

    computer.answers["client:get_blob"] = answer
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: agent.read_blob("pc", "h1", parallel=3))
        await computer.until(lambda: len(source.offsets) == 4)
        assert sorted(source.offsets) == [0, 262_144, 524_288, 786_432]
        release.set()


@pytest.mark.spec("W-BLOB-3", "C-BLOB-38")
async def test_a_source_that_changes_is_read_again_from_the_start(
    computer: ScriptedComputer, agent: AsyncAgent, tmp_path: Path
) -> None:
    source = BlobSource(BIG)
    newer = BIG[::-1]

    def replace(request: Any, answer: Any) -> Any:
        if len(source.offsets) == 3:
            source.data = newer
        return answer

    source.spoil = replace
    computer.answers["client:get_blob"] = source
    saved = await agent.save_blob("pc", "h1", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == newer
    assert (saved.total_size, saved.sha256) == (len(newer), hashlib.sha256(newer).hexdigest())
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.spec("C-BLOB-38")
async def test_a_source_that_never_stops_changing_is_given_up(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    source = BlobSource(BIG)

    def change(_request: Any, answer: Any) -> Any:
        source.data = source.data[1:] + b"x"
        return answer

    source.spoil = change
    computer.answers["client:get_blob"] = source
    with pytest.raises(BlobUnavailable) as given_up:
        await agent.read_blob("pc", "h1")
    assert given_up.value.code == "max_retries_exceeded"
    assert source.offsets.count(0) == 3


@pytest.mark.spec("C-BLOB-38", "W-BLOB-3")
async def test_bytes_that_never_match_their_hash_are_given_up(
    computer: ScriptedComputer, agent: AsyncAgent, tmp_path: Path
) -> None:
    source = BlobSource(b"abc")
    source.spoil = lambda _request, answer: answer | {"sha256": "0" * 64}
    computer.answers["client:get_blob"] = source
    with pytest.raises(BlobUnavailable):
        await agent.save_blob("pc", "h1", tmp_path / "out")
    assert os.listdir(tmp_path) == []


@pytest.mark.spec("C-BLOB-38", "C-GEN-4", "W-ERR-7")
@pytest.mark.parametrize("reason", ["invalid_handle", "forbidden", "gone", "something new"])
async def test_a_fatal_reason_ends_reading_at_once(
    computer: ScriptedComputer, agent: AsyncAgent, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    asked = []
    computer.answers["client:get_blob"] = lambda request: asked.append(request) or handle_error(reason)
    with pytest.raises(PeerError) as refused:
        await agent.read_blob("pc", "h1")
    assert refused.value.wire_code == 4018
    assert len(asked) == 1
    assert ("not known here: code 4018, reason 'something new'" in caplog.text) == (reason == "something new")


@pytest.mark.spec("C-BLOB-38")
async def test_a_range_refusal_in_parallel_gets_one_serial_attempt(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    source = BlobSource(BIG)
    refused = []

    def once(request: Any) -> Any:
        if request["chunk_offset"] and not refused:
            refused.append(request["chunk_offset"])
            return handle_error("range")
        return source(request)

    computer.answers["client:get_blob"] = once
    assert (await agent.read_blob("pc", "h1")).data == BIG
    again = source.offsets[source.offsets.index(0, 1) :]
    assert again == list(range(0, len(BIG), 262_144))


@pytest.mark.spec("C-BLOB-38")
async def test_a_range_refusal_in_a_row_is_final(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    source = BlobSource(BIG)
    computer.answers["client:get_blob"] = lambda request: (
        handle_error("range") if request["chunk_offset"] else source(request)
    )
    with pytest.raises(PeerError):
        await agent.read_blob("pc", "h1")
    assert source.offsets.count(0) == 2


@pytest.mark.spec("C-BLOB-38")
async def test_of_reasons_that_come_together_the_fatal_one_is_told(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    source = BlobSource(BIG)
    answers = {262_144: "range", 524_288: "forbidden"}
    held = asyncio.Event()

    async def refuse(request: Any) -> Any:
        reason = answers.get(request["chunk_offset"])
        if reason == "range":
            await held.wait()
        elif reason:
            held.set()
        return handle_error(reason) if reason else source(request)

    computer.answers["client:get_blob"] = refuse
    with pytest.raises(PeerError) as refused:
        await agent.read_blob("pc", "h1")
    assert refused.value.payload["details"]["reason"] == "forbidden"


@pytest.mark.spec("C-BLOB-37")
async def test_a_blob_above_the_callers_limit_is_refused_after_one_chunk(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    source = BlobSource(BIG)
    computer.answers["client:get_blob"] = source
    with pytest.raises(BlobUnavailable) as refused:
        await agent.read_blob("pc", "h1", limit=1000)
    assert refused.value.code == "blob_too_large"
    assert source.offsets == [0]


async def test_a_stream_hands_out_the_bytes_in_order(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    computer.answers["client:get_blob"] = BlobSource(BIG)
    received = [data async for data in agent.stream_blob("pc", "h1")]
    assert len(received) == 6
    assert b"".join(received) == BIG


@pytest.mark.spec("W-BLOB-3")
async def test_a_stream_whose_source_changes_midway_ends_in_an_error(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    source = BlobSource(BIG)

    def replace(_request: Any, answer: Any) -> Any:
        source.data = BIG[::-1]
        return answer

    source.spoil = replace
    computer.answers["client:get_blob"] = source
    received = agent.stream_blob("pc", "h1", parallel=1)
    assert await anext(received) == BIG[:262_144]
    with pytest.raises(BlobChanged):
        await anext(received)


async def test_a_download_goes_on_where_a_lost_connection_left_it() -> None:
    source = BlobSource(BIG)
    async with ScriptedServer() as server, Relay(server.port) as relay:
        agent = agent_of(relay.url, backoff=Backoff(initial=0.01))
        await agent.connect()

        def cut_once(request: Any) -> Any:
            answer = source(request)
            if len(source.offsets) == 3:
                relay.cut()
            return answer

        server.answers["client:get_blob"] = cut_once
        with anyio.fail_after(5):
            assert (await agent.read_blob("pc", "h1", parallel=1)).data == BIG
        assert source.offsets.count(0) == 1
        await agent.close()


@pytest.mark.spec("C-BLOB-36", "W-AGT-10")
@pytest.mark.parametrize("parallel", [1, 4])
async def test_a_download_goes_on_when_the_computer_returns_later_than_the_agent(parallel: int) -> None:
    source = BlobSource(BIG)
    async with ScriptedServer() as server, Relay(server.port) as relay:
        agent = agent_of(relay.url, backoff=Backoff(initial=0.01))
        await agent.connect()
        away, refused = False, 0

        def lose_both(request: Any) -> Any:
            nonlocal away, refused
            if away:
                refused += 1
                return NOT_THERE
            answer = source(request)
            if len(source.offsets) == 3:
                away = True
                relay.cut()
            return answer

        server.answers["client:get_blob"] = lose_both
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                with anyio.fail_after(10):
                    assert (await agent.read_blob("pc", "h1", parallel=parallel)).data == BIG

            tasks.start_soon(read)
            await server.until(lambda: refused >= 2)
            away = False
            await server.emit("notify:enter_office", {"office_id": OFFICE, "computer": "pc"})
        assert source.offsets.count(0) == 1
        await agent.close()


@pytest.mark.spec("C-BLOB-36", "W-ERR-30")
async def test_a_download_goes_on_when_a_server_that_ends_cuts_off_the_computer_before_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunk_fetcher, "LOSS_FOLLOWS", 30.0)
    source = BlobSource(BIG)
    async with ScriptedServer() as server, Relay(server.port) as relay:
        agent = agent_of(relay.url, backoff=Backoff(initial=0.01))
        await agent.connect()
        refused = anyio.Event()

        def refuse_once(request: Any) -> Any:
            if len(source.offsets) == 3 and not refused.is_set():
                refused.set()
                return NOT_THERE
            return source(request)

        server.answers["client:get_blob"] = refuse_once
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                with anyio.fail_after(10):
                    assert (await agent.read_blob("pc", "h1", parallel=1)).data == BIG

            tasks.start_soon(read)
            await refused.wait()
            await server.kick()
        await agent.close()


@pytest.mark.spec("C-BLOB-36")
async def test_a_computer_that_does_not_return_after_a_loss_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    source = BlobSource(BIG)
    async with ScriptedServer() as server, Relay(server.port) as relay:
        agent = agent_of(relay.url, backoff=Backoff(initial=0.01))
        await agent.connect()

        def leave(request: Any) -> Any:
            if source.offsets:
                monkeypatch.setattr(chunk_fetcher, "RESUME_WAIT", 0.05)
                return NOT_THERE
            relay.cut()
            return source(request)

        server.answers["client:get_blob"] = leave
        with anyio.fail_after(10), pytest.raises(PeerError) as gone:
            await agent.read_blob("pc", "h1")
        assert gone.value.wire_code == 404
        await agent.close()


@pytest.mark.spec("W-ERR-30")
@pytest.mark.parametrize("answered", [0, 2])
async def test_a_computer_that_goes_while_the_agent_stays_ends_a_download(
    computer: ScriptedComputer, agent: AsyncAgent, monkeypatch: pytest.MonkeyPatch, answered: int
) -> None:
    monkeypatch.setattr(chunk_fetcher, "LOSS_FOLLOWS", 0.05)
    source = BlobSource(BIG)
    refused: list[Any] = []
    computer.answers["client:get_blob"] = lambda request: (
        source(request) if len(source.offsets) < answered else refused.append(request) or NOT_THERE
    )
    with pytest.raises(PeerError):
        await agent.read_blob("pc", "h1", parallel=1)
    assert len(refused) == 1


@pytest.mark.parametrize("name", ["missing/out", ".", "directory"])
async def test_a_file_that_cannot_be_written_is_the_callers_error_before_anything_is_read(
    computer: ScriptedComputer, agent: AsyncAgent, tmp_path: Path, name: str
) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(ConfigValidationError) as refused:
        await agent.save_blob("pc", "h1", tmp_path / name)
    assert refused.value.field == "path"
    assert computer.requests("client:get_blob") == []


@pytest.fixture
def full_beyond() -> Iterator[Callable[[int], None]]:
    """Lets no file of this process grow beyond so many bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [1_000_000, len(BIG) - 4096])
async def test_a_disk_that_becomes_full_is_the_callers_error_and_leaves_nothing_behind(
    computer: ScriptedComputer,
    agent: AsyncAgent,
    tmp_path: Path,
    full_beyond: Callable[[int], None],
    room: int,
) -> None:
    computer.answers["client:get_blob"] = BlobSource(BIG)
    full_beyond(room)
    with pytest.raises(ConfigValidationError) as refused:
        await agent.save_blob("pc", "h1", tmp_path / "out")
    assert refused.value.field == "path"
    assert os.listdir(tmp_path) == []


async def test_a_download_cancelled_while_its_file_is_renamed_is_cancelled(
    computer: ScriptedComputer, agent: AsyncAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computer.answers["client:get_blob"] = BlobSource(b"abc")
    renamed, goes_on = threading.Event(), threading.Event()
    replace = os.replace

    def slowly(*paths: Any) -> None:
        replace(*paths)
        renamed.set()
        goes_on.wait(5)

    monkeypatch.setattr(os, "replace", slowly)
    saving = asyncio.create_task(agent.save_blob("pc", "h1", tmp_path / "out"))
    assert await asyncio.to_thread(renamed.wait, 5)
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    goes_on.set()
    assert os.listdir(tmp_path) == ["out"]


# --- blobs of tool results ---


def moved(kind: str, source: BlobSource, **meta: Any) -> dict[str, Any]:
    marks = {
        "a2c_blob_handle": source.handle,
        "a2c_total_size": len(source.data),
        "a2c_sha256": hashlib.sha256(source.data).hexdigest(),
    }
    item: dict[str, Any] = {"type": kind, "_meta": marks | meta}
    if kind == "resource":
        return item | {"resource": {"uri": "x://1", "mimeType": source.mime_type, "blob": ""}}
    return item | {"data": "", "mimeType": source.mime_type}


@pytest.mark.spec("W-CALL-26", "C-BLOB-39", "W-AGT-6")
@pytest.mark.parametrize("kind", ["image", "audio", "resource"])
async def test_a_large_binary_is_back_in_its_item_and_the_marks_are_gone(
    computer: ScriptedComputer, agent: AsyncAgent, kind: str
) -> None:
    source = BlobSource(BIG[:300_000], mime_type="image/png")
    item = moved(kind, source, theirs=1)
    computer.answers["client:get_blob"] = source
    computer.answers["client:tool_call"] = lambda _request: {"content": [{"type": "text", "text": "t"}, item]}
    result = await agent.tool_call("pc", "demo__shot")
    encoded = base64.b64encode(source.data).decode()
    text, found = result.content
    assert text == {"type": "text", "text": "t"}
    assert (found["resource"]["blob"] if kind == "resource" else found["data"]) == encoded
    assert found["_meta"] == {"theirs": 1}
    assert result.unresolved == ()


@pytest.mark.spec("W-CALL-26")
async def test_a_binary_that_cannot_be_fetched_keeps_its_handle_and_says_why(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    good, lost = BlobSource(b"good"), BlobSource(b"lost", handle="h2")
    computer.answers["client:get_blob"] = good
    computer.answers["client:tool_call"] = lambda _request: {"content": [moved("image", lost), moved("image", good)]}
    result = await agent.tool_call("pc", "demo__shot")
    first, second = result.content
    assert (first["data"], first["_meta"]["a2c_blob_handle"]) == ("", "h2")
    assert (base64.b64decode(second["data"]), "_meta" in second) == (b"good", False)
    (why,) = result.unresolved
    assert "content item 0" in why


@pytest.mark.spec("C-BLOB-39", "W-AGT-6")
async def test_a_binary_of_another_hash_than_promised_is_not_presented(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    source = BlobSource(b"promised")
    item = moved("image", source)
    source.data = b"replaced"
    computer.answers["client:get_blob"] = source
    computer.answers["client:tool_call"] = lambda _request: {"content": [item]}
    result = await agent.tool_call("pc", "demo__shot")
    assert result.content == (item,)
    assert len(result.unresolved) == 1


async def test_handles_stay_when_the_caller_wants_them_so(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    source = BlobSource(b"data")
    item = moved("image", source)
    computer.answers["client:get_blob"] = source
    computer.answers["client:tool_call"] = lambda _request: {"content": [item]}
    result = await agent.tool_call("pc", "demo__shot", fetch=False)
    assert result.content == (item,)
    assert source.offsets == []
    assert base64.b64decode((await agent.resolve_blobs("pc", result)).content[0]["data"]) == b"data"


@pytest.mark.spec("C-BLOB-28", "DEC-33")
async def test_structured_content_that_was_moved_out_is_back_in_its_place(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    source = BlobSource(b'{"rows":[1,2]}', mime_type="application/json")
    item = moved("resource", source, a2c_structured=True)
    computer.answers["client:get_blob"] = source
    computer.answers["client:tool_call"] = lambda _request: {"content": [{"type": "text", "text": "t"}, item]}
    result = await agent.tool_call("pc", "demo__query")
    assert result.structured_content == {"rows": [1, 2]}
    assert result.content == ({"type": "text", "text": "t"},)


@pytest.mark.spec("C-BLOB-27")
async def test_a_shortened_text_is_whole_again(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    source = BlobSource("beginning – and the end".encode(), mime_type="text/plain; charset=utf-8")
    pointer = moved("resource", source)
    pointer["resource"]["uri"] = f"a2c-text:///{hashlib.sha256(source.data).hexdigest()}"
    content = [
        {"type": "text", "text": "other", "_meta": {"a2c_truncated": True}},
        {"type": "text", "text": "beginning", "_meta": {"a2c_truncated": True, "k": 1}},
        pointer,
    ]
    computer.answers["client:get_blob"] = source
    computer.answers["client:tool_call"] = lambda _request: {"content": content}
    result = await agent.tool_call("pc", "demo__long")
    assert [item["text"] for item in result.content] == ["other", "beginning – and the end"]
    assert result.content[1]["_meta"] == {"k": 1}


@pytest.mark.spec("C-BLOB-39", "W-CALL-26")
@pytest.mark.parametrize("resource_value", ["x", ["x"], 5, True])
async def test_an_item_whose_resource_is_no_object_gets_its_bytes_like_any_other(
    computer: ScriptedComputer, agent: AsyncAgent, resource_value: Any
) -> None:
    source = BlobSource(b"bytes")
    item = moved("image", source) | {"resource": resource_value}
    pointer = moved("resource", source)
    pointer["resource"]["uri"] = "a2c-text:1"
    computer.answers["client:get_blob"] = source
    computer.answers["client:tool_call"] = lambda _request: {"content": [item, pointer]}
    first, second = (await agent.tool_call("pc", "demo__odd")).content
    assert (base64.b64decode(first["data"]), first["resource"]) == (b"bytes", resource_value)
    assert base64.b64decode(second["resource"]["blob"]) == b"bytes"


# --- uploads ---


@pytest.mark.spec("W-BLOB-4", "C-UP-1", "C-UP-2", "C-UP-33", "W-BLOB-5")
@pytest.mark.parametrize("size", [1, 262_144, 262_145, 600_000])
async def test_an_upload_arrives_in_order_and_says_where_it_landed(
    computer: ScriptedComputer, agent: AsyncAgent, size: int
) -> None:
    target = computer.answers["client:put_blob"] = UploadTarget()
    heard: list[tuple[int, int]] = []
    done = await agent.upload("pc", BIG[:size], name_hint="data.bin", progress=lambda *at: heard.append(at))
    assert target.files == {done.landing_path: BIG[:size]}
    assert (done.total_size, done.sha256) == (size, hashlib.sha256(BIG[:size]).hexdigest())
    assert heard[-1] == (size, size)
    first, *later = target.requests
    assert (first["total_size"], first["sha256"], first["name_hint"]) == (size, done.sha256, "data.bin")
    assert "upload_id" not in first
    for chunk in later:
        assert {"total_size", "sha256", "name_hint"}.isdisjoint(chunk)
    assert [chunk["eof"] for chunk in target.requests] == [False] * len(later) + [True]


@pytest.mark.parametrize("kind", ["path", "file", "stream"])
async def test_a_path_a_file_and_a_stream_can_be_uploaded(
    computer: ScriptedComputer, agent: AsyncAgent, tmp_path: Path, kind: str
) -> None:
    target = computer.answers["client:put_blob"] = UploadTarget()
    path = tmp_path / "notes.txt"
    path.write_bytes(BIG[:300_000])

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, 300_000, 7_000):
            yield BIG[start : min(start + 7_000, 300_000)]

    sources: dict[str, Any] = {"path": path, "file": io.BytesIO(BIG[:300_000]), "stream": pieces()}
    done = await agent.upload("pc", sources[kind])
    assert target.files[done.landing_path] == BIG[:300_000]
    assert target.requests[0].get("name_hint") == ("notes.txt" if kind == "path" else None)


@pytest.mark.spec("C-UP-33")
async def test_an_empty_payload_is_refused_here(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    target = computer.answers["client:put_blob"] = UploadTarget()
    with pytest.raises(ConfigValidationError):
        await agent.upload("pc", b"")
    assert target.requests == []


async def test_a_file_that_cannot_be_read_is_the_callers_error(agent: AsyncAgent, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    unreadable = Path("/proc/self/mem")  # opens, and fails at its first byte
    for path in (tmp_path / "missing", tmp_path, tmp_path / "pipe", Path("/dev/zero"), unreadable):
        with pytest.raises(ConfigValidationError) as refused, anyio.fail_after(5):
            await agent.upload("pc", path)
        assert refused.value.field == "source"


@pytest.mark.spec("W-BLOB-6", "C-UP-34")
@pytest.mark.parametrize("silent", [False, True])
async def test_a_computer_without_uploads_is_named_as_such(silent: bool) -> None:
    async with ScriptedServer() as server, agent_of(server.url, ack_timeout=0.1) as agent:
        if silent:
            server.answers["client:put_blob"] = lambda _request: asyncio.sleep(30)
        with pytest.raises(UploadUnsupported) as refused:
            await agent.upload("pc", b"data")
        assert refused.value.payload == b"data"


@pytest.mark.spec("W-BLOB-6")
async def test_a_stream_a_computer_does_not_take_is_not_lost() -> None:
    async def bytes_of_somebody() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 3_000_000

    async with ScriptedServer() as server, agent_of(server.url) as agent:
        with pytest.raises(UploadUnsupported) as refused:
            await agent.upload("pc", bytes_of_somebody())
        kept: Any = refused.value.payload
        with kept:
            assert kept.read() == b"x" * 9_000_000


@pytest.mark.spec("C-UP-34")
async def test_a_later_chunk_without_an_answer_is_a_network_error() -> None:
    target = UploadTarget()
    async with ScriptedServer() as server, agent_of(server.url, ack_timeout=0.2) as agent:
        server.answers["client:put_blob"] = lambda request: (
            asyncio.sleep(30) if request["chunk_offset"] else target(request)
        )
        with pytest.raises(NetworkError) as silent:
            await agent.upload("pc", BIG[:300_000])
        assert silent.value.code == "no_answer"


@pytest.mark.spec("C-UP-33", "C-UP-28")
@pytest.mark.parametrize(("reason", "begun"), [("busy", 2), ("invalid_upload", 2)])
async def test_an_upload_begins_anew_where_that_can_help(
    computer: ScriptedComputer, agent: AsyncAgent, reason: str, begun: int
) -> None:
    target = computer.answers["client:put_blob"] = UploadTarget()
    refusals = iter([handle_error(reason, 4019)])
    target.refuse = lambda request: next(refusals, None) if reason == "busy" or request["chunk_offset"] else None
    done = await agent.upload("pc", BIG[:300_000])
    assert target.files[done.landing_path] == BIG[:300_000]
    assert sum(1 for request in target.requests if "total_size" in request) == begun


async def test_a_file_that_shrinks_while_it_is_sent_ends_the_upload(
    computer: ScriptedComputer, agent: AsyncAgent, tmp_path: Path
) -> None:
    target = computer.answers["client:put_blob"] = UploadTarget()
    file = tmp_path / "log"
    file.write_bytes(BIG[:900_000])

    def shorten(done: int, _: int) -> None:
        if done < 300_000:
            os.truncate(file, 400_000)

    with pytest.raises(UploadFailed) as failed:
        await agent.upload("pc", file, progress=shorten)
    assert failed.value.code == "source_changed"
    assert target.files == {}


@pytest.mark.spec("C-UP-33", "W-BLOB-5")
@pytest.mark.parametrize("reason", ["forbidden", "too_large", "invalid_declaration", "something new"])
async def test_an_upload_refused_for_good_is_not_repeated(
    computer: ScriptedComputer, agent: AsyncAgent, reason: str
) -> None:
    target = computer.answers["client:put_blob"] = UploadTarget()
    target.refuse = lambda _request: handle_error(reason, 4019)
    with pytest.raises(PeerError) as refused:
        await agent.upload("pc", b"data")
    assert refused.value.wire_code == 4019
    assert len(target.requests) == 1


@pytest.mark.spec("C-UP-33")
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        ({"sha256": "0" * 64}, UploadFailed),
        ({"total_size": 5}, UploadFailed),
        ({"landing_path": None}, MalformedReplyError),
        ({"chunk_offset": 1}, MalformedReplyError),
    ],
)
async def test_a_wrong_echo_of_the_last_chunk_is_an_error(
    computer: ScriptedComputer, agent: AsyncAgent, spoil: dict[str, Any], error: type[Exception]
) -> None:
    target = UploadTarget()
    computer.answers["client:put_blob"] = lambda request: target(request) | spoil
    with pytest.raises(error):
        await agent.upload("pc", b"data")


# --- skills ---


def skill_answer(request: Any, data: bytes, mime_type: str, **where: Any) -> dict[str, Any]:
    return {
        "name": request["name"],
        "rel_path": request.get("rel_path", "SKILL.md"),
        "mime_type": mime_type,
        "sha256": hashlib.sha256(data).hexdigest(),
        "total_size": len(data),
        "req_id": request["req_id"],
    } | where


@pytest.mark.spec("C-SKILL-77")
async def test_a_skill_arrives_as_text_inline_or_by_handle(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    text = "# Skill\n" + "ä" * 100_000
    source = computer.answers["client:get_blob"] = BlobSource(text.encode(), mime_type="text/markdown")
    computer.answers["client:get_skill"] = lambda request: (
        skill_answer(request, b"short", "text/plain", body="short")
        if "rel_path" in request
        else skill_answer(request, text.encode(), "text/markdown", blob_handle="h1")
    )
    assert (await agent.skill("pc", "s")).text == text
    assert source.offsets == [0]
    assert (await agent.skill("pc", "s", "a.txt")).text == "short"


@pytest.mark.spec("C-SKILL-77")
@pytest.mark.parametrize(("mime_type", "data"), [("image/png", b"\x89PNG"), ("text/plain", b"\xff\xfe")])
async def test_what_is_no_text_keeps_its_handle(
    computer: ScriptedComputer, agent: AsyncAgent, mime_type: str, data: bytes
) -> None:
    computer.answers["client:get_blob"] = BlobSource(data, mime_type=mime_type)
    computer.answers["client:get_skill"] = lambda request: skill_answer(request, data, mime_type, blob_handle="h1")
    found = await agent.skill("pc", "s", "f")
    assert (found.text, found.blob_handle) == (None, "h1")


@pytest.mark.spec("C-SKILL-77")
async def test_a_text_that_does_not_match_its_hash_is_refused(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    computer.answers["client:get_skill"] = lambda request: skill_answer(request, b"x", "text/plain", body="y")
    with pytest.raises(MalformedReplyError):
        await agent.skill("pc", "s")


@pytest.mark.parametrize("where", [{}, {"body": "x", "blob_handle": "h1"}])
async def test_a_skill_file_comes_in_exactly_one_form(
    computer: ScriptedComputer, agent: AsyncAgent, where: dict[str, Any]
) -> None:
    computer.answers["client:get_skill"] = lambda request: skill_answer(request, b"x", "text/plain", **where)
    with pytest.raises(MalformedReplyError):
        await agent.get_skill("pc", "s")


@pytest.mark.spec("C-BLOB-38")
async def test_a_skill_that_was_replaced_between_two_requests_is_asked_for_once_more(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    new = BlobSource(b"new text", handle="h2")
    handles = iter(["h1", "h2"])
    computer.answers["client:get_skill"] = lambda request: skill_answer(
        request, new.data, "text/plain", blob_handle=next(handles)
    )
    computer.answers["client:get_blob"] = lambda request: (
        handle_error("gone") if request["blob_handle"] == "h1" else new(request)
    )
    assert (await agent.skill("pc", "s")).text == "new text"


async def test_desktop_and_skills_are_lists(computer: ScriptedComputer, agent: AsyncAgent) -> None:
    computer.answers["client:get_desktop"] = lambda request: {"desktops": ["a", "b"], "req_id": request["req_id"]}
    reference = {"name": "s", "source": "user", "path": "/s", "description": "d", "version": "1"}
    computer.answers["client:get_skills"] = lambda request: {"skills": [reference], "req_id": request["req_id"]}
    assert await agent.desktop("pc", size=2) == ("a", "b")
    (skill,) = await agent.skills("pc")
    assert (skill.name, skill.version) == ("s", "1")


# --- documents ---


@pytest.mark.spec("C-DOC-16", "W-DOC-1")
async def test_the_catalogue_is_read_page_by_page_whatever_a_page_holds(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    everything = [
        {"doc_ref": f"d{n}", "uri": f"dpe://h/d{n}", "title": "t", "summary": "s", "mcp_server": "b",
         "keywords": [], "page_count": 0}
        for n in range(7)
    ]  # fmt: skip
    computer.answers["client:list_finder"] = lambda request: {
        "documents": everything[request["offset"] : request["offset"] + 3],
        "total_count": 7,
        "req_id": request["req_id"],
    }
    assert [document.doc_ref for document in await agent.documents("pc")] == [f"d{n}" for n in range(7)]
    assert [request["offset"] for request in computer.requests("client:list_finder")] == [0, 3, 6]


@pytest.mark.spec("C-DOC-33", "C-DOC-34")
async def test_a_document_held_by_the_computer_is_read_and_another_one_is_pointed_to(
    computer: ScriptedComputer, agent: AsyncAgent
) -> None:
    source = BlobSource(b"%PDF", handle="b1.x:y")
    computer.answers["client:get_blob"] = source
    uris = iter(["a2c-blob:gone", "a2c-blob:b1.x:y", "https://files/x"])
    computer.answers["client:get_dpe"] = lambda request: {
        "uri": next(uris), "mime_type": "application/pdf", "size": 4, "req_id": request["req_id"],
    }  # fmt: skip
    source.spoil = lambda _request, answer: answer
    computer.answers["client:get_blob"] = lambda request: (
        handle_error("gone") if request["blob_handle"] == "gone" else source(request)
    )
    opened = await agent.open_document("pc", "dpe://h/d")
    assert (opened.data, opened.mime_type) == (b"%PDF", "application/pdf")
    pointed = await agent.open_document("pc", "dpe://h/d")
    assert (pointed.data, pointed.uri) == (None, "https://files/x")


@pytest.mark.spec("C-DOC-25")
@pytest.mark.parametrize("code", [4011, 4012, 4013, 4201, 4202, 4203])
async def test_document_errors_are_not_repeated(computer: ScriptedComputer, agent: AsyncAgent, code: int) -> None:
    computer.answers["client:get_dpe"] = lambda _request: {"code": code, "message": "m", "uri": "dpe://h/d"}
    with pytest.raises(PeerError) as refused:
        await agent.open_document("pc", "dpe://h/d")
    assert refused.value.wire_code == code
    assert len(computer.requests("client:get_dpe")) == 1
