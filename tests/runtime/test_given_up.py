"""Callers that give up: what they asked for is whole or undone, and the Computer says which of the two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import pytest

from smcp_runtime.bus import Bus, Meter
from smcp_runtime.runtime import Computer
from smcp_runtime.wire.errors import ActorLost, ConflictError
from smcp_runtime.wire.lifecycle import Phase, StateChange
from smcp_runtime.wire.message import Fact
from smcp_runtime.wire.messages.kernel import ActorUp
from smcp_runtime.wire.messages.projection import Committed
from support.leftovers import processes, tasks
from support.recording_server import RecordingServer
from support.stack import config, light, open_stack, options
from support.waiting import until

pytestmark = pytest.mark.anyio

F = TypeVar("F", bound=Fact)


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


def at_each(kind: type[F], act: Callable[[F], None]) -> Callable[[Meter | None], Bus]:
    """Makes a bus that acts at once whenever a fact of this kind is published."""

    class Watchful(Bus):
        def publish(self, fact: Fact) -> None:
            super().publish(fact)
            if isinstance(fact, kind):
                act(fact)

    return Watchful


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


@pytest.mark.spec("R-LIFE-14", "DEC-26")
async def test_a_call_in_flight_keeps_its_time_when_the_leave_that_drains_it_is_given_up() -> None:
    async with open_stack(config(light("srv", tools="sleep")), runtime=options(drain_timeout_s=20.0)) as stack:
        made = stack.computer
        calling = asyncio.create_task(stack.call("srv__sleep", seconds=2))

        async def is_in_flight() -> bool:
            return bool((await made.diagnostics()).link.in_flight)

        async def refuses_more() -> bool:
            return bool((await stack.call("srv__sleep", seconds=0)).is_error)

        await until(is_in_flight)
        leaving = asyncio.create_task(made.leave())
        await until(refuses_more)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not (await calling).is_error
        await made.wait_for("connected")
        assert made.office is None


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


@pytest.mark.spec("R-LIFE-26", "R-LIFE-1")
async def test_a_collapse_during_a_sync_is_not_covered_up_by_the_end_of_the_sync() -> None:
    made = computer(light("one"))
    await made.start()
    crew = made._crew
    assert crew is not None

    def collapse(change: StateChange) -> None:
        if change.phase == "syncing":
            made._collapsed(crew, None)

    made.observe(collapse)
    with pytest.raises(ConflictError):
        await made.sync_config(config(light("two")))
    assert made.phase == "error"
    await crew.dismiss()
    await made.shutdown()
    assert processes() == set()


@pytest.mark.spec("R-LIFE-8", "R-LIFE-20")
@pytest.mark.parametrize("actor", ["tools", "reconcile", "socket"])
@pytest.mark.parametrize("by", ["its caller", "a shutdown"])
async def test_a_start_that_is_ended_while_its_actors_come_up_leaves_no_task(actor: str, by: str) -> None:
    before = tasks()
    made = computer()
    ended: list[asyncio.Task[None]] = []

    def end(fact: ActorUp) -> None:
        if fact.address == actor:
            if by == "its caller":
                starting.cancel()
            else:
                ended.append(asyncio.create_task(made.shutdown()))

    made.make_bus = at_each(ActorUp, end)
    starting = asyncio.create_task(made.start())
    (outcome,) = await asyncio.gather(starting, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError if by == "its caller" else ConflictError)
    await asyncio.gather(*ended)
    assert made.phase == ("stopped" if by == "its caller" else "shutdown")
    assert tasks() == before
    await made.shutdown()


@pytest.mark.spec("R-LIFE-11")
async def test_a_join_that_was_given_up_leaves_no_member_that_nobody_serves() -> None:
    async with RecordingServer() as server, computer() as made:
        await made.connect(server.url)
        answered = asyncio.Event()
        server.before_join_ack = answered.wait
        joining = asyncio.create_task(made.join("lab"))
        await server.until(lambda: "server:join_office" in server.named())
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        answered.set()
        await server.until(lambda: server.named() == ["server:join_office", "server:leave_office"])
        assert (made.phase, made.office) == ("connected", None)
        await made.join("lab")
        assert made.office == "lab"


@pytest.mark.spec("R-LIFE-5", "R-LIFE-11")
async def test_a_stop_does_not_wait_for_the_answer_to_a_join_that_it_interrupted() -> None:
    async with RecordingServer() as server:
        made = computer()
        await made.start()
        answered = asyncio.Event()
        server.before_join_ack = answered.wait
        connecting = asyncio.create_task(made.connect(server.url, office="lab"))
        await server.until(lambda: "server:join_office" in server.named())
        with anyio.fail_after(5):
            await made.stop()
        with pytest.raises(ConflictError):
            await connecting
        assert made.phase == "stopped"
        answered.set()
        await made.shutdown()


# -- sync_config --------------------------------------------------------------------------------

ONE, TWO = config(light("one")), config(light("two"), unheard_of=True)


async def running(made: Computer) -> list[str]:
    """The servers there are, by what the diagnostics say."""
    return [server.bundle_id for server in (await made.diagnostics()).servers]


def held(made: Computer) -> list[str]:
    """The servers in the configuration that is held."""
    return [server.bundle_id for server in made.config.servers]


async def up(made: Computer, life: int) -> None:
    """Waits until the actor that syncs is up, in this life."""

    async def is_up() -> bool:
        actors = (await made.diagnostics()).actors
        return any((one.address, one.incarnation, one.state) == ("reconcile", life, "up") for one in actors)

    await until(is_up)


async def sync_cut_short(made: Computer, by: str) -> None:
    """Starts with `ONE`, and syncs `TWO`: who waits for that is cut off once it is committed, and before it is told."""
    syncing: list[asyncio.Task[Any]] = []

    def cut(_: Committed) -> None:
        for each in syncing:
            if by == "its caller":
                each.cancel()
            else:
                made.kill_actor("reconcile")

    made.make_bus = at_each(Committed, cut)
    await made.start()
    syncing.append(asyncio.create_task(made.sync_config(TWO)))
    with pytest.raises(asyncio.CancelledError if by == "its caller" else ActorLost):
        await syncing[0]
    syncing.clear()


@pytest.mark.spec("R-CFG-8", "R-LIFE-15", "R-LIFE-5")
@pytest.mark.parametrize("by", ["its caller", "the end of the actor"])
async def test_a_sync_that_took_effect_is_what_is_held_though_nobody_was_told(by: str) -> None:
    made = Computer.from_config(ONE, options())
    await sync_cut_short(made, by)

    async def two_runs() -> bool:
        return await running(made) == ["two"]

    await until(two_runs)
    assert held(made) == ["two"]
    assert any("unheard_of" in finding for finding in (await made.diagnostics()).findings)
    await made.stop()
    await made.start()
    assert (held(made), await running(made)) == (["two"], ["two"])
    await made.shutdown()


@pytest.mark.spec("R-LIFE-18", "R-LIFE-15")
@pytest.mark.parametrize("by", ["its caller", "the end of the actor"])
async def test_after_a_sync_that_was_cut_short_the_old_configuration_can_be_had_back(by: str) -> None:
    made = Computer.from_config(ONE, options())
    await sync_cut_short(made, by)
    await up(made, life=1 if by == "its caller" else 2)
    await made.sync_config(ONE)
    assert held(made) == ["one"]

    async def one_runs() -> bool:
        return await running(made) == ["one"]

    await until(one_runs)
    await made.shutdown()


@pytest.mark.spec("R-CFG-8", "R-LIFE-15")
async def test_a_sync_that_ends_before_it_was_decided_changes_nothing_and_can_be_asked_for_again() -> None:
    made = Computer.from_config(ONE, options())
    async with made:

        def kill(change: StateChange) -> None:
            if change.phase == "syncing":
                made.kill_actor("reconcile")

        forget = made.observe(kill)
        with pytest.raises(ActorLost):
            await made.sync_config(TWO)
        forget()
        assert (made.phase, held(made)) == ("started", ["one"])
        assert not any("unheard_of" in finding for finding in (await made.diagnostics()).findings)
        await up(made, life=2)
        assert (await made.sync_config(TWO)).started == ("two",)
        assert held(made) == ["two"]
