"""Servers that are known and not started: a small fixed view, and a start for the one that is called (F-68)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.reconcile.config.options import RuntimeOptions
from smcp_runtime.wire.messages.mcp import ServerStatus
from support.stack import Stack, config, light, open_stack, options
from support.waiting import until

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

VIEW = ["smcp_call_tool", "smcp_describe_tool", "smcp_search_tools"]
SERVERS, TOOLS = 20, 10


def lazily(idle: float = 0.4, **more: Any) -> RuntimeOptions:
    return options(server_limits={"lazy": True, "idle_stop_secs": idle}, **more)


async def servers(stack: Stack) -> dict[str, ServerStatus]:
    return {status.bundle_id: status for status in (await stack.computer.diagnostics()).servers}


async def until_all(stack: Stack, holds: Callable[[ServerStatus], bool], timeout: float = 30.0) -> None:
    async def check() -> bool:
        return all(map(holds, (await servers(stack)).values()))

    await until(check, timeout)


def is_idle(status: ServerStatus) -> bool:
    return (status.activation, status.connection, status.reason) == ("started", "disconnected", "idle")


def kept(own_places: Path) -> list[Path]:
    return sorted((own_places / "state/a2c/lazy-tools").glob("*.json"))


@spec("F-68")
async def test_200_tools_on_20_lazy_servers_are_three_in_the_view_and_one_start_for_one_call(own_places: Path) -> None:
    fleet = config(*(light(f"s{one:02d}", "--count", str(TOOLS), tools="") for one in range(SERVERS)))
    async with open_stack(fleet, runtime=lazily()) as stack:
        # Nobody knows yet what they have, so each is started once, listed, and stopped when nobody calls it.
        await until_all(stack, is_idle)
        await until(lambda: len(kept(own_places)) == SERVERS)
        assert await stack.names() == VIEW
    async with open_stack(fleet, runtime=lazily(idle=0.5)) as stack:
        known = await servers(stack)
        assert len(known) == SERVERS
        assert all(is_idle(status) and status.pid is None for status in known.values())
        view = await stack.agent.get_tools("desk")
        assert [tool.name for tool in view.tools] == VIEW
        found = json.loads(await stack.text("smcp_search_tools", query="tool 0003 s07", limit=1))
        assert found["tools"] == [{"name": "s07__tool_0003", "description": "Generated tool 3"}]
        definition = json.loads(await stack.text("smcp_describe_tool", name="s07__tool_0003"))
        assert set(definition["params_schema"]["properties"]) == {"text", "limit", "verbose"}
        assert all(map(is_idle, (await servers(stack)).values())), "looking starts nothing"

        said = await stack.text("smcp_call_tool", name="s07__tool_0003", arguments={"text": "hello"})
        assert "hello" in said
        now = await servers(stack)
        assert {one for one, status in now.items() if not is_idle(status)} == {"s07"}
        assert (await stack.agent.get_tools("desk")).tools == view.tools
        pid = now["s07"].pid
        assert pid is not None
        await until_all(stack, is_idle)
        await until(lambda: not _is_alive(pid))
        assert (await stack.agent.get_tools("desk")).tools == view.tools


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@spec("F-68")
async def test_starting_and_stopping_a_lazy_server_tells_no_agent_of_a_changed_list(own_places: Path) -> None:
    async with open_stack(config(light("s", tools="echo")), runtime=lazily()) as stack:
        await until_all(stack, is_idle)
        notices = stack.agent.notifications()
        for word in ("one", "two"):
            assert await stack.text("s__echo", text=word) == word
            await until_all(stack, is_idle)
        await stack.computer.sync_config(config(light("s", tools="echo"), light("t", tools="add")))
        # What comes of the change is told after everything that starts and stops could have told.
        assert await stack.hear(notices, "notify:update_config") == ["notify:update_config"]


@spec("F-68", "DEC-3")
async def test_calls_that_come_at_once_share_one_start(own_places: Path, tmp_path: Path) -> None:
    log = tmp_path / "heard"
    fleet = config(light("s", "--log", str(log), "--start-delay", "0.3", tools="echo"))
    async with open_stack(fleet, runtime=lazily()) as stack:
        await until_all(stack, is_idle)
        log.unlink()
        said: list[str] = []

        async def call(word: str) -> None:
            said.append(await stack.text("s__echo", text=word))

        async with anyio.create_task_group() as group:
            for one in range(10):
                group.start_soon(call, f"w{one}")
        assert sorted(said) == [f"w{one}" for one in range(10)]
    methods = [json.loads(line)["method"] for line in log.read_text().splitlines()]
    assert methods.count("initialize") == 1


@spec("F-68", "DEC-10")
async def test_a_call_whose_server_does_not_come_up_was_not_executed_and_says_what_that_does(tmp_path: Path) -> None:
    switch = tmp_path / "run"
    wrapper = tmp_path / "server"
    entry = light("s", tools="echo")
    command = entry["server_parameters"]["command"]
    wrapper.write_text(f'#!/bin/sh\n[ -e {switch} ] || exit 3\nexec {command} "$@"\n')
    wrapper.chmod(0o700)
    entry["server_parameters"]["command"] = str(wrapper)
    switch.touch()
    async with open_stack(config(entry), runtime=lazily()) as stack:
        await until_all(stack, is_idle)
        switch.unlink()
        result = await stack.call("s__echo", text="x")
        assert result.is_error
        assert result.meta["error_code"] == 4003
        assert result.meta["a2c_outcome"] == "not_executed"
        assert "restarting" in result.content[0]["text"]
        await stack.computer.control("s", "stop")
        result = await stack.call("s__echo", text="x")
        assert (result.meta["error_code"], result.meta["a2c_outcome"]) == (4003, "not_executed")
        assert "stopped" in result.content[0]["text"]


@spec("F-68")
async def test_a_lazy_server_that_is_defined_otherwise_is_started_once_to_be_listed_again(own_places: Path) -> None:
    async with open_stack(config(light("s", tools="echo")), runtime=lazily()) as stack:
        await until_all(stack, is_idle)
        await until(lambda: len(kept(own_places)) == 1)
    async with open_stack(config(light("s", tools="add,echo")), runtime=lazily()) as stack:
        await until(lambda: len(kept(own_places)) == 2)
        await until_all(stack, is_idle)
        found = json.loads(await stack.text("smcp_search_tools", query=""))
        assert [tool["name"] for tool in found["tools"]] == ["s__add", "s__echo"]


@spec("F-68", "R-SEC-14")
async def test_what_is_kept_of_a_lazy_server_is_the_owners_alone_and_is_made_anew_when_it_is_lost(
    own_places: Path,
) -> None:
    fleet = config(light("s", tools="echo"))
    async with open_stack(fleet, runtime=lazily()) as stack:
        await until_all(stack, is_idle)
        await until(lambda: len(kept(own_places)) == 1)
    (file,) = kept(own_places)
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0
    file.write_text('{"version":1,"tools":"nonsense"}')
    async with open_stack(fleet, runtime=lazily()) as stack:
        await until(lambda: "echo" in file.read_text())
        await until_all(stack, is_idle)
        assert await stack.text("s__echo", text="again") == "again"
