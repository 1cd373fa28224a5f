"""Tool calls from an Agent through a Server and a Computer to real MCP servers, and every way they end."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime import fixtures
from support.leftovers import processes
from support.peers import Peers
from support.stack import PYTHON, config, light, open_stack, options

pytestmark = pytest.mark.anyio

EVERYTHING = "smcp_runtime.fixtures.servers.sdk_everything"


def everything(transport: str, peers: Peers) -> dict[str, Any]:
    """A server entry for the MCP server made with the official package, over this transport."""
    entry: dict[str, Any] = {
        "name": "Everything (display)",
        "bundle_id": "every",
        "type": transport,
        "default_tool_meta": {"auto_apply": True},
    }
    if transport == "stdio":
        return {**entry, "server_parameters": {"command": PYTHON, "args": ["-m", EVERYTHING]}}
    peer = peers.python("-m", EVERYTHING, "--transport", transport)
    url = peer.wait_line(r"ready url=(\S+)", timeout=30)[1]
    return {**entry, "server_parameters": {"url": url}}


@pytest.mark.spec("T-START-2", "C-1", "E-1")
async def test_t_start_2_the_first_call_of_a_stdio_server_is_answered_under_its_bundle_id() -> None:
    async with open_stack(fixtures.config("stdio")) as stack:
        listed = (await stack.agent.get_tools("desk")).tools
        assert {tool.bundle_id for tool in listed} == {"echo_srv_display"}
        result = await stack.call("echo_srv_display__add", a=2, b=3)
        assert (result.is_error, result.text, result.structured_content) == (False, "5", {"sum": 5})


@pytest.mark.spec("R-FIX-3", "E-1", "E-5")
@pytest.mark.parametrize("transport", ["stdio", "sse", "streamable"])
async def test_a_server_mounted_at_run_time_serves_over_each_transport_and_its_changes_are_told(
    peers: Peers, transport: str
) -> None:
    async with open_stack(fixtures.config("minimal")) as stack:
        assert await stack.names() == []
        notices = stack.agent.notifications()
        await stack.computer.mount(everything(transport, peers))
        await stack.until_listed("every__echo", timeout=30)
        assert await stack.text("every__echo", text="through it all") == "through it all"
        await stack.text("every__grow", name="grown")
        await stack.until_listed("every__grown")
        resources = (await stack.agent.get_resources(stack.computer.name, "every")).resources
        assert resources
        await stack.hear(notices, "notify:update_tool_list", "notify:update_config")


@pytest.mark.spec("C-2", "C-3", "C-4", "C-5", "W-CALL-5", "W-CALL-6", "W-CALL-7")
async def test_refusals_and_failures_are_results_with_their_code() -> None:
    guarded = light("Guarded", tools="safe_read,dangerous_delete,fail", forbidden_tools=["dangerous_delete"])
    guarded["default_tool_meta"] = {}
    guarded["tool_meta"] = {"fail": {"auto_apply": True}}
    async with open_stack(config(guarded, light("off", disabled=True))) as stack:
        codes = {
            tool: (await stack.call(tool)).meta.get("error_code")
            for tool in ("Guarded__nothing", "Guarded__dangerous_delete", "off__echo", "Guarded__safe_read")
        }
        assert codes == {
            "Guarded__nothing": 4001,
            "Guarded__dangerous_delete": 4002,
            "off__echo": 4001,
            "Guarded__safe_read": 4005,
        }
        failed = await stack.call("Guarded__fail")
        assert (failed.is_error, failed.error_code, failed.text) == (True, None, "it failed")


@pytest.mark.spec("T-PROJ-8", "C-7", "W-CALL-10", "DEC-11", "DEC-12")
async def test_t_proj_8_the_computers_time_limit_ends_a_call_with_its_own_result_and_the_server_hears_of_it(
    tmp_path: Path,
) -> None:
    log = tmp_path / "heard"
    async with open_stack(config(light("srv", "--log", str(log), tools="sleep,echo"))) as stack:
        began = time.monotonic()
        result = await stack.call("srv__sleep", timeout=1, seconds=30)
        assert time.monotonic() - began < 2
        assert (result.meta["a2c_timeout"], result.error_code) == (True, 4004)
        assert result.meta["a2c_outcome"] == "unknown"
        await stack.until(lambda: "notifications/cancelled" in log.read_text())
        assert await stack.text("srv__echo", text="still here") == "still here"


@pytest.mark.spec("T-PROJ-8", "C-8", "W-CALL-14", "W-CALL-15", "DEC-12")
async def test_t_proj_8_a_cancelled_call_is_answered_as_cancelled_and_the_server_hears_of_it(tmp_path: Path) -> None:
    log = tmp_path / "heard"
    async with open_stack(config(light("srv", "--log", str(log), tools="sleep,echo"))) as stack:
        req_id = stack.agent.new_req_id()
        call = asyncio.create_task(
            stack.agent.tool_call("desk", "srv__sleep", {"seconds": 30}, timeout=30, req_id=req_id)
        )
        await stack.until(lambda: log.exists() and '"sleep"' in log.read_text())
        await stack.agent.cancel("of-no-call")
        await stack.agent.cancel(req_id)
        with anyio.fail_after(2):
            result = await call
        assert result.meta["a2c_cancelled"] is True
        assert result.meta["a2c_cancel_reason"] == "agent_requested"
        assert result.error_code is None
        await stack.until(lambda: "notifications/cancelled" in log.read_text())
        assert await stack.text("srv__echo", text="still here") == "still here"


@pytest.mark.spec("W-CALL-16", "C-10")
async def test_a_repeated_request_id_is_refused_and_the_first_call_goes_on() -> None:
    async with open_stack(config(light("srv", tools="sleep"))) as stack:
        first = asyncio.create_task(
            stack.agent.tool_call("desk", "srv__sleep", {"seconds": 0.5}, timeout=10, req_id="twice")
        )
        second = await stack.agent.tool_call("desk", "srv__sleep", {"seconds": 0}, timeout=10, req_id="twice")
        # Both are on their way at once; exactly one of them runs.
        results = [await first, second]
        assert sorted(result.error_code or 0 for result in results) == [0, 400]


@pytest.mark.spec("W-CALL-17", "W-ARCH-6", "F-82")
async def test_slow_and_quick_calls_of_one_server_do_not_wait_for_each_other() -> None:
    async with open_stack(config(light("srv", tools="sleep,echo"))) as stack:
        slow = asyncio.create_task(stack.text("srv__sleep", seconds=1))
        began = time.monotonic()
        for number in range(20):
            assert await stack.text("srv__echo", text=str(number)) == str(number)
        assert time.monotonic() - began < 1
        assert not slow.done()
        assert await slow == "slept"


@pytest.mark.spec("W-CALL-17", "DEC-7", "F-57")
async def test_a_thousand_calls_at_once_over_ten_servers_are_all_answered_rightly() -> None:
    servers = [light(f"srv{number}", tools="echo,pid") for number in range(10)]
    async with open_stack(config(*servers)) as stack:
        await stack.until_listed(*(f"srv{number}__echo" for number in range(10)), timeout=30)
        children = processes()
        with anyio.fail_after(40):
            results = await asyncio.gather(
                *(stack.call(f"srv{number % 10}__echo", timeout=30, text=f"call {number}") for number in range(1000))
            )
        assert [result.text for result in results] == [f"call {number}" for number in range(1000)]
        assert processes() == children
        assert (await stack.computer.diagnostics()).link.in_flight == 0


@pytest.mark.spec("DEC-7", "DEC-29", "C-13")
async def test_calls_beyond_the_queue_of_a_server_are_refused_as_busy_and_the_others_are_answered() -> None:
    async with open_stack(
        config(light("srv", tools="sleep")), runtime=options(server_limits={"max_in_flight": 2, "max_queued": 3})
    ) as stack:
        results = await asyncio.gather(*(stack.call("srv__sleep", timeout=20, seconds=0.2) for _ in range(10)))
        refused = [result for result in results if result.is_error]
        assert len(refused) == 5
        assert {(result.error_code, result.meta["a2c_busy"], result.meta["a2c_outcome"]) for result in refused} == {
            (4003, True, "not_executed")
        }


@pytest.mark.spec("DEC-18", "C-11", "W-CALL-21")
async def test_a_result_of_thirty_megabytes_travels_in_no_packet_and_the_connection_stays() -> None:
    async with open_stack(config(light("srv", tools="big,echo"))) as stack:
        generation = (await stack.computer.diagnostics()).link.generation
        result = await stack.agent.tool_call("desk", "srv__big", {"bytes": 30_000_000}, timeout=30, fetch=False)
        assert result.is_error or "a2c_blob_handle" in str(result)
        assert len(str(result)) < 900_000
        assert await stack.text("srv__echo", text="still here") == "still here"
        assert (await stack.computer.diagnostics()).link.generation == generation
