"""What Agents and operators see of a server, and what happens to its calls, wherever it is placed."""

from __future__ import annotations

import asyncio
import signal
import time

import anyio
import psutil
import pytest

from support.peers import Peers
from support.placed import PLACEMENTS, open_placed
from support.stack import light
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]
everywhere = pytest.mark.parametrize("placement", PLACEMENTS)


@everywhere
@pytest.mark.spec("DEC-10", "DEC-12", "F-84", "F-86")
async def test_calls_end_alike_wherever_the_server_runs(placement: str, peers: Peers) -> None:
    async with open_placed(placement, peers, light("one", tools="echo,big,sleep,fail,pid")) as placed:
        stack = placed.stack
        await stack.until_listed("one__echo", timeout=30)
        assert await stack.text("one__echo", text="through it all") == "through it all"
        assert (await stack.call("one__fail", text="no")).is_error
        assert len(await stack.text("one__big", bytes=3_000_000)) == 3_000_000
        assert await stack.text("one__pid") == str(await placed.pid("one"))

        late = await stack.call("one__sleep", timeout=1, seconds=30)
        assert (late.meta["a2c_timeout"], late.meta["a2c_outcome"]) == (True, "unknown")
        sleeping = asyncio.create_task(stack.call("one__sleep", timeout=60, seconds=60))
        await until(lambda: _in_flight(stack))
        sleeping.cancel()
        with anyio.fail_after(5):
            await until(lambda: not_in_flight(stack))
        assert await stack.text("one__echo", text="still there") == "still there"
        await asyncio.gather(*(stack.text("one__echo", text=str(number)) for number in range(50)))


@everywhere
@pytest.mark.spec("R-MGMT-4", "R-MCP-26", "R-INPUT-21")
async def test_a_server_is_stopped_started_and_restarted_wherever_it_runs(placement: str, peers: Peers) -> None:
    async with open_placed(placement, peers, light("one", tools="echo")) as placed:
        stack = placed.stack
        await stack.until_listed("one__echo", timeout=30)
        first = await placed.pid("one")
        stopped = await stack.computer.control("one", "stop")
        assert (stopped.activation, stopped.connection) == ("stopped", "disconnected")
        assert not psutil.pid_exists(first)
        await stack.computer.control("one", "start")
        await stack.until_connected("one")
        second = await placed.pid("one")
        await stack.computer.control("one", "restart")
        await until(lambda: not psutil.pid_exists(second))
        await stack.until_connected("one")
        assert await stack.text("one__echo", text="a third time") == "a third time"


@pytest.mark.parametrize("placement", ["process", "external"])
@pytest.mark.spec("DEC-8", "DEC-10", "R-MCP-9")
async def test_a_killed_worker_ends_its_calls_at_once_and_another_takes_over(placement: str, peers: Peers) -> None:
    async with open_placed(placement, peers, light("one", tools="echo,sleep"), light("two")) as placed:
        stack = placed.stack
        await stack.until_listed("one__echo", "two__echo", timeout=30)
        server, worker = await placed.pid("one"), await placed.worker("one")
        call = asyncio.create_task(stack.call("one__sleep", timeout=60, seconds=60))
        await until(lambda: _in_flight(stack))
        worker.send_signal(signal.SIGKILL)
        began = time.monotonic()
        with anyio.fail_after(5):
            result = await call
        assert time.monotonic() - began < 2.0
        assert (result.is_error, result.meta["a2c_outcome"]) == (True, "unknown")
        assert await stack.text("two__echo", text="untouched") == "untouched"
        if placement == "external":
            waiting = await _status(stack, "one", lambda status: status.code == "no_worker")
            assert waiting.reason == "waiting for a worker"
            refused = await stack.call("one__echo", text="into the void")
            assert (refused.is_error, refused.meta["a2c_outcome"]) == (True, "not_executed")
            placed.volunteer("one")
        await _status(stack, "one", lambda status: status.connection == "connected" and status.pid != server)
        assert not psutil.pid_exists(server)
        assert await stack.text("one__echo", text="again") == "again"


async def _status(stack: object, bundle_id: str, holds: object, timeout: float = 20.0) -> object:
    """The status of a server once it is as wanted."""
    found: list[object] = []

    async def looks_so() -> bool:
        known = (await stack.computer.diagnostics()).servers  # type: ignore[attr-defined]
        found[:] = [status for status in known if status.bundle_id == bundle_id and holds(status)]  # type: ignore[operator]
        return bool(found)

    await until(looks_so, timeout)
    return found[0]


async def _in_flight(stack: object) -> bool:
    return any(s.in_flight for s in (await stack.computer.diagnostics()).servers)  # type: ignore[attr-defined]


async def not_in_flight(stack: object) -> bool:
    return not await _in_flight(stack)
