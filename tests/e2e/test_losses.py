"""Servers that restart, actors that are killed, Agents that leave: what is lost, and what comes back."""

from __future__ import annotations

import asyncio
import time

import anyio
import pytest

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.wire.errors import SmcpError
from support.leftovers import processes
from support.stack import OFFICE, QUICK, Stack, config, light, open_stack, options

pytestmark = pytest.mark.anyio


async def reborn(stack: Stack, address: str, lives: int = 2) -> None:
    """Waits until an actor is up in its n-th life, and the Computer in its office."""
    with anyio.fail_after(10):
        while True:
            known = await stack.computer.diagnostics()
            alive = [a for a in known.actors if a.address == address and a.incarnation >= lives and a.state == "up"]
            if alive and stack.computer.phase == "joined_office" and known.link.phase == "joined":
                return
            await anyio.sleep(0.01)


@pytest.mark.spec("F-78", "DEC-17", "DEC-27", "R-LIFE-13", "W-ROOM-27", "T-CONN-5")
async def test_after_a_server_restart_the_computer_is_back_once_and_tells_what_there_is() -> None:
    async with open_stack(config(light("srv"))) as stack:
        await stack.server.stop()
        await stack.computer.wait_for("connecting")
        await stack.agent.close()
        for tools in ("add", "echo", "add"):
            await stack.computer.mount(light("more", tools=tools))
        await stack.until_connected("more")
        await stack.server.start()
        async with AsyncAgent(stack.server.url, name="planner", office=OFFICE, backoff=QUICK) as agent:
            heard = agent.notifications()
            await stack.computer.wait_for("joined_office")

            async def is_back() -> bool:
                return any(member.role == "computer" for member in (await agent.list_room()).sessions)

            await stack.until(is_back)
            names = [tool.name for tool in (await agent.get_tools("desk")).tools]
            assert names == ["more__add", "srv__echo"]
            events = [notice.event for notice in iter(heard.take, None)]
            assert events.count("notify:enter_office") <= 1
            assert events.count("notify:update_config") <= 1


@pytest.mark.spec("DEC-27", "R-PROJ-7", "F-78")
async def test_an_agent_that_was_there_first_hears_each_type_once_when_the_computer_returns() -> None:
    async with open_stack(config(light("srv"))) as stack:
        assert stack.server.running is not None
        notices = stack.agent.notifications()
        stack.computer.kill_actor("socket")
        events = await stack.hear(
            notices, "notify:leave_office", "notify:enter_office", "notify:update_config", "notify:update_tool_list"
        )
        assert events == [
            "notify:leave_office",
            "notify:enter_office",
            "notify:update_config",
            "notify:update_tool_list",
        ]


@pytest.mark.spec("R-LIFE-14", "DEC-17")
async def test_a_server_that_restarts_under_load_leaves_no_call_without_an_end() -> None:
    async with open_stack(config(light("srv", tools="sleep,echo"))) as stack:
        ended: list[str] = []

        async def one(number: int) -> None:
            try:
                await stack.call("srv__sleep", timeout=5, seconds=0.3)
                ended.append("answered")
            except SmcpError as error:
                ended.append(error.category)

        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(one(number))
            await anyio.sleep(0.1)
            await stack.server.stop()
            await stack.server.start()
        assert len(ended) == 50
        await stack.computer.wait_for("joined_office")
        await stack.agent.wait_joined()
        await stack.until_listed("srv__echo")
        assert await stack.text("srv__echo", text="back") == "back"
        await stack.until(lambda: stack.computer.state == "joined_office")


@pytest.mark.spec("DEC-1", "DEC-10", "DEC-35", "F-95")
@pytest.mark.parametrize("address", ["tools", "mcp/srv", "socket", "reconcile"])
async def test_killing_an_actor_in_the_middle_of_a_call_ends_the_call_at_once_and_nothing_else(address: str) -> None:
    async with open_stack(config(light("srv", tools="sleep,echo"), light("other"))) as stack:
        began = time.monotonic()
        call = asyncio.create_task(stack.call("srv__sleep", timeout=20, seconds=1 if address == "reconcile" else 15))
        await anyio.sleep(0.2)
        assert stack.computer.kill_actor(address)
        if address == "socket":
            with pytest.raises(SmcpError) as lost:
                await call
            assert lost.value.details["a2c_outcome"] == "unknown"
        else:
            result = await call
            assert result.is_error is (address != "reconcile")
            if result.is_error:
                assert (result.error_code, result.meta["a2c_outcome"]) == (4003, "unknown")
        assert time.monotonic() - began < 4
        await reborn(stack, address)
        await stack.until_listed("other__echo", "srv__echo")
        assert await stack.text("other__echo", text="x") == "x"
        assert await stack.text("srv__echo", text="y") == "y"


@pytest.mark.spec("DEC-1", "DEC-35")
async def test_every_actor_can_be_killed_again_and_again_without_losing_an_intent() -> None:
    async with open_stack(config(light("srv"))) as stack:
        await stack.computer.mount(light("mounted", tools="echo"))
        await stack.computer.mount(light("idle", tools="echo"))
        await stack.computer.control("idle", "stop")
        await stack.until_listed("mounted__echo", "srv__echo", gone=["idle__echo"])
        for lives in (2, 3):
            for address in ("reconcile", "tools", "socket", "mcp/mounted"):
                assert stack.computer.kill_actor(address)
                await reborn(stack, address, lives)
        await stack.agent.wait_joined()
        await stack.until_listed("mounted__echo", "srv__echo", gone=["idle__echo"])
        shown = await stack.agent.get_config("desk")
        assert set(shown.servers) == {"srv", "mounted", "idle"}
        assert await stack.text("mounted__echo", text="x") == "x"


@pytest.mark.spec("DEC-35", "R-LIFE-24")
async def test_a_core_actor_that_keeps_dying_is_parked_shown_and_its_requests_answered_at_once() -> None:
    async with open_stack(config(light("srv"))) as stack:
        with anyio.fail_after(30):
            while not any(d.component == "actor" for d in (await stack.computer.diagnostics()).degradations):
                stack.computer.kill_actor("tools")
                await anyio.sleep(0.01)
        assert stack.computer.state == "degraded"
        assert stack.computer.operations.ready().reasons == ("actor tools is parked",)
        with anyio.fail_after(1):
            result = await stack.call("srv__echo", text="x")
            assert (result.error_code, result.meta["a2c_outcome"]) == (4003, "not_executed")
            with pytest.raises(SmcpError) as refused:
                await stack.names()
            assert getattr(refused.value, "wire_code", None) == 500
            assert set((await stack.agent.get_config("desk")).servers) == {"srv"}


@pytest.mark.spec("W-ERR-32")
async def test_an_agent_that_leaves_in_mid_call_disturbs_nobody() -> None:
    async with open_stack(config(light("srv", tools="sleep,echo"))) as stack:
        call = asyncio.create_task(stack.call("srv__sleep", timeout=5, seconds=1))
        await anyio.sleep(0.1)
        call.cancel()
        await stack.agent.close()
        async with AsyncAgent(stack.server.url, name="next", office=OFFICE) as agent:
            assert (await agent.tool_call("desk", "srv__echo", {"text": "x"}, timeout=5)).text == "x"
        await asyncio.gather(call, return_exceptions=True)


@pytest.mark.spec("DEC-13", "DEC-26", "R-LIFE-19", "T-STOP-2", "F-83", "W-CMP-5")
async def test_a_stop_lets_a_short_call_finish_and_ends_a_long_one_with_what_is_known() -> None:
    async with open_stack(config(light("srv", tools="sleep")), runtime=options(drain_timeout_s=1.0)) as stack:
        short = asyncio.create_task(stack.call("srv__sleep", timeout=20, seconds=0.4))
        long = asyncio.create_task(stack.call("srv__sleep", timeout=20, seconds=15))
        await anyio.sleep(0.2)
        with anyio.fail_after(6):
            await stack.computer.stop()
        assert (await short).text == "slept"
        ended = await long
        assert (ended.error_code, ended.meta["a2c_outcome"]) == (4003, "unknown")
        assert "a2c_cancelled" not in ended.meta
        assert processes() == set()
        with pytest.raises(SmcpError) as gone:
            await stack.call("srv__sleep", seconds=0)
        assert getattr(gone.value, "wire_code", None) == 404


@pytest.mark.spec("R-LIFE-20")
async def test_a_forced_shutdown_answers_calls_at_once() -> None:
    async with open_stack(config(light("srv", tools="sleep")), runtime=options(drain_timeout_s=30.0)) as stack:
        call = asyncio.create_task(stack.call("srv__sleep", timeout=20, seconds=15))
        await anyio.sleep(0.2)
        with anyio.fail_after(6):
            await stack.computer.shutdown(force=True)
        assert (await call).error_code == 4003
        assert processes() == set()


@pytest.mark.spec("T-STOP-5", "R-MCP-26", "DEC-8")
async def test_t_stop_5_a_server_that_ignores_everything_does_not_hold_up_a_shutdown() -> None:
    wedged = light("wedged", "--ignore-eof", "--ignore-term", "--grandchild")
    async with open_stack(config(wedged, light("srv"))) as stack:
        assert processes()
        with anyio.fail_after(12):
            await stack.computer.shutdown()
        assert processes() == set()
