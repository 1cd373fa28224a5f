"""Who gets a seat at the bus itself: not a worker that is gone, and whoever waits for the bus gets it once it opens."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import anyio
import pytest

from smcp_runtime.actors.kernel import ChildSpec, Supervisor
from smcp_runtime.actors.mcp.oauth.vault import Vault
from smcp_runtime.actors.mcp.transports.process_record import ProcessRecords
from smcp_runtime.actors.placement.hub import ADDRESS, WorkersActor
from smcp_runtime.actors.placement.site import BusPlace, Site
from smcp_runtime.bus import Bus
from smcp_runtime.bus.zeromq import ZmqHub, ZmqNode
from smcp_runtime.wire.errors import ActorLost
from smcp_runtime.wire.messages.placement import TakeSeat
from support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

NO_GRANTS = None
"""No worker here asks for an authorization."""


class Office:
    """Seats, and the actor that gives them."""

    def __init__(self, site: Site, stack: AsyncExitStack) -> None:
        self.site = site
        self._stack = stack

    @property
    def hub(self) -> ZmqHub:
        assert self.site.hub is not None
        return self.site.hub

    async def node(self, name: str) -> Bus:
        """The bus of a worker that has just connected."""
        bus = await self._stack.enter_async_context(Bus())
        await self._stack.enter_async_context(ZmqNode(bus, self.hub.endpoint, name))
        return bus


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    with tempfile.TemporaryDirectory(prefix="bus-") as directory:
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(Bus())
            supervisor = await stack.enter_async_context(Supervisor(bus))
            place = BusPlace(f"ipc://{directory}/hub")
            site = Site(place, ProcessRecords(tmp_path / "records"), tmp_path / "logs", stop_within=1.0)
            site.attach(bus)
            await supervisor.start_child(ChildSpec(ADDRESS, lambda: WorkersActor(site, cast(Vault, NO_GRANTS))))
            yield Office(site, stack)


@pytest.mark.spec("R-MCP-9")
async def test_a_worker_lost_together_with_the_one_before_it_does_not_get_its_seat(office: Office) -> None:
    office.site.roster.open("files", None)
    first, spare = await office.node("files.a"), await office.node("files.b")
    assert (await first.ask(ADDRESS, TakeSeat("files", "files.a"), timeout=5)).given
    async with anyio.create_task_group() as group:

        async def stand_by() -> None:
            with pytest.raises(ActorLost):
                await spare.ask(ADDRESS, TakeSeat("files", "files.b", 30.0), timeout=40)

        group.start_soon(stand_by)
        await until(lambda: office.site.roster._changed.statistics().tasks_waiting == 1)
        for name in ("files.a", "files.b"):
            office.hub.dismiss(name, "lost in one go")
    last = await office.node("files.c")
    assert (await last.ask(ADDRESS, TakeSeat("files", "files.c"), timeout=5)).given


async def test_whoever_waits_for_the_bus_gets_it_also_when_it_failed_to_open_meanwhile(office: Office) -> None:
    hub = office.hub
    office.site.closed()
    with anyio.fail_after(2):
        async with anyio.create_task_group() as group:
            group.start_soon(office.site.until_open)
            await anyio.wait_all_tasks_blocked()
            office.site.closed()
            office.site.opened(hub)
