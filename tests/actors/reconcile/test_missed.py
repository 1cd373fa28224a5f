"""What is shown of a server whose actor went while nobody listened, or while nobody wanted the server."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from smcp_runtime.actors.kernel import RestartPolicy
from smcp_runtime.actors.kernel.runner import Runner
from smcp_runtime.actors.mcp.transports.process_record import ProcessRecords
from smcp_runtime.actors.placement.awaiting import AwaitedLife
from smcp_runtime.actors.placement.keeper import PlacedServers
from smcp_runtime.actors.placement.report import Sum
from smcp_runtime.actors.placement.roster import Arrival
from smcp_runtime.actors.placement.site import BusPlace, Site
from smcp_runtime.actors.reconcile.running.keeper import InlineServers
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.messages.mcp import ServerStatus, ServerStatusChanged

from . import conftest
from .conftest import RECONCILE, World

spec = pytest.mark.spec
pytestmark = pytest.mark.anyio

MCP_A = Address("mcp/a")


async def shown(world: World) -> tuple[str, str, str]:
    status = await world.server("a")
    return status.activation, status.connection, status.phase


async def degraded(world: World) -> list[str]:
    return [found.code for found in (await world.status()).degradations]


def lives_anew(world: World) -> bool:
    reconcile = next(child for child in world.supervisor.children() if child.address == RECONCILE)
    return (reconcile.incarnation, reconcile.state) == (2, "up")


def put_off(world: World, policy: RestartPolicy) -> None:
    world.keeper = InlineServers(world.supervisor, world._make, policy=policy)


class Post:
    """The seat of an external server, and workers that come for it; their actors live on the bus of the test."""

    def __init__(self, world: World, tmp_path: Path) -> None:
        self.world = world
        self.site = Site(BusPlace(), ProcessRecords(tmp_path), tmp_path, stop_within=1.0)
        self.scope = anyio.CancelScope()
        world.keeper = PlacedServers(world.supervisor, world._make, self.elsewhere, takes_external=True)

    async def elsewhere(self) -> Post:
        return self

    def life(self, bundle_id: str, _: str) -> object:
        return lambda: AwaitedLife(bundle_id, self.site, self.world.bus, Sum())

    async def is_open(self) -> bool:
        return await degraded(self.world) == ["no_worker"]

    async def work(self, node: str) -> None:
        """The whole life of a worker, until it is killed."""
        with anyio.CancelScope() as self.scope:
            await self.world.until(self.is_open)
            self.site.roster.take("a", node)
            runner = Runner(self.world._make("a"), self.world.bus, MCP_A)
            arrived = Arrival(1, "host")
            await runner.run(start_timeout=5, on_up=lambda: self.site.roster.arrived("a", node, arrived))
        self.site.roster.left(node, "killed")


@pytest.fixture
def post(world: World, tmp_path: Path) -> Post:
    return Post(world, tmp_path)


@spec("DEC-35", "DEC-25", "R-LIFE-24")
class TestWhileReconcileIsDown:
    @pytest.mark.parametrize(
        ("policy", "phase"),
        [
            (RestartPolicy(max_restarts=0, park_retry=300), "parked"),
            (RestartPolicy(backoff=Backoff(60.0, 60.0)), "backing_off"),
        ],
    )
    async def test_an_actor_that_will_not_be_back_soon_is_shown_as_down(
        self, world: World, policy: RestartPolicy, phase: str
    ) -> None:
        put_off(world, policy)
        await world.start(["a"])
        await world.until_listed("a__echo")
        world.supervisor.kill_child(RECONCILE)
        world.supervisor.kill_child(MCP_A)
        await world.until(lambda: lives_anew(world))

        async def is_down() -> bool:
            return await shown(world) == ("started", "error", phase) and await degraded(world) == ["actor_down"]

        await world.until(is_down)
        assert world.held.facts.tools("a")[1] is False

    async def test_a_worker_that_left_is_waited_for_again(
        self, world: World, post: Post, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Longer than it takes until the seat is open for the next worker, which is said once.
        monkeypatch.setattr(conftest, "QUICK", RestartPolicy(backoff=Backoff(0.3, 0.3)))
        await world.start(["a"], placement="external", bus="ipc:///nowhere")
        async with anyio.create_task_group() as workers:
            workers.start_soon(post.work, "a.1")
            await world.until_listed("a__echo")
            world.supervisor.kill_child(RECONCILE)
            post.scope.cancel()
            await world.until(lambda: lives_anew(world))

        async def waits() -> bool:
            return await shown(world) == ("started", "error", "queued") and await degraded(world) == ["no_worker"]

        await world.until(waits)


@spec("R-LIFE-24", "R-MGMT-4")
class TestWhileNobodyWantsIt:
    async def test_an_actor_that_dies_degrades_nothing(self, world: World) -> None:
        put_off(world, RestartPolicy(backoff=Backoff(60.0, 60.0)))
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.control("a", "stop")
        world.supervisor.kill_child(MCP_A)
        await world.until(lambda: world.supervisor.children()[-1].state == "waiting")
        assert await shown(world) == ("stopped", "disconnected", "stopped")
        assert await degraded(world) == []

    async def test_a_worker_that_comes_and_goes_degrades_nothing(self, world: World, post: Post) -> None:
        await world.start(["a"], placement="external", bus="ipc:///nowhere")
        async with anyio.create_task_group() as workers:
            workers.start_soon(post.work, "a.1")
            await world.until_listed("a__echo")
            await world.control("a", "stop")
            post.scope.cancel()
            await world.until(lambda: post.site.roster.arrival_at("a") is None)
        assert await shown(world) == ("stopped", "disconnected", "stopped")
        assert await degraded(world) == []

    async def test_what_it_says_of_its_faults_is_no_degradation(self, world: World) -> None:
        await world.start(["a"])
        await world.until_listed("a__echo")
        await world.control("a", "stop")
        fault = ServerStatus("a", "started", "error", "queued", "no", "startup", "no_worker")
        world.bus.publish(ServerStatusChanged(fault))
        assert await shown(world) == ("stopped", "disconnected", "stopped")
        assert await degraded(world) == []
