"""Callers that give up: what they asked for is whole or undone, and the Computer says which of the two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from smcp_runtime.bus import Bus
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import ConflictError
from smcp_runtime.wire.lifecycle import Phase, StateChange
from smcp_runtime.wire.message import Fact
from smcp_runtime.wire.messages.kernel import ActorUp
from support.leftovers import processes, tasks
from support.recording_server import RecordingServer
from support.stack import config, light, options

pytestmark = pytest.mark.anyio


def computer(*servers: dict[str, Any], **changes: Any) -> Computer:
    return Computer.from_config(config(*servers), options(**changes))


async def give_up(made: Computer, operation: Callable[[], Coroutine[Any, Any, Any]], phase: Phase) -> None:
    """Calls an operation, and gives up once the Computer is in this phase."""
    calling = asyncio.create_task(operation())

    def lose_patience(change: StateChange) -> None:
        if change.phase == phase:
            calling.cancel()

    forget = made.observe(lose_patience)
    with pytest.raises(asyncio.CancelledError):
        await calling
    forget()


@pytest.mark.spec("R-LIFE-19", "R-LIFE-20", "DEC-8")
@pytest.mark.parametrize("ending", ["stop", "shutdown", "leaving its context"])
async def test_an_end_that_nobody_waits_for_any_more_still_comes_and_is_not_told_before(ending: str) -> None:
    made = computer(light("srv"))

    async def use() -> None:
        async with made:
            pass

    if ending != "leaving its context":
        await made.start()
    end = {"stop": made.stop, "shutdown": made.shutdown}.get(ending, use)
    await give_up(made, end, "stopping")
    assert made.phase == "stopping"
    await made.wait_for("stopped", "shutdown")
    assert processes() == set()
    await made.shutdown()


@pytest.mark.spec("R-LIFE-19", "R-LIFE-2", "R-MCP-9")
async def test_a_start_waits_for_a_stop_that_was_given_up_so_that_no_server_runs_twice() -> None:
    made = computer(light("srv"))
    await made.start()
    first = processes()
    await give_up(made, made.stop, "stopping")
    await made.start()
    assert len(processes()) == len(first)
    assert processes().isdisjoint(first)
    await made.shutdown()
    assert processes() == set()


@pytest.mark.spec("R-LIFE-20")
async def test_a_second_shutdown_waits_for_the_first_also_when_that_was_given_up() -> None:
    made = computer(light("srv"))
    await made.start()
    await give_up(made, made.shutdown, "stopping")
    await made.shutdown()
    assert made.phase == "shutdown"
    assert processes() == set()


@pytest.mark.spec("R-LIFE-14", "R-LIFE-2")
async def test_after_a_disconnect_that_was_given_up_it_can_be_connected_again() -> None:
    async with RecordingServer() as server, computer() as made:
        await made.connect(server.url, office="lab")
        await give_up(made, made.disconnect, "disconnecting")
        await made.connect(server.url, office="lab")
        assert (made.phase, made.office) == ("joined_office", "lab")
        assert server.named() == ["server:join_office", "server:leave_office", "disconnect", "server:join_office"]


@pytest.mark.spec("R-LIFE-26")
async def test_the_collapse_of_former_actors_is_no_news_of_those_that_run_now() -> None:
    made = computer(light("srv"))
    await made.start()
    assert made._crew is not None
    former = made._crew.house
    await made.stop()
    await made.start()
    assert former._on_collapse is not None
    former._on_collapse(None)
    assert made.phase == "started"
    assert (await made.control("srv", "stop")).activation == "stopped"
    await made.shutdown()


@pytest.mark.spec("R-LIFE-8", "R-LIFE-20")
@pytest.mark.parametrize("actor", ["tools", "reconcile", "socket"])
@pytest.mark.parametrize("by", ["its caller", "a shutdown"])
async def test_a_start_that_is_ended_while_its_actors_come_up_leaves_no_task(actor: str, by: str) -> None:
    before = tasks()
    made = computer()
    ended: list[asyncio.Task[None]] = []

    class Watchful(Bus):
        def publish(self, fact: Fact) -> None:
            super().publish(fact)
            if isinstance(fact, ActorUp) and fact.address == actor:
                if by == "its caller":
                    starting.cancel()
                else:
                    ended.append(asyncio.create_task(made.shutdown()))

    made.make_bus = Watchful
    starting = asyncio.create_task(made.start())
    (outcome,) = await asyncio.gather(starting, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError if by == "its caller" else ConflictError)
    await asyncio.gather(*ended)
    assert made.phase == ("stopped" if by == "its caller" else "shutdown")
    assert tasks() == before
    await made.shutdown()
