"""Channels while things break: servers that die in the middle, disks that fill, offices that change, secrets nearby."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from faults.disk import Disk, small_disk

from smcp_runtime.actors.blobs.landing import LandingRoot, Part
from smcp_runtime.wire.errors import PeerError, SmcpError
from smcp_runtime.wire.protocol import ACK_BUDGET
from support.shelf import document, fixture_server, pattern, shelf, skill, user_skill, window
from support.stack import Stack, config, open_stack, options

from .test_blobs import binary_of, sent, with_landing

pytestmark = pytest.mark.anyio


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder) as disk:
        yield disk


async def pid_of(stack: Stack, server: str) -> int:
    return int(await stack.text(f"{server}__pid"))


@pytest.mark.spec("C-GEN-10", "C-DESK-9", "C-SEC-4", "F-54")
async def test_a_server_killed_while_its_windows_are_read_costs_only_its_windows(tmp_path: Path) -> None:
    dying = shelf(tmp_path, "dying", [window("window://d/1", "slow", then={"delay": 30})], bundle_id="dying")
    good = shelf(tmp_path, "good", [window("window://g/1", "good")], bundle_id="good")
    async with open_stack(config(dying, good)) as stack:
        await stack.until_listed("dying__pid", "good__pid")
        pid = await pid_of(stack, "dying")
        shown: list[Any] = []
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                shown.append(await stack.agent.desktop("desk"))

            tasks.start_soon(read)
            await anyio.sleep(0.2)
            os.kill(pid, signal.SIGKILL)
            await stack.until(lambda: shown, timeout=5)
        assert shown == [("window://g/1\n\ngood",)]


@pytest.mark.spec("C-SKILL-18", "C-SKILL-41", "C-SEC-18")
async def test_a_server_killed_while_a_skill_is_staged_leaves_no_half_of_it(tmp_path: Path, own_places: Path) -> None:
    files = skill("lab", "brew", {"a.txt": "a"})
    files[-1]["then"] = "die"
    async with open_stack(config(shelf(tmp_path, "shelf", files))) as stack:
        await stack.until(lambda: retried(stack), timeout=20)
        assert await stack.agent.skills("desk") == ()
        staged = own_places / "share" / "a2c" / "skills" / "mcp" / "shelf_display"
        assert not (staged / "brew").exists()


async def retried(stack: Stack) -> bool:
    (server,) = (await stack.computer.diagnostics()).servers
    return server.restarts_in_window >= 1 or server.retries >= 1


@pytest.mark.spec("C-UP-17", "C-UP-9", "C-UP-10", "C-SEC-34")
async def test_a_full_disk_refuses_an_upload_and_keeps_nothing_of_it(disk: Disk) -> None:
    async with open_stack(with_landing(disk.folder)) as stack:
        with disk.full(), pytest.raises(PeerError) as refused:
            await stack.agent.upload("desk", pattern(100_000))
        assert refused.value.payload["details"]["reason"] == "io_error"
        assert [path for path in (disk.folder / "landing").rglob("*") if path.is_file()] == []
        assert (await stack.agent.upload("desk", b"ABC")).total_size == 3


@pytest.mark.spec("C-UP-17", "C-UP-9", "C-SEC-34")
@pytest.mark.parametrize(
    ("where", "name", "reason"),
    [(Part, "write", "io_error"), (Part, "finish", "io_error"), (LandingRoot, "begin", "forbidden")],
)
async def test_a_disk_that_fails_at_any_step_refuses_an_upload_and_keeps_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, where: Any, name: str, reason: str
) -> None:
    async with open_stack(with_landing(tmp_path)) as stack:
        digest = hashlib.sha256(b"ABC").hexdigest()
        with monkeypatch.context() as broken:
            broken.setattr(where, name, full)
            with pytest.raises(PeerError) as refused:
                await stack.agent.put_blob("desk", "QUJD", offset=0, eof=True, total_size=3, sha256=digest)
        assert refused.value.payload["details"]["reason"] == reason
        assert [path for path in (tmp_path / "landing").rglob("*") if path.is_file()] == []
        assert (await stack.agent.upload("desk", b"ABC")).total_size == 3


@pytest.mark.spec("C-BLOB-25", "C-BLOB-29", "W-CALL-25", "C-BLOB-30")
async def test_a_full_spool_keeps_what_fits_inline_and_refuses_the_rest(disk: Disk) -> None:
    server = "big_results_server"
    async with open_stack(
        config(fixture_server(server)), runtime=options(blob_cache_root=str(disk.folder / "cache"))
    ) as stack:
        await stack.until_listed(f"{server}__picture", timeout=20)
        with disk.full():
            inline = await stack.call(f"{server}__picture", size=100_000)
            assert (inline.is_error, binary_of(inline.content[0])) == (False, pattern(100_000))
            refused = await stack.call(f"{server}__picture", size=2_000_000)
            assert (refused.is_error, refused.error_code) == (True, 4003)
            assert "2000000 bytes" in refused.text
            text = await stack.call(f"{server}__novel", size=2_000_000)
            assert (text.is_error, text.meta["a2c_result_too_large"]) == (True, True)
        assert not (await stack.call(f"{server}__picture", size=2_000_000)).is_error


async def any_skill(stack: Stack) -> bool:
    return any(found.name.endswith(":brew") for found in await stack.agent.skills("desk"))


@pytest.mark.spec("C-SEC-3", "C-GEN-7", "C-SKILL-58", "C-DOC-16", "DEC-33")
async def test_no_list_exceeds_the_budget_whatever_servers_hold(tmp_path: Path, own_places: Path) -> None:
    home = own_places / "home"
    for number in range(300):
        user_skill(home, f"s{number:03d}", description=f"{number} " + "long words " * 400)
    documents = [document(f"dpe://h/d{n:03d}", description="y" * 20_000) for n in range(120)]
    entry = shelf(tmp_path, "shelf", [*documents, window("window://a/1", "one")])
    async with open_stack(config(entry), runtime=options(home=str(home))) as stack:
        await stack.until(lambda: all_there(stack), timeout=30)
        for event, fields in {
            "client:get_skills": {},
            "client:get_desktop": {},
            "client:list_finder": {"limit": 100},
            "client:get_tools": {},
            "client:get_config": {},
            "client:get_resources": {"mcp_server": "shelf_display"},
        }.items():
            answer = await sent(stack, event, **fields)
            assert len(answer) <= ACK_BUDGET, event
            assert not answer.startswith(b'{"code"'), (event, answer[:200])
        assert len(await stack.agent.skills("desk")) == 300


async def all_there(stack: Stack) -> bool:
    skills, page = await stack.agent.skills("desk"), await stack.agent.list_finder("desk", limit=0)
    return (len(skills), page.total_count, len(await stack.agent.desktop("desk"))) == (300, 120, 1)


@pytest.mark.spec("C-SEC-1", "C-SKILL-74", "C-GEN-16", "C-DESK-26", "R-SEC-10")
async def test_no_answer_no_error_and_no_log_line_holds_a_secret_or_content(
    tmp_path: Path, own_places: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    home = own_places / "home"
    user_skill(home, "mine", {".skillenv": "TOKEN=canary-skillenv", "id_rsa": "canary-key", "a.txt": "content-of-a"})
    resources = [
        window("window://a/1", "content-of-window"),
        window("window://a/2", then={"error": -32603}),
        document("dpe://h/d", then={"error": -32603}),
        *skill("lab", "brew", {".skillenv": "TOKEN=canary-staged", "b.bin": 100_000}),
    ]
    entry = shelf(tmp_path, "shelf", resources)
    entry["server_parameters"]["env"] = {"TOKEN": "canary-env"}
    configuration = with_landing(tmp_path, entry)
    runtime = options(home=str(home), reference_resolver="blob", auth_payload_provider={"token": "canary-auth"})
    seen: list[str] = []
    async with open_stack(configuration, runtime=runtime) as stack:
        await stack.until(lambda: any_skill(stack), timeout=20)
        await stack.until(lambda: one_window(stack))
        for event, fields in [
            ("client:get_desktop", {"window": "window://a/2"}),
            ("client:get_skills", {}),
            ("client:get_skill", {"name": "mine", "rel_path": ".skillenv"}),
            ("client:get_skill", {"name": "mine", "rel_path": "id_rsa"}),
            ("client:get_skill", {"name": "mcp:shelf_display:brew", "rel_path": ".skillenv"}),
            ("client:get_skill", {"name": "mcp:shelf_display:brew", "rel_path": "../../../../../etc/passwd"}),
            ("client:get_blob", {"blob_handle": "b1.canary.canary"}),
            ("client:put_blob", {"blob": "!", "chunk_offset": 0, "eof": True, "total_size": 1, "sha256": "00"}),
            ("client:list_finder", {}),
            ("client:get_dpe", {"uri": "dpe://h/d"}),
            ("client:get_config", {}),
        ]:
            seen.append((await sent(stack, event, **fields)).decode())
        handle = str((await stack.agent.skill("desk", "mcp:shelf_display:brew", "b.bin")).blob_handle)
        await stack.agent.read_blob("desk", handle)
        await stack.agent.skill("desk", "mine", "a.txt")
        await stack.agent.upload("desk", b"content-of-upload")
        stack.computer.kill_actor("skills")
        stack.computer.kill_actor("blobs")
        await stack.agent.skill("desk", "mine", "a.txt")
        seen.append(str(await stack.computer.diagnostics()))
    said = "\n".join(seen).replace("b1.canary.canary", "")
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("smcp_runtime"))
    assert "canary" not in said
    assert "canary" not in logged.replace("b1.canary.", "")
    for content in ("content-of-a", "content-of-window", "content-of-upload", handle):
        assert content not in logged, content


async def one_window(stack: Stack) -> bool:
    try:
        return len(await stack.agent.desktop("desk")) == 1
    except SmcpError:
        return False
