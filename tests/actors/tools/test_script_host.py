"""Scripts in processes of their own: nobody waits for one, and none outlives its time or its owner."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import psutil
import pytest

from smcp_runtime.actors.tools.script_host import ScriptHost
from smcp_runtime.actors.tools.script_run import ScriptRun
from smcp_runtime.actors.tools.vrl import ScriptFailed
from support.leftovers import processes

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec
RESULT = b'{"content":[{"type":"text","text":"x"}]}'
LONG = (
    "n = 0\nfor_each(array!(.parameters.a)) -> |_i, _v| { for_each(array!(.parameters.a)) -> |_j, _w| { n = n + 1 } }"
)
MANY = b'{"a":[' + b",".join(b"0" for _ in range(20_000)) + b"]}"
"""Four hundred million steps: minutes."""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(source: str, parameters: bytes = b"{}") -> ScriptRun:
    return ScriptRun(source, RESULT, "echo", parameters, 1024)


@asynccontextmanager
async def hosting(most: int = 1) -> AsyncIterator[ScriptHost]:
    """A host, and the proof that it leaves no process."""
    before = processes()
    host = ScriptHost(most)
    async with anyio.create_task_group() as group:
        host.begin(group.start_soon)
        yield host
        group.cancel_scope.cancel()
    assert processes() <= before


@spec("R-MCP-20")
async def test_a_script_runs_and_the_next_one_in_the_same_process() -> None:
    async with hosting() as host:
        assert await host.run(run(".seen = .tool_name\n.content = null"), 30) == (
            '{"content":null,"parameters":{},"seen":"echo","tool_name":"echo"}'
        )
        running = processes()
        with pytest.raises(ScriptFailed):
            await host.run(run(".x = parse_json!(.tool_name)"), 30)
        assert processes() == running


@spec("R-MCP-20", "W-CALL-22")
async def test_one_without_an_end_holds_up_nobody_and_is_over_with_its_time() -> None:
    async with hosting() as host:
        await host.run(run(".x = 1"), 30)
        late = 0.0

        async def look_at_the_clock() -> None:
            nonlocal late
            while True:
                began = time.perf_counter()
                await anyio.sleep(0.01)
                late = max(late, time.perf_counter() - began)

        async with anyio.create_task_group() as group:
            group.start_soon(look_at_the_clock)
            began = time.perf_counter()
            with pytest.raises(TimeoutError):
                await host.run(run(LONG, MANY), 0.5)
            assert time.perf_counter() - began < 5
            group.cancel_scope.cancel()
        assert late < 0.45  # a script that held the interpreter would have held this too
        assert "seen" in await host.run(run(".seen = 1"), 30)


async def test_one_that_is_cancelled_frees_its_place() -> None:
    async with hosting() as host:
        with anyio.move_on_after(0.3):
            await host.run(run(LONG, MANY), 60)
        assert "seen" in await host.run(run(".seen = 1"), 30)


async def test_a_process_that_dies_costs_the_run_it_had() -> None:
    async with hosting() as host:
        await host.run(run(".x = 1"), 30)

        async def kill() -> None:
            (child,) = [one for one in psutil.Process().children() if "script_worker" in " ".join(one.cmdline())]
            os.kill(child.pid, signal.SIGKILL)

        async with anyio.create_task_group() as group:
            group.start_soon(kill)
            with pytest.raises(ScriptFailed):
                await host.run(run(LONG, MANY), 30)
        assert "seen" in await host.run(run(".seen = 1"), 30)


@spec("R-SEC-12", "T-SEC-7")
async def test_a_script_process_has_nothing_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2C_SMCP_token", "sk-canary")
    async with hosting() as host:
        await host.run(run(".x = 1"), 30)
        (child,) = [one for one in psutil.Process().children() if "script_worker" in " ".join(one.cmdline())]
        assert set(child.environ()) <= {"PATH", "PYTHONPATH", "TZ", "LC_CTYPE"}
