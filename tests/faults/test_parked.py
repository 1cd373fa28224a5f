"""A server whose actor dies too often is given up for a while; whoever starts it by hand has it back at once."""

from __future__ import annotations

from typing import Literal

import anyio
import pytest

from support.stack import Stack, config, light, open_stack
from support.waiting import until

pytestmark = pytest.mark.anyio


async def state(stack: Stack, address: str) -> str:
    """Of an actor."""
    return next(actor.state for actor in (await stack.computer.diagnostics()).actors if actor.address == address)


@pytest.mark.spec("DEC-1", "DEC-35")
@pytest.mark.parametrize("action", ["start", "restart"])
async def test_a_parked_server_is_back_once_it_is_started_by_hand(action: Literal["start", "restart"]) -> None:
    async with open_stack(config(light("one"), light("two"))) as stack:

        async def killed() -> bool:
            stack.computer.operations.kill("mcp/one")
            return await state(stack, "mcp/one") == "parked"

        await until(killed, 20)
        refused = await stack.call("one__echo", text="x")
        assert (refused.error_code, refused.outcome) == (4003, "not_executed")
        assert await stack.text("two__echo", text="x") == "x"
        with anyio.fail_after(10):
            status = await stack.computer.control("one", action)
        assert status.phase == "ready"
        assert await stack.text("one__echo", text="again") == "again"
