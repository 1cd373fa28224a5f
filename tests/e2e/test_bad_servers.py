"""MCP servers that fail in every way the issue names: a clear diagnostic, and the others serve on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio
import pytest

from smcp_runtime import fixtures
from smcp_runtime.wire.diagnostics import Diagnostics
from support.stack import Stack, config, light, open_stack, options

pytestmark = pytest.mark.anyio

MISSING: dict[str, Any] = {
    "name": "bad",
    "type": "stdio",
    "server_parameters": {"command": "no-such-command-anywhere", "args": []},
}


async def reason(stack: Stack, bundle_id: str = "bad") -> tuple[Diagnostics, str]:
    """The diagnostics once they say why this server does not work."""
    with anyio.fail_after(15):
        while True:
            known = await stack.computer.diagnostics()
            for open_one in known.degradations:
                if open_one.identity == bundle_id:
                    return known, f"{open_one.category} {open_one.code} {open_one.reason}"
            await anyio.sleep(0.02)


@pytest.mark.spec("T-START-3", "R-LIFE-7", "F-54", "F-25")
@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (MISSING, "no-such-command-anywhere"),
        (light("bad", "--exit-at-once", "3"), "3"),
        (light("bad", "--exit-on-initialize", "4"), "4"),
        (light("bad", "--mute-initialize"), "startup"),
    ],
    ids=["unknown command", "exits at once", "exits on initialize", "never answers initialize"],
)
async def test_t_start_3_a_server_that_does_not_come_up_is_explained_and_hides_nothing_of_the_others(
    bad: dict[str, Any], told: str
) -> None:
    runtime = options(start_wait_s=0.5, server_start_timeout_s=1.0)
    async with open_stack(config(bad, light("good")), runtime=runtime) as stack:
        await stack.until_listed("good__echo", gone=["bad__echo"])
        known, text = await reason(stack)
        assert told in text, text
        assert (stack.computer.phase, stack.computer.state) == ("joined_office", "degraded")
        assert await stack.text("good__echo", text="x") == "x"
        with anyio.fail_after(1):
            refused = await stack.call("bad__echo")
        assert refused.error_code in (4001, 4003)
        status = next(server for server in known.servers if server.bundle_id == "bad")
        assert status.connection in ("error", "connecting")
        assert status.activation == "started"


@pytest.mark.spec("DEC-6")
async def test_a_server_that_prints_garbage_is_used_all_the_same_and_the_noise_is_reported() -> None:
    async with open_stack(config(light("noisy", "--noise", tools="echo,garbage"))) as stack:
        await stack.until_listed("noisy__garbage")
        assert await stack.text("noisy__garbage") == "after the garbage"
        assert await stack.text("noisy__echo", text="x") == "x"
        (status,) = (await stack.computer.diagnostics()).servers
        assert status.connection == "connected"


@pytest.mark.spec("C-6", "DEC-10", "DEC-25", "F-64")
@pytest.mark.parametrize("tool", ["close_pipe", "die"])
async def test_a_server_that_goes_in_mid_call_ends_the_call_as_unknown_and_is_back_soon(tool: str) -> None:
    async with open_stack(config(light("bad", tools=f"{tool},echo"), light("good"))) as stack:
        await stack.until_listed(f"bad__{tool}", "good__echo")
        began = time.monotonic()
        result = await stack.call(f"bad__{tool}", timeout=20)
        assert time.monotonic() - began < 3
        assert (result.error_code, result.meta["a2c_outcome"]) == (4003, "unknown")
        assert result.meta["mcp_server"] == "bad"
        assert await stack.text("good__echo", text="x") == "x"
        await stack.until_listed("bad__echo")

        async def works() -> bool:
            return not (await stack.call("bad__echo", text="again")).is_error

        await stack.until(works)


@pytest.mark.spec("C-7", "W-CMP-3")
async def test_no_call_outlives_its_limit_by_more_than_a_second_whatever_its_server_does() -> None:
    async with open_stack(config(light("bad", tools="silent,echo"), light("good"))) as stack:
        await stack.until_listed("bad__silent")
        began = time.monotonic()
        results = await asyncio.gather(*(stack.call("bad__silent", timeout=1) for _ in range(20)))
        assert time.monotonic() - began < 2.5
        assert {result.error_code for result in results} <= {4004, 4003}
        assert await stack.text("good__echo", text="x") == "x"


@pytest.mark.spec("F-54", "DEC-4")
async def test_of_five_servers_both_good_ones_serve_and_three_reasons_are_shown() -> None:
    runtime = options(start_wait_s=0.2, server_start_timeout_s=1.0)
    async with open_stack(fixtures.config("degraded"), runtime=runtime) as stack:
        began = time.monotonic()
        await stack.until_listed("Good_one__echo", "Good_two__echo")
        assert time.monotonic() - began < 5

        async def all_explained() -> bool:
            return len((await stack.computer.diagnostics()).degradations) == 3

        await stack.until(all_explained, 15)
        known = (await stack.computer.diagnostics()).degradations
        assert {open_one.identity for open_one in known} == {"Missing_command", "Exits_at_once", "Never_answers"}
        assert all(open_one.reason for open_one in known)
        assert await stack.text("Good_one__echo", text="x") == "x"
