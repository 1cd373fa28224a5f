"""What is degraded, as it follows the facts of a real supervisor and asks a stand-in for `reconcile`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, RestartPolicy, Supervisor, handler
from smcp_runtime.actors.reconcile.commits import overview
from smcp_runtime.actors.reconcile.commits.overview import Overview
from smcp_runtime.bus import Bus
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.messages.projection import GetProjectionStatus, ProjectionStatus
from support.waiting import until

pytestmark = pytest.mark.anyio

SERVER = Address("mcp/one")


class Busy(Actor):
    """A `reconcile` that has no time for the first who asks."""

    def __init__(self) -> None:
        self.asked = 0

    @handler(concurrent=4)
    async def status(self, _: GetProjectionStatus) -> ProjectionStatus:
        self.asked += 1
        if self.asked == 1:
            await anyio.sleep_forever()
        return ProjectionStatus(7)


class Scene:
    """An overview that runs, and how often it said that something may have changed."""

    def __init__(self, bus: Bus, supervisor: Supervisor) -> None:
        self.bus, self.supervisor = bus, supervisor
        self.changes = 0
        self.overview = Overview(bus, on_change=self._changed, on_link=lambda _: None, on_actor=lambda _, __: None)

    def _changed(self) -> None:
        self.changes += 1

    def degraded(self) -> list[tuple[str, str]]:
        return [(found.identity, found.code) for found in self.overview.degradations]


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with Bus() as bus, Supervisor(bus) as supervisor, anyio.create_task_group() as group:
        made = Scene(bus, supervisor)
        group.start_soon(made.overview.run)
        yield made
        group.cancel_scope.cancel()


@pytest.mark.spec("DEC-35", "R-LIFE-24")
@pytest.mark.parametrize("retry", [0.0, 300.0])
async def test_an_actor_given_up_is_a_degradation_until_it_is_taken_away(retry: float) -> None:
    policy = RestartPolicy(backoff=Backoff(initial=0.001, longest=0.01), max_restarts=0, park_retry=retry)
    async with scene() as here:
        await here.supervisor.start_child(ChildSpec(SERVER, Actor, policy=policy))
        assert here.supervisor.kill_child(SERVER)
        await until(lambda: here.degraded() == [("mcp/one", "parked")])
        before = here.changes
        await here.supervisor.stop_child(SERVER)
        await until(lambda: here.degraded() == [])
        assert here.changes == before + 1


@pytest.mark.spec("R-LIFE-24")
async def test_an_answer_that_does_not_come_in_time_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "ASK_LIMIT", 0.05)
    monkeypatch.setattr(overview, "ASK_AGAIN", 0.0)
    async with scene() as here:
        await here.supervisor.start_child(ChildSpec(overview.RECONCILE, Busy))
        await until(lambda: here.overview.status.commit == 7)
