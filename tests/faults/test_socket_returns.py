"""The actor of the connection dies while the Server is away, and dies again later: its Computer is back each time."""

from __future__ import annotations

import pytest

from support.stack import OFFICE, Stack, config, light, open_stack

pytestmark = pytest.mark.anyio


async def lives(stack: Stack) -> int:
    """Of the SocketActor."""
    actors = (await stack.computer.diagnostics()).actors
    return next(actor.incarnation for actor in actors if actor.address == "socket")


@pytest.mark.spec("DEC-17", "R-LIFE-13")
async def test_tries_that_fail_while_the_server_is_away_end_no_wish(caplog: pytest.LogCaptureFixture) -> None:
    async with open_stack(config(light("one"))) as stack:
        await stack.server.stop()
        stack.computer.operations.kill("socket")
        await stack.until(lambda: "returning to the Server failed" in caplog.text)
        assert stack.computer.phase == "connecting"
        await stack.server.start()
        await stack.until(lambda: stack.computer.office == OFFICE)

        before = await lives(stack)
        stack.computer.operations.kill("socket")

        async def back() -> bool:
            return await lives(stack) > before and stack.computer.office == OFFICE

        await stack.until(back)
        await stack.agent.wait_joined()
        assert await stack.text("one__echo", text="here") == "here"
