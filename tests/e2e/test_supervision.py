"""Servers that fail, starve or lie beside good ones: what an Agent sees of it, measured."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.wire.messages.mcp import ServerStatus
from support.stack import Stack, config, light, open_stack, options

pytestmark = pytest.mark.anyio

UNDISTURBED = 0.75
"""Seconds within which a list or a quick call is answered on a machine with other work, whatever another server does;
every wait for a server that could get in the way here is longer."""


class Times:
    """How long each of many equal requests took, in seconds."""

    def __init__(self) -> None:
        self.lists: list[float] = []
        self.calls: list[float] = []

    def undisturbed(self) -> bool:
        return max(self.lists) < UNDISTURBED and max(self.calls) < UNDISTURBED

    def __repr__(self) -> str:
        shown = {"lists": self.lists, "calls": self.calls}
        return ", ".join(f"{k}: n={len(v)} p50={statistics.median(v):.4f} max={max(v):.4f}" for k, v in shown.items())


@asynccontextmanager
async def watching(stack: Stack, tool: str) -> AsyncIterator[Times]:
    """Asks for the tools and calls one of a good server, over and over, while the body runs; no call may fail."""
    times = Times()

    async def ask() -> None:
        while True:
            began = time.monotonic()
            assert tool in await stack.names()
            times.lists.append(time.monotonic() - began)
            began = time.monotonic()
            assert await stack.text(tool, text="x") == "x"
            times.calls.append(time.monotonic() - began)
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        yield times
        tasks.cancel_scope.cancel()


async def status_of(stack: Stack, bundle_id: str) -> ServerStatus:
    known = (await stack.computer.diagnostics()).servers
    return next(server for server in known if server.bundle_id == bundle_id)


async def seen(stack: Stack, bundle_id: str, phase: str, timeout: float = 20.0) -> ServerStatus:
    """The status of a server once it is in this phase."""
    with anyio.fail_after(timeout):
        while True:
            status = await status_of(stack, bundle_id)
            if status.phase == phase:
                return status
            await anyio.sleep(0.02)


@pytest.mark.spec("DEC-4", "T-START-3", "R-LIFE-7", "F-54")
async def test_of_five_servers_both_good_ones_serve_within_a_second_of_their_own_start() -> None:
    bad: dict[str, dict[str, Any]] = {
        "missing": {**light("missing"), "server_parameters": {"command": "no-such-command-anywhere", "args": []}},
        "exits": light("exits", "--exit-at-once", "1"),
        "silent": light("silent", "--mute-initialize"),
    }
    runtime = options(server_start_timeout_s=2.0, reconnect_policy={"max_retries": 2, "initial_delay_ms": 50})
    took: dict[str, float] = {}
    async with open_stack(config(light("steady")), runtime=runtime) as stack:
        await stack.until_listed("steady__echo")

        async def use(name: str) -> None:
            began = time.monotonic()
            await stack.computer.mount(light(name))

            async def answers() -> bool:
                return not (await stack.call(f"{name}__echo", text="x")).is_error

            await stack.until(answers)
            took[name] = time.monotonic() - began

        async with watching(stack, "steady__echo") as times:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(use, "good_one")
                for server in bad.values():
                    tasks.start_soon(stack.computer.mount, server)
                tasks.start_soon(use, "good_two")
            reasons = {name: (await seen(stack, name, "parked")).reason or "" for name in bad}
        assert set(took) == {"good_one", "good_two"}
        assert max(took.values()) < 1.0, took
        assert "no-such-command-anywhere" in reasons["missing"]
        assert "1" in reasons["exits"]
        assert "2 s" in reasons["silent"]
        shown = {open_one.identity: open_one.reason for open_one in (await stack.computer.diagnostics()).degradations}
        assert set(shown) == set(bad)
        assert times.undisturbed(), times


@pytest.mark.spec("DEC-1", "DEC-4", "DEC-25", "DEC-35", "F-61")
async def test_a_crash_looping_server_is_parked_within_its_intensity_and_costs_others_nothing(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    law = {"restart_intensity": {"max": 3, "within_secs": 60}, "max_retries": 100}
    delays = {"initial_delay_ms": 20, "max_delay_ms": 40}
    runtime = options(reconnect_policy={**law, **delays})
    async with open_stack(config(light("good")), runtime=runtime) as stack:
        await stack.until_listed("good__echo")
        async with watching(stack, "good__echo") as times:
            await stack.computer.mount(light("loop", "--exit-after", "0.5", "--log", str(log)))
            status = await seen(stack, "loop", "parked")
        assert times.undisturbed(), times
        assert log.read_text("utf-8").count('"initialize"') == 4
        assert status.restarts_in_window == 3
        assert status.next_try_at is not None
        assert status.reason
        refused = await stack.call("loop__echo", text="x")
        assert (refused.error_code, refused.meta["a2c_outcome"]) == (4003, "not_executed")
        assert "parked" in refused.text
        assert "loop__echo" not in await stack.names()


@pytest.mark.spec("DEC-4", "R-PROJ-3", "F-53")
async def test_changes_announced_in_the_middle_of_calls_neither_hang_nor_get_lost() -> None:
    async with open_stack(config(light("srv", tools="sleep,add_tool,echo"))) as stack:
        await stack.until_listed("srv__add_tool")
        long = asyncio.create_task(stack.text("srv__sleep", seconds=2))
        names = [f"late{number}" for number in range(20)]
        with anyio.fail_after(2):
            for name in names:
                assert await stack.text("srv__add_tool", name=name) == f"added {name}"
        assert not long.done()
        await stack.until_listed(*(f"srv__{name}" for name in names), timeout=5)
        assert await long == "slept"


def ideal(single: float, places: int, jobs: list[float]) -> float:
    """Seconds until the last good job is done, if jobs take `places` places in their order.

    Args:
        single: Seconds of a good job; in `jobs`, 0.0 stands for one, anything else for a bad one of that length.
    """
    free = [0.0] * places
    last = 0.0
    for job in jobs:
        end = heapq.heappop(free) + (job or single)
        heapq.heappush(free, end)
        if not job:
            last = max(last, end)
    return last


@pytest.mark.timeout(150)
@pytest.mark.spec("DEC-3", "DEC-37", "F-22", "F-56")
async def test_a_hundred_servers_of_which_three_never_start_are_up_near_the_ideal_time() -> None:
    budget = 4.0
    runtime = options(server_start_timeout_s=budget, max_concurrent_starts=8)
    async with open_stack(config(), runtime=runtime) as stack:

        async def up(names: list[str], wanted: list[dict[str, Any]]) -> float:
            began = time.monotonic()
            async with anyio.create_task_group() as tasks:
                for server in wanted:
                    tasks.start_soon(stack.computer.mount, server)
            await stack.until_connected(*names, timeout=100)
            return time.monotonic() - began

        # What one start takes while all places are taken, this machine's other work included.
        first = [f"first{number}" for number in range(16)]
        single = await up(first, [light(name) for name in first]) / 2
        for name in first:
            await stack.computer.unmount(name)

        bad = {0, 33, 66}
        jobs = [budget if number in bad else 0.0 for number in range(100)]
        names = [f"s{number:02d}" for number in range(100)]
        servers = [light(name, *(["--mute-initialize"] if job else [])) for name, job in zip(names, jobs, strict=True)]
        good = [name for name, job in zip(names, jobs, strict=True) if not job]
        took = await up(good, servers)
        best = ideal(single, 8, jobs)
        assert took < 1.5 * best + 2.0, (took, best, single)
        assert await stack.names() == [f"{name}__echo" for name in good]
        results = await asyncio.gather(*(stack.text(f"{name}__echo", text=name) for name in good))
        assert results == good


@pytest.mark.spec("DEC-10", "C-6", "F-64")
@pytest.mark.parametrize("repeat", [False, True], ids=["by default", "although safe tools are repeated"])
async def test_a_server_that_writes_a_line_and_dies_has_written_one_and_the_caller_was_told_unknown(
    tmp_path: Path, repeat: bool
) -> None:
    path = tmp_path / "lines"
    runtime = options(server_limits={"retry_safe_tools": repeat})
    async with open_stack(config(light("srv", tools="append_then_die,echo")), runtime=runtime) as stack:
        await stack.until_listed("srv__append_then_die")
        result = await stack.call("srv__append_then_die", path=str(path))
        assert (result.error_code, result.meta["a2c_outcome"]) == (4003, "unknown")
        assert "a2c_attempts" not in result.meta

        async def back() -> bool:
            return not (await stack.call("srv__echo", text="x")).is_error

        await stack.until(back)
        assert path.read_text("utf-8") == "called\n"


@pytest.mark.spec("DEC-10")
async def test_only_a_tool_annotated_as_idempotent_is_repeated_and_the_result_says_so(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    server = light("srv", "--idempotent", "append_then_die", tools="append_then_die")
    async with open_stack(config(server), runtime=options(server_limits={"retry_safe_tools": True})) as stack:
        await stack.until_listed("srv__append_then_die")
        result = await stack.call("srv__append_then_die", path=str(path))
        assert (result.meta["a2c_outcome"], result.meta["a2c_attempts"]) == ("unknown", 2)
        assert path.read_text("utf-8") == "called\n" * 2


def test_the_ideal_counts_what_bad_jobs_take_away() -> None:
    assert ideal(1.0, 2, [0.0] * 4) == 2.0
    assert ideal(1.0, 2, [5.0, *itertools.repeat(0.0, 3)]) == 3.0
