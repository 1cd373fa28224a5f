"""Nothing outlives a Computer, and a worker that is lost in whatever way is replaced."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import psutil
import pytest

from smcp_runtime import fixtures
from smcp_runtime.wire.errors import ActorLost
from support.alive import alive
from support.peers import Peers
from support.placed import open_placed, worker
from support.stack import light
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

STUBBORN = ("--ignore-eof", "--ignore-term", "--grandchild")


def spawned(family: Sequence[psutil.Process]) -> list[psutil.Process]:
    """The workers among processes."""
    return [one for one in family if any("placement.spawned" in word for word in one.cmdline())]


@pytest.mark.spec("DEC-8", "R-MCP-26", "F-57")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_no_worker_and_no_server_outlives_a_computer(peers: Peers, tmp_path: Path, number: int) -> None:
    declared = tmp_path / "servers.json"
    entries = {}
    for name, flags in (("kind", ()), ("stubborn", STUBBORN)):
        command, *arguments = fixtures.light_stdio(*flags)
        entries[name] = {"command": command, "args": arguments}
    declared.write_text(json.dumps({"servers": entries}), "utf-8")
    words = ("computer", "run", "--name", "desk", "--mcp-config", declared, "--placement", "process")
    run = peers.start([sys.executable, "-m", "smcp_runtime.cli.main", *words])
    await run.line(r"^ready", timeout=20)

    def both_run() -> bool:
        return sum("light_stdio" in word for one in run.descendants() for word in one.cmdline()) >= 2

    await until(both_run, 20)
    family = run.descendants()
    workers = spawned(family)
    assert len(workers) == 2
    # A worker that cannot run any more is no reason to stay either.
    workers[0].suspend()
    run.signal(number)
    await run.exit(timeout=15)
    await until(lambda: not alive(workers), 2)
    await until(lambda: not alive(family), 8)


@pytest.mark.spec("DEC-1", "DEC-35")
async def test_a_worker_that_hangs_is_killed_and_replaced_once_it_has_been_silent_too_long(peers: Peers) -> None:
    async with open_placed("process", peers, light("one", tools="sleep,echo")) as placed:
        stack = placed.stack
        await stack.until_listed("one__echo", timeout=20)
        host, server = await placed.worker("one"), await placed.pid("one")
        call = asyncio.create_task(stack.call("one__sleep", timeout=60, seconds=60))
        await until(lambda: _in_flight(stack))
        host.suspend()
        with anyio.fail_after(10):
            result = await call
        assert (result.is_error, result.meta["a2c_outcome"]) == (True, "unknown")
        await until(lambda: not alive([host]), 5)

        async def answers() -> bool:
            return not (await stack.call("one__echo", text="again")).is_error

        await until(answers, 20)
        assert await placed.pid("one") != server


@pytest.mark.spec("DEC-35", "F-100")
@pytest.mark.parametrize("placement", ["process", "external"])
async def test_everything_hosted_elsewhere_comes_back_after_the_hub_has_died(placement: str, peers: Peers) -> None:
    async with open_placed(placement, peers, light("one", tools="echo,sleep")) as placed:
        stack = placed.stack
        await stack.until_listed("one__echo", timeout=30)
        server = await placed.pid("one")
        call = asyncio.create_task(stack.call("one__sleep", timeout=60, seconds=60))
        await until(lambda: _in_flight(placed.stack))
        assert stack.computer.kill_actor("workers")
        with anyio.fail_after(5):
            assert (await call).meta["a2c_outcome"] == "unknown"

        async def answers() -> bool:
            return not (await stack.call("one__echo", text="again")).is_error

        await until(answers, 20)
        assert not psutil.pid_exists(server)


@pytest.mark.spec("DEC-35", "R-LIFE-26")
async def test_an_operator_kills_and_sees_an_actor_in_a_worker_like_any_other(peers: Peers) -> None:
    async with open_placed("process", peers, light("one", tools="echo")) as placed:
        stack, operations = placed.stack, placed.stack.computer.operations
        await stack.until_listed("one__echo", timeout=20)
        for _ in range(3):
            await stack.text("one__echo", text="x")
        host = await placed.worker("one")
        view = await operations.view()
        (actor,) = [actor for actor in view.actors if actor.address == "mcp/one"]
        assert (actor.state, actor.life, actor.capacity) == ("up", 1, 1024)
        assert actor.handled >= 3
        (node,) = view.nodes
        assert (node.name, node.pid) == ("own/one", host.pid)
        assert node.rss > 10_000_000
        assert b'smcp_actor_handled_total{actor="mcp/one",outcome="ok"}' in await operations.metrics()
        assert operations.kill("mcp/one")
        await until(lambda: not alive([host]))

        async def lives_again() -> bool:
            (known,) = [a for a in (await operations.view()).actors if a.address == "mcp/one"]
            return (known.state, known.life, known.restarts) == ("up", 2, 1) and known.handled >= 3

        await until(lives_again, 20)
        await stack.until_listed("one__echo")


@pytest.mark.spec("R-MGMT-4", "R-LIFE-24")
async def test_a_server_no_worker_has_come_for_is_stopped_and_started_all_the_same(peers: Peers) -> None:
    async with open_placed("external", peers, light("one"), volunteers=False) as placed:
        stack, computer = placed.stack, placed.stack.computer

        async def status() -> tuple[str, str, str | None]:
            (known,) = (await computer.diagnostics()).servers
            return known.activation, known.connection, known.code

        async def waits() -> bool:
            return await status() == ("started", "error", "no_worker") and computer.state == "degraded"

        await until(waits)
        assert (await computer.control("one", "stop")).activation == "stopped"

        async def rests() -> bool:
            return await status() == ("stopped", "disconnected", None) and computer.state != "degraded"

        await until(rests)
        with pytest.raises(ActorLost):
            await computer.control("one", "start")
        placed.volunteer("one")
        await stack.until_listed("one__echo", timeout=30)


@pytest.mark.spec("DEC-8")
async def test_an_external_worker_that_is_told_to_stop_ends_its_server_first(peers: Peers) -> None:
    async with open_placed("external", peers, light("one", tools="echo")) as placed:
        await placed.stack.until_listed("one__echo", timeout=30)
        server = psutil.Process(await placed.pid("one"))
        first = placed.workers["one"]
        first.signal(signal.SIGTERM)
        assert await first.exit(timeout=10) == 0
        assert not alive([server])
        second = worker(peers, placed.endpoint, "one")
        await second.line(r"^ready hub=ipc://\S+ server=one pid=\d+$", timeout=20)
        await placed.stack.until_connected("one")
        # A Computer that goes does not take the worker with it: it waits for the next one.
    await until(lambda: not [p for p in second.descendants() if "light_stdio" in " ".join(p.cmdline())], 8)
    assert second.status is None


async def _in_flight(stack: object) -> bool:
    return any(s.in_flight for s in (await stack.computer.diagnostics()).servers)  # type: ignore[attr-defined]
