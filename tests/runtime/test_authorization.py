"""A Computer and an HTTP server that wants authorization: what an operator does, and what an Agent sees (R-MCP-25)."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import AuthError, ConfigValidationError
from support.authorization_server import World, protected
from support.recording_server import RecordingServer
from support.stack import config, light, options
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
REQUEST = {"agent": "a", "req_id": "r", "computer": "desk"}
CALL = {**REQUEST, "tool_name": "web_srv__echo", "params": {"text": "hello"}, "timeout": 5}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with protected() as made:
        yield made


def computer(world: World, root: Path, **changes: Any) -> Computer:
    server = {
        "name": "web srv",
        "type": "streamable",
        "server_parameters": {"url": world.url},
        "default_tool_meta": {"auto_apply": True},
    }
    environ = {"HOME": str(root), "PATH": "/usr/bin:/bin"}
    given = {"token_store": "file", "browser": world.browse, **changes}
    return Computer.from_config(config(server, light("other")), options(env=environ, project_root=str(root), **given))


def modes(root: Path) -> list[int]:
    """Permissions of the files that keep authorizations."""
    return [stat.S_IMODE(path.stat().st_mode) for path in root.rglob("server-authorizations.json")]


async def status_of(made: Computer) -> Any:
    return {one.bundle_id: one for one in (await made.diagnostics()).servers}["web_srv"]


async def connected(made: Computer) -> bool:
    return bool((await status_of(made)).connection == "connected")


@spec("R-MCP-25", "R-MCP-24", "R-LIFE-7", "W-UP-4", "R-PROJ-3")
async def test_a_server_waits_for_its_authorization_and_its_tools_appear_once_it_is_granted(
    world: World, tmp_path: Path
) -> None:
    async with RecordingServer() as server, computer(world, tmp_path) as made:
        await made.connect(server.url, office="lab")
        waiting = await status_of(made)
        assert (waiting.activation, waiting.connection) == ("started", "authorization_required")
        assert (made.state, world.pages) == ("degraded", [])
        listed = await server.ask("client:get_tools", REQUEST)
        assert [tool["name"] for tool in listed["tools"]] == ["other__echo"]
        server.events.clear()

        await made.manage.authorize("web_srv")
        await until(lambda: connected(made))
        await server.until(lambda: "server:update_tool_list" in server.named())
        result = await server.ask("client:tool_call", CALL)
        assert result["content"][0]["text"] == "hello"
        assert made.state == "joined_office"

        world.revoke()
        lost = await server.ask("client:tool_call", CALL)
        assert (lost["isError"], lost["meta"]["error_code"], lost["meta"]["mcp_server"]) == (True, 4007, "web_srv")

        await made.manage.authorize("web_srv")
        await until(lambda: connected(made))
        assert (await server.ask("client:tool_call", CALL))["isError"] is not True
        said = json.dumps([server.events, listed, result, lost])
        assert not any(part in said for part in ("access-", "refresh-", "code_challenge", world.issuer))


@spec("R-MCP-25", "R-SEC-2")
async def test_what_was_granted_is_used_by_the_next_run_from_a_file_only_its_owner_reads(
    world: World, tmp_path: Path
) -> None:
    async with computer(world, tmp_path) as made:
        await made.manage.authorize("web_srv")
        await until(lambda: connected(made))
    assert modes(tmp_path) == [0o600]
    async with computer(world, tmp_path) as again:
        await until(lambda: connected(again))
    assert len(world.pages) == 1


@spec("R-MCP-25")
async def test_in_memory_an_authorization_lasts_as_long_as_the_computer_object(world: World, tmp_path: Path) -> None:
    made = computer(world, tmp_path, token_store="memory")
    await made.start()
    await made.manage.authorize("web_srv")
    await until(lambda: connected(made))
    await made.stop()
    await made.start()
    await until(lambda: connected(made))
    await made.shutdown()
    assert modes(tmp_path) == []
    async with computer(world, tmp_path, token_store="memory") as other:
        assert (await status_of(other)).connection == "authorization_required"


@spec("R-MCP-25", "R-MGMT-4")
async def test_a_single_start_says_that_the_authorization_is_missing_and_later_that_it_is_there(
    world: World, tmp_path: Path
) -> None:
    async with computer(world, tmp_path, auto_start=False) as made:
        for action in ("start", "restart"):
            with pytest.raises(AuthError) as caught:
                await made.control("web_srv", action)  # type: ignore[arg-type]
            assert (caught.value.code, caught.value.bundle_id) == ("authorization_required", "web_srv")
        assert (await status_of(made)).activation == "started"
        await made.manage.authorize("web_srv")
        assert (await made.control("web_srv", "start")).connection == "connected"
        assert (await made.control("web_srv", "restart")).connection == "connected"


async def test_a_refusal_leaves_the_server_waiting(world: World, tmp_path: Path) -> None:
    world.says_no = True
    async with computer(world, tmp_path) as made:
        with pytest.raises(AuthError) as caught:
            await made.manage.authorize("web_srv")
        assert caught.value.code == "not_granted"
        assert (await status_of(made)).connection == "authorization_required"


async def test_a_server_without_authorization_takes_none(world: World, tmp_path: Path) -> None:
    async with computer(world, tmp_path) as made:
        with pytest.raises(ConfigValidationError) as caught:
            await made.manage.authorize("other")
        assert caught.value.code == "no_authorization"


@spec("R-MCP-25")
async def test_a_client_with_its_own_credentials_is_authorized_without_anybody(world: World, tmp_path: Path) -> None:
    world.clients["robot"] = "sk-robot-secret"
    mode = {"type": "client_credentials", "clientId": "robot", "clientSecretInput": "robot_secret"}
    server = {"name": "web srv", "type": "http", "server_parameters": {"url": world.url}, "oauth": {"mode": mode}}
    inputs = [{"type": "promptString", "id": "robot_secret", "description": "d", "password": True}]
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "A2C_SMCP_robot_secret": "sk-robot-secret"}
    made = Computer.from_config(config(server, inputs=inputs), options(env=environ, token_store="memory"))
    async with made:
        await until(lambda: connected(made))
    assert world.pages == []
