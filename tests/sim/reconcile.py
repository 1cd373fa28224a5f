"""Desired against actual: plans, lanes and start places, while the set changes faster than servers can follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from smcp_runtime.actors.kernel.actor import Tasks
from smcp_runtime.actors.kernel.pool import TaskPool
from smcp_runtime.actors.reconcile.config.computer_config import parse_computer_config
from smcp_runtime.actors.reconcile.config.server_entry import ServerEntry
from smcp_runtime.actors.reconcile.held import Held
from smcp_runtime.actors.reconcile.running.lanes import Lanes
from smcp_runtime.actors.reconcile.running.plan import plan
from smcp_runtime.actors.reconcile.running.start_gate import StartGate
from smcp_runtime.actors.reconcile.running.start_places import StartPlaces
from smcp_runtime.actors.reconcile.server_set import SetEntry
from smcp_runtime.bus.context import Context
from smcp_runtime.wire.errors import ActorLost, SmcpError, StartupError
from smcp_runtime.wire.messages.mcp import RestartServer, ServerStatus, StartServer, StopServer

from .play import Play, on_trio

NAMES = ("ale", "bun", "cod", "dal")
CHANGES_END = 30.0
CAP, LAUNCHER_CAP = 2, 1
SLOW = 8.0
STEPS = 9


class FakeServer:
    """The actor of a server, as far as reconcile can tell."""

    def __init__(self, house: House, bundle_id: str) -> None:
        self.house, self.bundle_id = house, bundle_id
        self.shape: Any = None
        self.wanted = False
        self.asked: Any = None
        self.ending: anyio.CancelScope | None = None

    async def take(self, message: Any) -> ServerStatus:
        if isinstance(message, StopServer):
            await self.house.pause()
            self.stop()
        elif isinstance(message, RestartServer):
            shape = await self.house.launch_plan(self.bundle_id)
            self.stop()
            self.wanted, self.shape = True, shape
        elif isinstance(message, StartServer) and not self.wanted:
            self.wanted = True
            self.house.group.start_soon(self.start)
        return ServerStatus(self.bundle_id)

    def stop(self) -> None:
        self.wanted, self.shape = False, None
        if self.ending is not None:
            self.ending.cancel()

    async def start(self) -> None:
        """Renders, waits for a place, starts; a failure is tried again, as the supervision table would."""
        house = self.house
        with anyio.CancelScope() as self.ending:
            while self.wanted and self.shape is None:
                try:
                    shape = await house.launch_plan(self.bundle_id)
                    await house.places.take(self.bundle_id, house.play.pick("", "npx"))
                except SmcpError as error:
                    house.play.note(f"{self.bundle_id} cannot start: {error.code}")
                    if house.halted or not house.lanes.is_wanted(self.bundle_id):
                        return
                    await anyio.sleep(1.0)
                    continue
                try:
                    house.starting.add(self.bundle_id)
                    house.play.claim(len(house.starting) <= CAP, f"{len(house.starting)} servers start at once")
                    await house.pause()
                    self.shape = shape
                finally:
                    house.starting.discard(self.bundle_id)
                    house.places.give_back(self.bundle_id)


class House:
    """Reconcile's part, and the keeper and bus it works with."""

    def __init__(self, play: Play, group: TaskGroup) -> None:
        self.play, self.group = play, group
        self.held = Held(parse_computer_config({"name": "sim"}).config)
        self.servers: dict[str, FakeServer] = {}
        self.places = StartPlaces(StartGate(CAP, LAUNCHER_CAP, budget=3600.0), anyio.current_time)
        self.starting: set[str] = set()
        self.orders: Counter[str] = Counter()
        self.faulty = play.chance(0.5)
        self.halted = False
        self.lanes = Lanes(
            self.held,
            self,
            self.order,
            Tasks(group, TaskPool(group, Context()), Context()).see_through,
            drain=0.5,
            placement_of=lambda _: "inline",
            could_not=lambda bundle_id, error: play.note(f"{bundle_id} could not: {error.code}"),
            ended=lambda bundle_id: play.note(f"{bundle_id} has ended"),
        )

    async def pause(self) -> None:
        await anyio.sleep(self.play.pick(0.0, self.play.span(0.001, SLOW)))

    def fails(self) -> bool:
        return self.faulty and self.play.now() < CHANGES_END and self.play.chance(0.15)

    # -- keeper and bus -----------------------------------------------------------------

    async def start_child(self, bundle_id: str, _: Any) -> None:
        self.play.claim(bundle_id not in self.servers, f"{bundle_id} has an actor already")
        await self.pause()
        if self.fails():
            raise StartupError("no")
        self.servers[bundle_id] = FakeServer(self, bundle_id)

    async def stop_child(self, bundle_id: str) -> None:
        await self.pause()
        server = self.servers.pop(bundle_id, None)
        if server is not None:
            server.stop()

    async def wake_child(self, bundle_id: str) -> None:
        pass

    def children(self) -> Iterable[str]:
        return tuple(self.servers)

    async def order(self, target: Any, message: Any, *, timeout: float | None = None) -> Any:
        bundle_id = str(target).removeprefix("mcp/")
        self.orders[bundle_id] += 1
        self.play.claim(self.orders[bundle_id] == 1, f"two orders at once for {bundle_id}")
        try:
            self.play.note(f"{type(message).__name__} {bundle_id}")
            if self.fails():
                self.killed(bundle_id)
                raise ActorLost("killed")
            return await self.servers[bundle_id].take(message)
        finally:
            self.orders[bundle_id] -= 1

    def killed(self, bundle_id: str) -> None:
        """The actor dies with its server, and its next life is told again what it is for."""
        asked = self.servers[bundle_id].asked
        self.servers[bundle_id].stop()
        self.lanes.actor_died(bundle_id)
        if asked is not None and self.play.chance(0.5):
            self.group.start_soon(self.hand_out_late, bundle_id, *asked)
        self.group.start_soon(self.revive, bundle_id)

    async def revive(self, bundle_id: str) -> None:
        await self.pause()
        self.lanes.reborn(bundle_id)
        await self.lanes.settle(bundle_id)

    async def hand_out_late(self, bundle_id: str, shape: Any, life: int) -> None:
        """A plan that the dead life had asked for is ready only now."""
        await self.pause()
        if not self.lanes.handed_out(bundle_id, shape, life):
            await self.lanes.settle(bundle_id)

    # -- what the reconcile actor does beside ----------------------------------------------

    async def launch_plan(self, bundle_id: str) -> Any:
        member = self.held.servers.get(bundle_id)
        if member is None or not member.may_run:
            raise StartupError("not wanted")
        if self.lanes.take_prepared(bundle_id) is not None:
            return self.held.launched[bundle_id]
        shape, life = member.entry.launch_shape, self.lanes.life_of(bundle_id)
        self.servers[bundle_id].asked = shape, life
        await self.pause()
        if self.fails():
            raise StartupError("cannot be rendered")
        if not self.lanes.handed_out(bundle_id, shape, life):
            self.group.start_soon(self.lanes.settle, bundle_id)
        return shape

    def entry(self, name: str) -> SetEntry:
        entry = ServerEntry(
            bundle_id=name,
            name=self.play.pick(name, name.upper()),
            type="stdio",
            parameters={"command": self.play.pick("a", "b")},
            disabled=self.play.chance(0.2),
        )
        return SetEntry(entry, "embed", "sim", verdict=self.play.pick("ENABLED", "ENABLED", "ENABLED", "PENDING"))

    def change(self) -> None:
        """A new set is decided at once; what takes time is left to the lanes."""
        new = {name: self.entry(name) for name in NAMES if self.play.chance(0.7)}
        for name, member in self.held.servers.items():
            if name in new and self.play.chance(0.4):
                new[name] = member
        wanted = plan(self.held.servers, new)
        self.check(wanted, new)
        self.play.note(f"{wanted}")
        self.held.servers = new
        for bundle_id in (*wanted.stop, *wanted.start, *wanted.restart):
            self.group.start_soon(self.lanes.settle, bundle_id)

    def check(self, wanted: Any, new: dict[str, SetEntry]) -> None:
        old, lists = self.held.servers, msgspec.structs.astuple(wanted)
        named = [bundle_id for ids in lists for bundle_id in ids]
        self.play.claim(len(named) == len(set(named)), f"a server is planned twice: {wanted}")
        for bundle_id in (old.keys() | new.keys()) - set(named):
            before, after = old.get(bundle_id), new.get(bundle_id)
            runs = [member is not None and member.may_run for member in (before, after)]
            self.play.claim(runs[0] == runs[1], f"{bundle_id} changes, but nothing is planned for it")
        self.play.claim(plan(new, new).is_empty, "a set differs from itself")

    async def by_hand(self) -> None:
        name = self.play.pick(*NAMES)
        member = self.held.servers.get(name)
        act = self.play.pick(self.lanes.start, self.lanes.stop, self.lanes.restart)
        if member is None or (act != self.lanes.stop and not member.may_run):
            return
        self.play.note(f"by hand: {act.__name__} {name}")
        try:
            await act(name)
        except SmcpError as error:
            self.play.note(f"by hand failed: {error.code}")

    async def after(self, delay: float, deed: Any) -> None:
        await anyio.sleep(delay)
        if (work := deed()) is not None:
            await work

    def settled(self) -> None:
        for name in NAMES:
            member, server = self.held.servers.get(name), self.servers.get(name)
            shape = server.shape if server is not None else None
            wanted = self.lanes.is_wanted(name)
            self.play.claim(wanted == (shape is not None), f"{name} is {'' if wanted else 'not '}wanted, runs {shape}")
            if wanted:
                assert member is not None
                self.play.claim(shape == member.entry.launch_shape, f"{name} runs from what was, not from what is")


async def main(play: Play) -> None:
    """One schedule: changes of the set and orders by hand, then quiet, then the end."""
    async with anyio.create_task_group() as group:
        house = House(play, group)
        for _ in range(play.random.randint(1, STEPS)):
            group.start_soon(house.after, play.random.random() * CHANGES_END, house.change)
        for _ in range(play.random.randint(0, 4)):
            group.start_soon(house.after, play.random.random() * CHANGES_END, house.by_hand)
        await anyio.sleep(CHANGES_END + 200 * SLOW)
        if house.faulty:
            # What could not be done stays undone until something asks again; then it must be.
            for name in NAMES:
                await house.lanes.settle(name)
            await anyio.sleep(100 * SLOW)
        house.settled()
        house.halted = True
        house.places.close()
        await house.lanes.halt(0.1)
        play.claim(not house.servers, f"left after the halt: {sorted(house.servers)}")


reconcile = on_trio(main)
