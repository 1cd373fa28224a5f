"""Large tool results and uploads, through a real Server: nothing is lost, nothing is too large to be sent."""

from __future__ import annotations

import base64
import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import psutil
import pytest

from smcp_runtime.agent import AsyncAgent, Uploaded
from smcp_runtime.wire.base import to_json
from smcp_runtime.wire.errors import PeerError
from smcp_runtime.wire.protocol import ACK_BUDGET
from support.shelf import fixture_server, pattern, user_skill
from support.stack import Stack, config, open_stack, options

pytestmark = pytest.mark.anyio

BIG = "big_results_server"
INLINE = 32 * 1024


async def sent(stack: Stack, event: str, **fields: Any) -> bytes:
    """The acknowledgement of a request as it arrived."""
    base = {"agent": "planner", "req_id": stack.agent.new_req_id(), "computer": stack.computer.name}
    values = await stack.agent._link.call(event, to_json({**base, **fields}), 30.0)
    (value,) = values
    return bytes(value)


async def raw_call(stack: Stack, tool: str, **params: Any) -> tuple[int, Any]:
    """Size and content of a result as it travelled."""
    text = await sent(stack, "client:tool_call", tool_name=f"{BIG}__{tool}", params=params, timeout=30)
    return len(text), msgspec.json.decode(text)


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    async with open_stack(config(fixture_server(BIG))) as made:
        await made.until_listed(f"{BIG}__album", timeout=20)
        yield made


def binary_of(item: dict[str, Any]) -> bytes:
    holder = item.get("resource", item)
    return base64.b64decode(holder.get("data") or holder.get("blob"))


@pytest.mark.spec("C-BLOB-21", "C-BLOB-22", "C-BLOB-23", "C-BLOB-39", "W-CALL-23", "W-CALL-26", "F-40")
@pytest.mark.parametrize("tool", ["picture", "sound", "file"])
async def test_a_large_binary_travels_as_a_handle_and_arrives_whole(stack: Stack, tool: str) -> None:
    size, raw = await raw_call(stack, tool, size=INLINE + 1)
    (item,) = raw["content"]
    assert size < 2_000
    assert item["_meta"]["a2c_total_size"] == INLINE + 1
    assert item["_meta"]["a2c_sha256"] == hashlib.sha256(pattern(INLINE + 1)).hexdigest()
    result = await stack.call(f"{BIG}__{tool}", size=5_000_000, timeout=30)
    (item,) = result.content
    assert binary_of(item) == pattern(5_000_000)
    assert "_meta" not in item
    assert result.unresolved == ()
    _, small = await raw_call(stack, tool, size=INLINE)
    assert binary_of(small["content"][0]) == pattern(INLINE)


@pytest.mark.spec("C-SEC-3", "C-BLOB-26", "C-BLOB-27", "C-BLOB-28", "C-GEN-7", "W-CALL-24", "F-40", "DEC-33")
@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("album", {"count": 100, "size": 31 * 1024}),
        ("novel", {"size": 3_000_000}),
        ("table", {"rows": 30_000}),
        ("picture", {"size": 30_000_000}),
    ],
)
async def test_no_result_exceeds_the_budget_and_the_agent_gets_all_of_it(
    stack: Stack, tool: str, words: dict[str, int]
) -> None:
    size, raw = await raw_call(stack, tool, **words)
    assert size <= ACK_BUDGET
    assert raw["isError"] is False
    result = await stack.call(f"{BIG}__{tool}", timeout=30, **words)
    assert (result.is_error, result.unresolved) == (False, ())
    if tool == "album":
        assert [binary_of(item) for item in result.content] == [pattern(31 * 1024)] * 100
    elif tool == "picture":
        assert binary_of(result.content[0]) == pattern(30_000_000)
    elif tool == "novel":
        assert [item["text"] for item in result.content] == ["x" * 3_000_000]
    else:
        assert result.text == "30000 rows"
        assert len(result.structured_content["rows"]) == 30_000


@pytest.mark.spec("C-SEC-23", "C-BLOB-16", "C-SEC-2")
async def test_a_handle_of_a_tool_result_is_worth_nothing_in_another_office(stack: Stack) -> None:
    _, raw = await raw_call(stack, "picture", size=100_000)
    handle = raw["content"][0]["_meta"]["a2c_blob_handle"]
    assert (await stack.agent.read_blob("desk", handle)).data == pattern(100_000)
    await stack.computer.join("elsewhere")
    async with open_agent(stack, "elsewhere") as other:
        with pytest.raises(PeerError) as refused:
            await other.get_blob("desk", handle)
        assert refused.value.payload["details"] == {"reason": "forbidden"}
        with pytest.raises(PeerError) as refused:
            await stack.agent.get_blob("desk", handle)
        assert refused.value.wire_code in (404, 4104)
    await stack.computer.join("lab")
    assert (await stack.agent.read_blob("desk", handle)).data == pattern(100_000)


def open_agent(stack: Stack, office: str) -> AsyncAgent:
    return AsyncAgent(stack.server.url, name="other", office=office)


@pytest.mark.spec("C-GEN-15", "C-BLOB-3", "C-BLOB-16")
async def test_a_handle_of_a_tool_result_survives_the_actor_that_minted_it(stack: Stack) -> None:
    _, raw = await raw_call(stack, "picture", size=100_000)
    assert stack.computer.kill_actor("blobs")
    handle = raw["content"][0]["_meta"]["a2c_blob_handle"]
    assert (await stack.agent.read_blob("desk", handle)).data == pattern(100_000)
    result = await stack.call(f"{BIG}__picture", size=100_000)
    assert binary_of(result.content[0]) == pattern(100_000)


@pytest.mark.spec("C-BLOB-34", "C-BLOB-38", "C-BLOB-39")
async def test_a_deleted_spool_file_is_gone_and_the_rest_of_the_result_is_delivered(
    stack: Stack, own_places: Path
) -> None:
    _, raw = await raw_call(stack, "picture", size=100_000)
    (own_places / ".a2c" / ".blobspool" / hashlib.sha256(pattern(100_000)).hexdigest()).unlink()
    with pytest.raises(PeerError) as refused:
        await stack.agent.read_blob("desk", raw["content"][0]["_meta"]["a2c_blob_handle"])
    assert refused.value.payload["details"] == {"reason": "gone"}


@pytest.mark.spec("C-BLOB-30", "C-BLOB-35", "R-LIFE-20")
@pytest.mark.parametrize("persistent", [True, False])
async def test_the_spool_survives_a_shutdown_only_if_it_is_persistent(own_places: Path, persistent: bool) -> None:
    async with open_stack(config(fixture_server(BIG)), runtime=options(spool_persistent=persistent)) as stack:
        await stack.until_listed(f"{BIG}__picture", timeout=20)
        await raw_call(stack, "picture", size=100_000)
    left = [path.name for path in (own_places / ".a2c" / ".blobspool").iterdir()]
    digest = hashlib.sha256(pattern(100_000)).hexdigest()
    assert sorted(left) == ([digest, f"{digest}.mime"] if persistent else [])


# -- up ---------------------------------------------------------------------------------------


def with_landing(folder: Path, *servers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return config(*servers, settings={"landingRoot": str(folder / "landing")}, **more)


@pytest.mark.spec("C-UP-1", "C-UP-2", "C-UP-20", "C-UP-21", "C-UP-23", "C-UP-32", "E-9", "W-BLOB-4", "C-SEC-30")
@pytest.mark.parametrize("kind", ["bytes", "path", "file", "stream"])
async def test_what_is_uploaded_lands_under_a_path_that_tools_can_use(tmp_path: Path, kind: str) -> None:
    data = pattern(900_001)
    source: Any = data
    if kind == "path":
        source = tmp_path / "source"
        source.write_bytes(data)
    elif kind == "file":
        source = io.BytesIO(data)
    elif kind == "stream":
        source = pieces(data)
    async with open_stack(with_landing(tmp_path)) as stack:
        done = await stack.agent.upload("desk", source, name_hint="../../etc/pass wd")
        landed = landing_file(done)
        assert landed.read_bytes() == data
        assert (landed.parent, landed.name) == (tmp_path / "landing", f"{done.upload_id}_etc_pass_wd")
        assert (landed.stat().st_mode & 0o777, landed.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        assert os.listdir(tmp_path / "landing" / ".a2c-upload") == []


def landing_file(done: Uploaded) -> Path:
    return Path(done.landing_path)


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


@pytest.mark.spec("T-SCOPE-5", "C-UP-4", "C-UP-31", "C-SEC-31", "W-BLOB-5")
@pytest.mark.parametrize("settings", [{}, {"landingRoot": "relative/place"}, {"landingRoot": 5}])
async def test_without_a_usable_landing_root_every_upload_is_forbidden(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    runtime = options(user_config_dir=str(written(tmp_path, settings)))
    async with open_stack(config(), runtime=runtime) as stack:
        await forbidden(stack)


@pytest.mark.spec("T-SCOPE-5", "C-UP-31", "C-SEC-31")
async def test_t_scope_5_a_landing_root_that_travels_with_a_project_does_not_count(tmp_path: Path) -> None:
    project = tmp_path / "project"
    written(project / ".tfrobot", {"landingRoot": str(tmp_path / "trap")})
    async with open_stack(config(), runtime=options(project_root=str(project))) as stack:
        await forbidden(stack)
        assert any("landingRoot" in finding for finding in (await stack.computer.diagnostics()).findings)
    assert not (tmp_path / "trap").exists()


def written(folder: Path, settings: dict[str, Any]) -> Path:
    """A folder with a settings file in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_bytes(to_json(settings))
    return folder


async def forbidden(stack: Stack) -> None:
    with pytest.raises(PeerError) as refused:
        await stack.agent.upload("desk", b"bytes")
    assert (refused.value.wire_code, refused.value.payload["details"]) == (4019, {"reason": "forbidden"})


@pytest.mark.spec("C-UP-27", "C-SEC-33", "C-UP-11")
@pytest.mark.parametrize("named", ["planner", "another name than it joined under"])
async def test_an_upload_ends_with_the_stay_of_its_agent(tmp_path: Path, named: str) -> None:
    async with open_stack(with_landing(tmp_path)) as stack:
        chunk = base64.b64encode(b"half").decode()
        declared = {"total_size": 8, "sha256": hashlib.sha256(b"halfhalf").hexdigest()}
        first = msgspec.json.decode(
            await sent(stack, "client:put_blob", agent=named, chunk_offset=0, eof=False, blob=chunk, **declared)
        )
        staging = tmp_path / "landing" / ".a2c-upload"
        assert len(os.listdir(staging)) == 1
        await stack.agent.close()
        await stack.until(lambda: not os.listdir(staging))
        async with open_agent(stack, "lab") as other:
            with pytest.raises(PeerError) as refused:
                await other.put_blob("desk", chunk, offset=4, eof=True, upload_id=first["upload_id"])
            assert refused.value.payload["details"]["reason"] == "invalid_upload"


@pytest.mark.spec("C-UP-18", "C-SEC-34", "C-GEN-15", "C-UP-28")
async def test_an_upload_whose_actor_dies_begins_anew_and_leaves_nothing_of_the_first_try(tmp_path: Path) -> None:
    async with open_stack(with_landing(tmp_path)) as stack:
        killed: list[bool] = []

        def kill_once(done: int, total: int) -> None:
            if done > 300_000 and not killed:
                killed.append(stack.computer.kill_actor("blobs"))

        done = await stack.agent.upload("desk", pattern(2_000_000), progress=kill_once)
        assert killed == [True]
        assert landing_file(done).read_bytes() == pattern(2_000_000)
        landed = [path for path in (tmp_path / "landing").iterdir() if path.is_file()]
        assert landed == [landing_file(done)]


@pytest.mark.spec("C-UP-6", "D-35", "R-OPT-2", "C-DEF-1")
async def test_the_limits_of_uploads_are_options(tmp_path: Path) -> None:
    async with open_stack(with_landing(tmp_path), runtime=options(upload_max_bytes=1000)) as stack:
        with pytest.raises(PeerError) as refused:
            await stack.agent.upload("desk", pattern(1001))
        assert refused.value.payload["details"]["reason"] == "too_large"
        assert (await stack.agent.upload("desk", pattern(1000))).total_size == 1000


@pytest.mark.spec("W-BLOB-1", "W-BLOB-3", "C-BLOB-15", "C-BLOB-38", "T-PROJ-6")
async def test_a_file_replaced_between_two_chunks_is_read_again_from_the_start(own_places: Path) -> None:
    home = own_places / "home"
    folder = user_skill(home, "mine", {"data.bin": pattern(1_500_000)})
    async with open_stack(config(), runtime=options(home=str(home))) as stack:
        file = await stack.agent.skill("desk", "mine", "data.bin")
        replaced: list[bool] = []

        def replace_once(done: int, total: int) -> None:
            if done > 500_000 and not replaced:
                replaced.append(True)
                (folder / "new").write_bytes(b"\x07" * 1_200_000)
                os.replace(folder / "new", folder / "data.bin")

        blob = await stack.agent.read_blob("desk", str(file.blob_handle), progress=replace_once, parallel=1)
        assert blob.data == b"\x07" * 1_200_000
        assert replaced


@pytest.mark.spec("C-BLOB-10", "C-BLOB-13", "D-12", "D-24", "R-OPT-1")
async def test_the_largest_chunk_an_option_allows_still_fits_an_answer(own_places: Path) -> None:
    home = own_places / "home"
    user_skill(home, "mine", {"data.bin": pattern(2_000_000)})
    async with open_stack(config(), runtime=options(home=str(home), chunk_max_bytes=5_000_000)) as stack:
        handle = (await stack.agent.skill("desk", "mine", "data.bin")).blob_handle
        answer = await sent(stack, "client:get_blob", blob_handle=handle, max_chunk_bytes=5_000_000)
        assert len(answer) <= ACK_BUDGET
        assert len(base64.b64decode(msgspec.json.decode(answer)["blob"])) == 640 * 1024


@pytest.mark.spec("C-BLOB-14", "C-SEC-26", "C-BLOB-36", "C-UP-19")
async def test_neither_direction_holds_a_large_file_in_memory(tmp_path: Path, own_places: Path) -> None:
    size = 96 * 1024 * 1024
    home = own_places / "home"
    folder = user_skill(home, "mine", {"small.bin": pattern(3_000_000)})
    with (folder / "large.bin").open("wb") as file:
        file.truncate(size)
    async with open_stack(with_landing(tmp_path), runtime=options(home=str(home))) as stack:

        async def there_and_back(name: str) -> int:
            handle = str((await stack.agent.skill("desk", "mine", name)).blob_handle)
            read = 0
            async for chunk in stack.agent.stream_blob("desk", handle):
                read += len(chunk)
            assert (await stack.agent.upload("desk", folder / name)).total_size == read
            return read

        await there_and_back("small.bin")
        async with peak_growth() as grown:
            assert await there_and_back("large.bin") == size
        # Server, Computer and Agent together, and whatever the allocator keeps.
        assert grown() < 32 * 1024 * 1024


@asynccontextmanager
async def peak_growth() -> AsyncIterator[Callable[[], int]]:
    """Gives the bytes by which this process grew at most."""
    process = psutil.Process()
    before = peak = process.memory_info().rss

    async def look() -> None:
        nonlocal peak
        while True:
            peak = max(peak, process.memory_info().rss)
            await anyio.sleep(0.005)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        yield lambda: peak - before
        tasks.cancel_scope.cancel()


@pytest.mark.spec("C-BLOB-36")
async def test_calls_stay_quick_while_a_blob_is_read_and_while_one_is_sent(tmp_path: Path, own_places: Path) -> None:
    home = own_places / "home"
    user_skill(home, "mine", {"data.bin": pattern(30_000_000)})
    server = fixture_server("sample", default_tool_meta={"auto_apply": True})
    async with open_stack(with_landing(tmp_path, server), runtime=options(home=str(home))) as stack:
        await stack.until_listed("sample__echo", timeout=20)
        handle = str((await stack.agent.skill("desk", "mine", "data.bin")).blob_handle)

        async def median() -> float:
            waits = []
            for _ in range(31):
                began = anyio.current_time()
                await stack.text("sample__echo", text="x")
                waits.append(anyio.current_time() - began)
            return sorted(waits)[15]

        quiet = await median()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stack.agent.read_blob, "desk", handle)
            tasks.start_soon(stack.agent.upload, "desk", pattern(30_000_000))
            await anyio.sleep(0.05)
            busy = await median()
            tasks.cancel_scope.cancel()
        # All four parts share one event loop here, so this is no speed claim: it tells pacing from none.
        assert busy < max(10 * quiet, 0.1)
