"""Many servers and many calls at once: nobody waits for anybody else, and nothing grows."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import anyio
import psutil
import pytest

from smcp_runtime.wire.messages.mcp import CallLimits, LaunchPlan, ReconnectPolicy, StartServer, ToolOutcome

from .conftest import Host, light

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
spec = pytest.mark.spec

NEVER = ReconnectPolicy(enabled=False)


@spec("R-LIFE-7", "DEC-4", "F-54", "F-56")
async def test_of_five_servers_the_two_good_ones_serve_at_once_and_the_others_say_why(host: Host) -> None:
    plans = {
        "good1": light("good1"),
        "missing": LaunchPlan("missing", "m (display)", "stdio", command="no-such-command", reconnect=NEVER),
        "exits": light("exits", "--exit-at-once", "1", reconnect=NEVER),
        "silent": light("silent", "--mute-initialize", start_timeout=3.0, reconnect=NEVER),
        "good2": light("good2"),
    }
    for plan in plans.values():
        await host.add(plan)
    began = time.monotonic()
    for name in plans:
        await host.bus.ask(host.address(name), StartServer())
    for name in ("good1", "good2"):
        await host.until(name, phase="ready")
        assert (await host.call(name, "echo")).ended == "answered"
    assert time.monotonic() - began < 2.0
    reasons = {name: (await host.until(name, phase="parked")).reason or "" for name in ("missing", "exits", "silent")}
    assert "command not found" in reasons["missing"]
    assert "status 1" in reasons["exits"]
    assert "3 s" in reasons["silent"]


@spec("DEC-3", "F-22")
async def test_thirty_servers_under_a_cap_of_eight_come_up_around_three_that_never_do(host: Host) -> None:
    names = [f"s{index:02d}" for index in range(30)]
    silent = {"s00", "s07", "s14"}
    for name in names:
        flags = ("--mute-initialize",) if name in silent else ()
        await host.add(light(name, *flags, start_timeout=4.0, reconnect=NEVER))
    for name in names:
        await host.bus.ask(host.address(name), StartServer())
    for name in names:
        if name not in silent:
            await host.until(name, phase="ready", timeout=40.0)
    for name in silent:
        assert (await host.until(name, phase="parked", timeout=10.0)).code == "start_timeout"
    assert host.reconcile.most == 8


@spec("F-57", "DEC-7", "W-CALL-17")
async def test_a_thousand_calls_at_once_leave_processes_and_descriptors_as_they_were(host: Host) -> None:
    limits = CallLimits(max_in_flight=32, max_queued=1000)
    await host.start(light("files", limits=limits))
    await host.call("files", "echo")
    before = (len(os.listdir("/proc/self/fd")), len(psutil.Process().children(recursive=True)))
    outcomes: list[ToolOutcome] = []

    async def call(number: int) -> None:
        outcomes.append(await host.call("files", "echo", {"text": str(number)}, timeout=30.0))

    async with anyio.create_task_group() as group:
        for number in range(1000):
            group.start_soon(call, number)
    assert [outcome.ended for outcome in outcomes] == ["answered"] * 1000
    assert (len(os.listdir("/proc/self/fd")), len(psutil.Process().children(recursive=True))) == before
    status = await host.status("files")
    assert (status.calls, status.failed_calls, status.in_flight, status.queued) == (1001, 0, 0, 0)


@spec("W-CALL-14", "DEC-12")
async def test_a_caller_that_goes_away_while_its_call_waits_or_runs_leaves_its_place_to_the_next(host: Host) -> None:
    await host.start(light("files", "--tools", "sleep,echo", limits=CallLimits(max_in_flight=1)))
    async with anyio.create_task_group() as group:

        async def call(**arguments: Any) -> None:
            await host.call("files", "sleep", arguments, timeout=30.0)

        group.start_soon(lambda: call(seconds=20))
        group.start_soon(lambda: call(seconds=20))
        await host.eventually_true(lambda: True)
        with anyio.fail_after(5.0):
            while (await host.status("files")).queued != 1:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    with anyio.fail_after(2.0):
        assert (await host.call("files", "echo")).ended == "answered"
    status = await host.status("files")
    assert (status.in_flight, status.queued) == (0, 0)


@spec("F-03")
async def test_a_server_that_announces_with_every_list_costs_a_bounded_number_of_lists(
    host: Host, tmp_path: Any
) -> None:
    script = f"""
import json, sys
lists = 0
def say(**message):
    print(json.dumps({{"jsonrpc": "2.0", **message}}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, request_id = message["method"], message.get("id")
    if method == "initialize":
        capabilities = {{"tools": {{"listChanged": True}}}}
        server = {{"name": "chatty", "version": "1"}}
        version = {{"protocolVersion": "2025-06-18"}}
        say(id=request_id, result={{**version, "capabilities": capabilities, "serverInfo": server}})
    elif method == "tools/list":
        lists += 1
        open({str(tmp_path / "lists")!r}, "w").write(str(lists))
        say(method="notifications/tools/list_changed")
        say(id=request_id, result={{"tools": []}})
    elif request_id is not None:
        say(id=request_id, error={{"code": -32601, "message": "unknown"}})
"""
    chatty = LaunchPlan("chatty", "chatty (display)", "stdio", command=sys.executable, args=("-c", script))
    await host.start(chatty)
    await anyio.sleep(3.0)  # what must not happen needs time to not happen in
    assert 2 <= int((tmp_path / "lists").read_text()) <= 8
    assert host.phases("chatty")[-1] == "ready"
