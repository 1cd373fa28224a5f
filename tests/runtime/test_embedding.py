"""A Computer in an event loop that somebody else runs, in a plain way: `asyncio.run` in a thread without a context."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
import uvloop

from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import ConflictError
from support.stack import config, light, open_stack, options

uvloop.new_event_loop().close()  # libuv opens a pipe with its first loop, which lasts as long as the process


async def a_server_is_lost_and_comes_back(log: Path) -> list[str]:
    async with open_stack(config(light("srv", "--log", str(log), tools="die,echo")), runtime=options()) as stack:
        await stack.until_listed("srv__die")
        lost = await stack.call("srv__die")
        assert lost.meta["a2c_outcome"] == "unknown"

        async def works() -> bool:
            return not (await stack.call("srv__echo", text="x")).is_error

        await stack.until(works, 10)

        async def reborn() -> bool:
            known = (await stack.computer.diagnostics()).actors
            return any((one.address, one.incarnation, one.state) == ("mcp/srv", 2, "up") for one in known)

        assert stack.computer.kill_actor("mcp/srv")
        await stack.until(reborn, 10)
        await stack.until(works, 10)
        await stack.server.stop()
        await stack.computer.wait_for("connecting")
        await stack.server.start()
        await stack.computer.wait_for("joined_office")
        await stack.agent.wait_joined()
        await stack.until(works, 10)
        return await stack.names()


@pytest.mark.spec("R-CORE-1", "DEC-1", "DEC-17")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_restarts_and_reconnects_need_nothing_but_a_running_loop(tmp_path: Path, loop: str) -> None:
    log = tmp_path / "heard"
    with ThreadPoolExecutor(1) as threads:
        run = {"asyncio": asyncio.run, "uvloop": uvloop.run}[loop]
        running = threads.submit(lambda: run(a_server_is_lost_and_comes_back(log)))
        assert running.result(50) == ["srv__die", "srv__echo"]
    assert log.read_text("utf-8").count('"initialize"') >= 3


async def refusals_elsewhere(computer: Computer) -> list[str]:
    codes = []
    for call in (computer.diagnostics, computer.stop, computer.shutdown, computer.skills, computer.leave):
        try:
            with anyio.fail_after(5):
                await call()
        except ConflictError as refused:
            codes.append(refused.code)
    return codes


@pytest.mark.anyio
@pytest.mark.spec("R-CORE-1")
async def test_a_caller_in_another_event_loop_is_told_so_and_harms_nothing() -> None:
    computer = Computer.from_config(config(name="desk"), options())
    async with computer:
        codes = await anyio.to_thread.run_sync(lambda: asyncio.run(refusals_elsewhere(computer)))
        assert codes == ["other_loop"] * 5
        assert (await computer.diagnostics()).state == "started"
    assert computer.state == "shutdown"


def test_a_computer_whose_event_loop_ended_can_be_started_in_another() -> None:
    computer = Computer.from_config(config(name="desk"), options())

    async def run() -> str:
        async with anyio.create_task_group():
            await computer.start()
            state = computer.state
            await computer.stop()
            return state

    assert [asyncio.run(run()), asyncio.run(run())] == ["started", "started"]
