"""Our Computer hosts servers that nobody here wrote, all at once; our Agent uses them through our Server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from smcp_runtime.wire.errors import PeerError
from support.leftovers import nothing_left
from support.peers import Peers
from support.stack import Stack, config, open_stack, options
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

START = 40.0
"""Seconds that all of them may take to come up on a machine with other work to do."""
STDIO = ("time", "git", "every", "files")
HTTP = {"streamable": ("streamableHttp", "/mcp"), "sse": ("sse", "/sse")}


def entry(bundle_id: str, *command: str, **more: Any) -> dict[str, Any]:
    """A stdio server found on PATH."""
    return {
        "name": f"The {bundle_id} server",
        "bundle_id": bundle_id,
        "type": "stdio",
        "server_parameters": {"command": command[0], "args": list(command[1:])},
        "default_tool_meta": {"auto_apply": True},
        **more,
    }


def stdio_servers(folder: Path) -> list[dict[str, Any]]:
    """The four of them; the filesystem server may use this folder only."""
    return [
        entry("time", "mcp-server-time", "--local-timezone", "UTC"),
        entry("git", "mcp-server-git"),
        entry("every", "mcp-server-everything"),
        entry("files", "mcp-server-filesystem", str(folder)),
    ]


def git(*words: str, at: Path) -> None:
    identity = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@example.org"}
    identity |= {key.replace("AUTHOR", "COMMITTER"): value for key, value in identity.items()}
    subprocess.run(["git", *words], cwd=at, env={**os.environ, **identity}, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "shared"
    path.mkdir()
    (path / "note.txt").write_text("first line\nsecond line\n", "utf-8")
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits on a branch."""
    path = tmp_path / "repository"
    path.mkdir()
    git("init", "--quiet", "--initial-branch=trunk", at=path)
    for number in (1, 2):
        (path / "file.txt").write_text(f"version {number}\n", "utf-8")
        git("add", "file.txt", at=path)
        git("commit", "--quiet", "-m", f"Change number {number}", at=path)
    return path


@pytest.fixture
async def stack(folder: Path) -> AsyncIterator[Stack]:
    """All four over stdio, up."""
    servers = config(*stdio_servers(folder))
    async with nothing_left(), open_stack(servers, runtime=options(start_wait_s=START)) as opened:
        await opened.until_serving(*STDIO, timeout=START)
        yield opened


class Remote:
    """server-everything over HTTP on a port that the system chose for it; it can be killed and started again."""

    def __init__(self, transport: str, peers: Peers) -> None:
        self._transport, self._peers, self.port = transport, peers, 0
        self._word, self._path = HTTP[transport]
        self.start()

    def start(self) -> None:
        """Listens, on the same port as before."""
        self.peer = self._peers.start(["mcp-server-everything", self._word], env={**os.environ, "PORT": str(self.port)})
        self.peer.wait_line("listening|running", timeout=START, of="errors")
        found = psutil.Process(self.peer.pid).net_connections("tcp")
        (self.port,) = {one.laddr.port for one in found if one.status == psutil.CONN_LISTEN}

    def entry(self) -> dict[str, Any]:
        """Its server entry; the bundle_id is the transport."""
        return {
            "name": f"Everything over {self._transport}",
            "bundle_id": self._transport,
            "type": self._transport,
            "server_parameters": {"url": f"http://127.0.0.1:{self.port}{self._path}"},
            "default_tool_meta": {"auto_apply": True},
        }


@pytest.mark.spec("R-MCP-1", "E-2", "W-EXP-1", "DEC-5")
async def test_every_tool_of_all_of_them_is_listed_under_its_server(stack: Stack) -> None:
    tools = (await stack.agent.get_tools("desk")).tools
    names = [tool.name for tool in tools]
    assert names == sorted(names)
    expected = {
        "time__convert_time",
        "time__get_current_time",
        "git__git_log",
        "git__git_status",
        "every__echo",
        "every__get-sum",
        "files__read_text_file",
        "files__write_file",
    }
    assert expected <= set(names)
    assert {tool.bundle_id for tool in tools} == set(STDIO)
    assert all(tool.params_schema.get("type") == "object" for tool in tools)
    hints = {
        tool.name: json.loads(tool.meta["MCP_TOOL_ANNOTATION"])
        for tool in tools
        if tool.bundle_id == "every" and tool.meta
    }
    assert hints["every__echo"]["readOnlyHint"] is True
    shown = (await stack.agent.get_config("desk")).servers
    assert {bundle_id: one.name for bundle_id, one in shown.items()} == {name: f"The {name} server" for name in STDIO}


@pytest.mark.spec("E-1", "C-1", "C-2", "W-CALL-8")
async def test_time_is_converted_and_an_unknown_zone_is_an_error_of_the_tool(stack: Stack) -> None:
    answer = json.loads(
        await stack.text("time__convert_time", source_timezone="UTC", time="12:30", target_timezone="Asia/Tokyo")
    )
    assert answer["target"]["datetime"].partition("T")[2].startswith("21:30")
    refused = await stack.call(
        "time__convert_time", source_timezone="Nowhere/None", time="12:30", target_timezone="UTC"
    )
    assert refused.is_error
    assert "Nowhere" in refused.text


@pytest.mark.spec("E-1", "C-1")
async def test_the_log_of_a_repository_is_read_and_its_changes_shown(stack: Stack, repository: Path) -> None:
    log = await stack.text("git__git_log", repo_path=str(repository), max_count=10)
    assert log.index("Change number 2") < log.index("Change number 1")
    assert "Ada" in log
    (repository / "file.txt").write_text("version 3\n", "utf-8")
    assert "version 3" in await stack.text("git__git_diff_unstaged", repo_path=str(repository))


@pytest.mark.spec("E-1", "C-1", "C-2")
async def test_files_are_written_read_and_kept_inside_their_folder(stack: Stack, folder: Path) -> None:
    await stack.text("files__write_file", path=str(folder / "new.txt"), content="made by a tool\n")
    assert (folder / "new.txt").read_text("utf-8") == "made by a tool\n"
    assert "second line" in await stack.text("files__read_text_file", path=str(folder / "note.txt"))
    outside = await stack.call("files__read_text_file", path="/etc/hostname")
    assert outside.is_error
    assert "denied" in outside.text.lower()


@pytest.mark.spec("E-1", "W-CALL-18")
async def test_text_structure_images_and_embedded_resources_come_as_the_server_made_them(stack: Stack) -> None:
    assert await stack.text("every__echo", message="hello") == "Echo: hello"
    weather = await stack.call("every__get-structured-content", location="Chicago")
    assert weather.structured_content == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    image = (await stack.call("every__get-tiny-image")).content[1]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    embedded = (await stack.call("every__get-resource-reference", resourceType="Blob", resourceId=2)).content[1]
    assert embedded["resource"]["uri"] == "demo://resource/dynamic/blob/2"
    assert base64.b64decode(embedded["resource"]["blob"])
    wrong = await stack.call("every__echo")
    assert wrong.is_error


@pytest.mark.spec("E-5", "W-RES-1", "W-RES-2")
async def test_resources_are_listed_and_their_absence_has_a_code(stack: Stack) -> None:
    listed = (await stack.agent.get_resources("desk", "every")).resources
    assert any(resource.uri.startswith("demo://resource/") for resource in listed)
    with pytest.raises(PeerError) as refused:
        await stack.agent.get_resources("desk", "files")
    assert (refused.value.wire_code, refused.value.payload["capability"]) == (4015, "resources")


@pytest.mark.spec("W-CALL-17", "W-ARCH-6", "DEC-11")
async def test_a_long_operation_with_progress_ends_and_holds_nobody_up(stack: Stack) -> None:
    long = asyncio.create_task(stack.text("every__trigger-long-running-operation", timeout=20, duration=2, steps=4))
    for number in range(10):
        assert await stack.text("every__echo", message=str(number)) == f"Echo: {number}"
    assert not long.done()
    assert "Duration: 2 seconds, Steps: 4" in await long


@pytest.mark.spec("C-7", "C-8", "DEC-12")
async def test_long_operations_end_by_their_limit_and_by_cancellation(stack: Stack) -> None:
    words = {"duration": 60, "steps": 60}
    began = time.monotonic()
    late = await stack.call("every__trigger-long-running-operation", timeout=1, **words)
    assert (late.error_code, late.meta["a2c_timeout"]) == (4004, True)
    assert time.monotonic() - began < 3
    req_id = stack.agent.new_req_id()
    call = asyncio.create_task(
        stack.agent.tool_call("desk", "every__trigger-long-running-operation", words, timeout=60, req_id=req_id)
    )
    with anyio.fail_after(10):
        while not call.done():  # a cancel that comes before the call is ignored
            await stack.agent.cancel(req_id)
            await anyio.sleep(0.05)
    assert (await call).meta["a2c_cancelled"] is True
    assert await stack.text("every__echo", message="still here") == "Echo: still here"


@pytest.mark.spec("C-6", "DEC-1", "DEC-4", "DEC-10", "DEC-25", "F-64")
async def test_one_that_is_killed_in_mid_call_costs_the_others_nothing_and_comes_back(stack: Stack) -> None:
    pids = {server.bundle_id: server.pid for server in (await stack.computer.diagnostics()).servers}
    call = asyncio.create_task(stack.call("every__trigger-long-running-operation", timeout=60, duration=60, steps=60))

    async def running() -> bool:
        return (await stack.computer.diagnostics()).link.in_flight == 1

    await until(running, 10)
    await stack.text("every__echo", message="sent after it")
    victim = pids["every"]
    assert victim is not None
    psutil.Process(victim).kill()
    with anyio.fail_after(3):
        lost = await call
    assert (lost.error_code, lost.meta["a2c_outcome"], lost.meta["mcp_server"]) == (4003, "unknown", "every")
    with anyio.fail_after(2):
        assert "UTC" in await stack.text("time__get_current_time", timezone="UTC")
    names = await stack.names()
    assert {"time__convert_time", "git__git_log", "files__read_text_file"} <= set(names)
    await stack.until_listed("every__echo", timeout=START)
    assert await stack.text("every__echo", message="back") == "Echo: back"
    now = {server.bundle_id: server.pid for server in (await stack.computer.diagnostics()).servers}
    assert {name for name in STDIO if now[name] != pids[name]} == {"every"}


@pytest.mark.spec("R-FIX-3", "R-MCP-1", "E-1", "E-5", "DEC-4")
async def test_one_server_over_three_transports_offers_and_does_the_same(peers: Peers) -> None:
    remote = [Remote(transport, peers).entry() for transport in HTTP]
    async with nothing_left():
        servers = config(entry("every", "mcp-server-everything"), *remote)
        async with open_stack(servers, runtime=options(start_wait_s=START)) as stack:
            names = ("every", *HTTP)
            await stack.until_serving(*names, timeout=START)
            for name in names:
                assert await stack.text(f"{name}__echo", message=name) == f"Echo: {name}"
                assert (await stack.call(f"{name}__get-sum", a=2, b=3)).text.startswith("The sum of 2 and 3 is 5")
                assert (await stack.agent.get_resources("desk", name)).resources
                slow = f"{name}__trigger-long-running-operation"
                assert "Steps: 2" in await stack.text(slow, timeout=20, duration=0.4, steps=2)
            listed = {tool.name for tool in (await stack.agent.get_tools("desk")).tools}
            bare = {
                name: {tool.removeprefix(f"{name}__") for tool in listed if tool.startswith(f"{name}__")}
                for name in names
            }
            assert bare["every"] == bare["streamable"] == bare["sse"]


@pytest.mark.spec("C-6", "DEC-1", "DEC-9", "DEC-25", "F-64")
@pytest.mark.parametrize("transport", HTTP)
async def test_an_http_server_that_is_killed_in_mid_call_and_started_again_serves_again(
    peers: Peers, transport: str
) -> None:
    remote = Remote(transport, peers)
    servers = config(entry("time", "mcp-server-time", "--local-timezone", "UTC"), remote.entry())
    async with open_stack(servers, runtime=options(start_wait_s=START)) as stack:
        await stack.until_serving("time", transport, timeout=START)
        slow = f"{transport}__trigger-long-running-operation"
        call = asyncio.create_task(stack.call(slow, timeout=60, duration=60, steps=60))

        async def running() -> bool:
            return (await stack.computer.diagnostics()).link.in_flight == 1

        await until(running, 10)
        assert await stack.text(f"{transport}__echo", message="sent after it") == "Echo: sent after it"
        remote.peer.kill()
        with anyio.fail_after(10):
            lost = await call
        assert (lost.error_code, lost.meta["a2c_outcome"]) == (4003, "unknown")
        with anyio.fail_after(3):
            away = await stack.call(f"{transport}__echo", message="nobody there")
            assert away.is_error
            assert "UTC" in await stack.text("time__get_current_time", timezone="UTC")
        await anyio.to_thread.run_sync(remote.start)

        async def works() -> bool:
            return not (await stack.call(f"{transport}__echo", message="again")).is_error

        await until(works, START)
