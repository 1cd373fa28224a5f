"""The same on uvloop, which `smcp server` uses where it can."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import anyio
import pytest

from smcp_runtime.server.engine_parts import CLOSE_TIMEOUT
from smcp_runtime.server.limits import Limits
from support.office import request, tool_call
from support.raw_socket import member
from support.servers import open_options, serving

pytestmark = [pytest.mark.anyio, pytest.mark.spec("W-ARCH-7")]

ASYNC_KINDS = ["aiohttp", "asgi"]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": sys.platform != "win32"}


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_calls_cross_in_both_directions_and_a_cut_socket_ends_them(kind: str) -> None:
    async with (
        serving(kind) as server,
        member(server.url, "agent", "ag") as ag,
        member(server.url, "computer", "pc") as pc,
    ):
        for n in range(50):
            waiting = asyncio.create_task(ag.call("client:tool_call", tool_call(params={"n": n, "x": "y" * n * n})))
            await pc.answer(await pc.next(lambda frame: "client:" in frame), {"n": n, "x": "z" * n * 100})
            assert await waiting == [{"n": n, "x": "z" * n * 100}]
        waiting = asyncio.create_task(ag.call("client:tool_call", tool_call()))
        await pc.next(lambda frame: "client:" in frame)
        pc.cut()
        [error] = await waiting
        assert error["code"] == 404


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_peer_that_does_not_read_is_cut_off(kind: str) -> None:
    options = open_options(limits=Limits(unsent_bytes=2_000_000))
    async with (
        serving(kind, options) as server,
        member(server.url, "computer", "stuck") as stuck,
        member(server.url, "agent", "ag") as ag,
    ):
        stuck.stop_reading()
        with anyio.fail_after(15):
            while not any("notify:leave_office" in frame for frame in ag.frames):
                await ag.start("client:get_tools", request("stuck", filler="x" * 500_000))
                await ag.call("hello")
        await asyncio.sleep(CLOSE_TIMEOUT + 0.5)
        stuck.resume_reading()
        await stuck.until_closed(2)
