"""What becomes of a start or a change when whoever asked for it stops waiting, or reconcile dies meanwhile."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, handler
from smcp_runtime.actors.placement.keeper import PlacedServers
from smcp_runtime.actors.reconcile.config.computer_config import canonical
from smcp_runtime.actors.reconcile.config.findings import Findings
from smcp_runtime.actors.reconcile.config.server_entry import read_entry
from smcp_runtime.actors.reconcile.lazy import shelf
from smcp_runtime.actors.reconcile.running import lanes
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import DeadlineExceeded
from smcp_runtime.wire.messages.finder import ApplyFinder
from smcp_runtime.wire.messages.mcp import ServerStatus, StartServer
from smcp_runtime.wire.messages.projection import ControlServer, SeatServer, SyncConfig
from smcp_runtime.wire.messages.tools import Applied

from .conftest import QUICK, RECONCILE, StubServer, World

spec = pytest.mark.spec
pytestmark = pytest.mark.anyio

IMPATIENT = 0.02
"""Seconds, far less than anything here takes by itself."""


class Workers:
    """Spawned workers that come up when they are let."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.begun, self.let = anyio.Event(), anyio.Event()
        world.keeper = PlacedServers(world.supervisor, world._make, self.elsewhere, takes_external=False)

    async def elsewhere(self) -> Workers:
        return self

    def life(self, bundle_id: str, _: Any) -> Callable[[], Actor]:
        workers = self

        class Slow(StubServer):
            async def started(self) -> None:
                workers.begun.set()
                await workers.let.wait()

        return lambda: Slow(self.world, bundle_id)


@pytest.fixture
def workers(world: World) -> Workers:
    return Workers(world)


async def gives_up(ask: Awaitable[Any]) -> None:
    with pytest.raises(DeadlineExceeded):
        await ask


@spec("R-MCP-9", "DEC-37", "F-100")
class TestStarts:
    async def test_a_worker_that_starts_while_reconcile_dies_is_told_to_run(
        self, world: World, workers: Workers
    ) -> None:
        await world.start(["a"], placement="process")
        with anyio.fail_after(5):
            await workers.begun.wait()
        await world.kill("reconcile")
        workers.let.set()
        await world.until_listed("a__echo")
        assert world.keeper.children() == ("a",)
        await world.until(lambda: no_degradation(world))

    @spec("F-68")
    async def test_a_call_that_cannot_wait_for_a_worker_leaves_it_to_the_next_one(
        self, world: World, workers: Workers, tmp_path: Path
    ) -> None:
        entry = read_entry({"name": "a", "command": "a"}, "e", Findings())
        assert entry is not None
        shelf.keep_all(tmp_path, {shelf.key_of(entry): b'[{"name":"echo","inputSchema":{}}]'})
        await world.start(["a"], placement="process", state_dir=str(tmp_path), server_limits={"lazy": True})
        await world.until(lambda: is_idle(world))
        await gives_up(world.bus.ask(RECONCILE, SeatServer("a"), timeout=IMPATIENT))
        workers.let.set()
        await world.bus.ask(RECONCILE, SeatServer("a"), timeout=5)
        assert world.orders == [("stand by", "a")]

    async def test_a_start_by_hand_that_was_given_up_goes_on(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        world.may_stop = anyio.Event()
        await gives_up(world.bus.ask(RECONCILE, ControlServer("a", "stop"), timeout=IMPATIENT))
        await gives_up(world.bus.ask(RECONCILE, ControlServer("a", "start"), timeout=IMPATIENT))
        world.may_stop.set()
        await world.until(lambda: world.orders == [("start", "a"), ("stop", "a"), ("start", "a")])
        await world.until_listed("a__echo")

    async def test_an_actor_that_lives_but_did_not_answer_in_time_is_told_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Hung(StubServer):
            @handler(concurrent=16)
            async def start(self, message: StartServer) -> ServerStatus:
                world.orders.append(("hung", self.bundle_id))
                if len(world.orders) > 1:
                    return await super().start(message)
                await anyio.sleep_forever()
                raise AssertionError

        monkeypatch.setattr(lanes, "CONTROL_LIMIT", IMPATIENT)
        monkeypatch.setattr(lanes, "AGAIN_AFTER", 0.0)
        monkeypatch.setattr(world.keeper, "_factory", lambda bundle_id: Hung(world, bundle_id))
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.until(lambda: no_degradation(world))


class SlowFinder(Actor):
    """Applies its slice when it is let."""

    def __init__(self) -> None:
        self.let = anyio.Event()
        self.let.set()

    @handler(concurrent=4)
    async def apply(self, _: ApplyFinder) -> Applied:
        await self.let.wait()
        return Applied(False)


@spec("R-LIFE-15", "R-LIFE-3")
class TestChanges:
    async def test_a_sync_that_was_given_up_during_its_commit_is_carried_out(self, world: World) -> None:
        finder = SlowFinder()
        await world.supervisor.start_child(ChildSpec(Address("finder"), lambda: finder, policy=QUICK))
        await world.start(["a"], slices=("tool_list", "finder"))
        await world.until_listed("a__echo")
        finder.let = anyio.Event()
        config = Attachment(json.dumps(canonical(world.config(["b"]))).encode())
        await gives_up(world.bus.ask(RECONCILE, SyncConfig(config), timeout=IMPATIENT))
        finder.let.set()
        await world.until_listed("b__echo")
        await world.until(lambda: world.keeper.children() == ("b",))


async def is_idle(world: World) -> bool:
    return (await world.server("a")).phase == "idle"


async def no_degradation(world: World) -> bool:
    return (await world.status()).degradations == ()
