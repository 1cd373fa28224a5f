"""The exchanges under way of one HTTP connection: each is known until it ends itself."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from smcp_runtime.actors.mcp.transports.http_tasks import HttpTasks

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec


@spec("DEC-9", "DEC-12")
async def test_a_request_sent_again_under_its_id_before_its_first_exchange_was_seen_to_end_can_be_cut() -> None:
    tasks = HttpTasks()
    loop = asyncio.get_running_loop()
    failed, ended = loop.create_future(), loop.create_future()

    async def first() -> None:
        failed.set_result(None)  # its caller sends again in the very turn in which this task is seen to end

    async def second() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set_result(None)

    tasks.carry(7, first())
    await failed
    tasks.carry(7, second())
    for _ in range(3):
        await asyncio.sleep(0)
    tasks.cut(7)
    with anyio.fail_after(5):
        await ended
    await tasks.close()
