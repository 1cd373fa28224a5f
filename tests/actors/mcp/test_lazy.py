"""A server actor that stands by: a call starts its server, and what is not used ends (F-68)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from smcp_runtime.wire.messages.mcp import CallLimits, LaunchPlan, ReconnectPolicy, StandBy, ToolOutcome, ToolsListed

from .conftest import Host, light

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F-68")]

PATIENT = ReconnectPolicy(initial_delay=60.0, max_delay=60.0)


def lazy(*flags: str, idle: float = 0.2, **more: Any) -> LaunchPlan:
    return light("s", "--tools", "echo,sleep", *flags, limits=CallLimits(idle_stop=idle), **more)


async def standing_by(host: Host, plan: LaunchPlan) -> None:
    address = await host.add(plan)
    status = await host.bus.ask(address, StandBy())
    assert (status.activation, status.connection, status.phase, status.reason) == (
        "started",
        "disconnected",
        "idle",
        "idle",
    )


async def test_it_starts_nothing_until_it_is_called_and_ends_the_server_when_nobody_calls_it(host: Host) -> None:
    await standing_by(host, lazy())
    assert host.reconcile.rendered == []
    assert (await host.call("s", "echo", {"text": "x"}, wake=True)).ended == "answered"
    await host.until("s", phase="idle")
    assert len(host.reconcile.granted) == 1
    assert host.tools("s") == ["echo", "sleep"], "what it listed stays known"
    assert (await host.call("s", "echo", {"text": "x"}, wake=True)).ended == "answered"


async def test_a_call_longer_than_the_idle_time_is_let_finish(host: Host) -> None:
    await standing_by(host, lazy(idle=0.05))
    assert (await host.call("s", "sleep", {"seconds": 0.5}, wake=True)).ended == "answered"
    await host.until("s", phase="idle")


async def test_a_call_that_may_not_wake_it_does_not(host: Host) -> None:
    await standing_by(host, lazy())
    ended = await host.call("s", "echo")
    assert (ended.ended, ended.executed) == ("not_connected", "no")
    assert host.reconcile.rendered == []


async def test_a_start_that_outlasts_the_limit_of_the_call_ends_the_call_as_not_executed(host: Host) -> None:
    await standing_by(host, lazy("--start-delay", "3", idle=30.0))
    with anyio.fail_after(2.5):
        ended = await host.call("s", "echo", timeout=0.3, wake=True)
    assert (ended.ended, ended.executed) == ("timeout", "no")
    await host.stop("s")


async def test_every_call_that_waited_for_a_start_that_failed_is_told_at_once(host: Host) -> None:
    await standing_by(host, lazy("--exit-at-once", "3", reconnect=PATIENT))
    endings: list[ToolOutcome] = []

    async def call() -> None:
        endings.append(await host.call("s", "echo", wake=True))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(call)
    assert {(ended.ended, ended.executed) for ended in endings} == {("not_connected", "no")}
    assert len(host.reconcile.granted) == 1
    assert (await host.status("s")).phase == "backing_off"


async def test_a_server_stopped_by_hand_is_not_woken(host: Host) -> None:
    await standing_by(host, lazy())
    assert (await host.stop("s")).activation == "stopped"
    assert (await host.call("s", "echo", wake=True)).ended == "not_connected"
    assert host.reconcile.rendered == []
    assert host.seen(ToolsListed, "s") == []
