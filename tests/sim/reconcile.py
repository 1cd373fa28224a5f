"""Desired against actual: plans, lanes and start places, while the set changes faster than servers can follow.

Actors of servers die, hang and fail to start, reconcile dies, facts arrive late or not at all, and whoever asks for
something may stop waiting. All of it ends, and then every server is what it should be by itself.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from smcp_runtime.actors.kernel.actor import Tasks
from smcp_runtime.actors.kernel.pool import TaskPool
from smcp_runtime.actors.reconcile.commits.degradations import Degradations, degradation_of_error
from smcp_runtime.actors.reconcile.config.computer_config import parse_computer_config
from smcp_runtime.actors.reconcile.config.server_entry import ServerEntry
from smcp_runtime.actors.reconcile.held import Held
from smcp_runtime.actors.reconcile.running.following import Following
from smcp_runtime.actors.reconcile.running.keeper import address_of
from smcp_runtime.actors.reconcile.running.lanes import Lanes
from smcp_runtime.actors.reconcile.running.plan import plan
from smcp_runtime.actors.reconcile.running.start_gate import StartGate
from smcp_runtime.actors.reconcile.running.start_outcome import StartOutcomes
from smcp_runtime.actors.reconcile.running.start_places import StartPlaces
from smcp_runtime.actors.reconcile.server_set import SetEntry
from smcp_runtime.bus.context import Context
from smcp_runtime.wire.errors import ActorLost, BusError, DeadlineExceeded, SmcpError, StartupError, Undeliverable
from smcp_runtime.wire.messages.kernel import ActorDown, ActorUp
from smcp_runtime.wire.messages.mcp import (
    AnnounceAgain,
    RestartServer,
    ServerStatus,
    ServerStatusChanged,
    StandBy,
    StartServer,
    StopServer,
)

from .play import Play, on_trio

NAMES = ("ale", "bun", "cod", "dal")
LAZY = "dal"
CHANGES_END = 30.0
CAP, LAUNCHER_CAP = 2, 1
SLOW = 8.0
RESTART, LATE = 1.0, 0.2
"""Seconds until a next life at least, and until a fact is heard at most; deaths are heard of before a next life is."""
STEPS = 9


class FakeServer:
    """One life of the actor of a server, as far as reconcile can tell."""

    def __init__(self, house: House, bundle_id: str) -> None:
        self.house, self.bundle_id = house, bundle_id
        self.shape: Any = None
        self.wanted = self.stands_by = False
        self.asked: Any = None
        self.ending: anyio.CancelScope | None = None
        self.said = ServerStatus(bundle_id)

    def say(self, *axes: Any) -> None:
        self.said = ServerStatus(self.bundle_id, *axes)
        self.house.publish(ServerStatusChanged(self.said))

    async def take(self, message: Any) -> ServerStatus:
        if isinstance(message, StopServer):
            await self.house.pause()
            self.stop()
            self.say()
        elif isinstance(message, RestartServer):
            shape = await self.house.at_reconcile(lambda life: life.launch_plan(self))
            self.stop()
            self.wanted, self.shape = True, shape
            self.say("started", "connected", "ready")
        elif isinstance(message, StartServer) and not self.wanted:
            self.wanted = True
            self.say("started", "connecting", "queued")
            self.house.group.start_soon(self.start)
        elif isinstance(message, StandBy):
            self.stands_by = True
            if not self.wanted:
                self.say("started", "disconnected", "idle")
        elif isinstance(message, AnnounceAgain):
            self.house.publish(ServerStatusChanged(self.said))
        return self.said

    def stop(self) -> None:
        self.wanted, self.stands_by, self.shape = False, False, None
        if self.ending is not None:
            self.ending.cancel()

    async def start(self) -> None:
        """Renders, waits for a place, starts; a failure is tried again, as the supervision table would."""
        house, launcher = self.house, self.house.play.pick("", "npx")
        with anyio.CancelScope() as self.ending:
            while self.wanted and self.shape is None:
                try:
                    shape = await house.at_reconcile(lambda life: life.launch_plan(self))
                    await house.at_reconcile(lambda life: life.places.take(self.bundle_id, launcher))
                except SmcpError as error:
                    house.play.note(f"{self.bundle_id} cannot start: {error.code}")
                    if house.halted or not house.is_wanted(self.bundle_id):
                        self.wanted = False
                        return
                    await anyio.sleep(1.0)
                    continue
                try:
                    house.starting.add(self.bundle_id)
                    may_start = house.has_died or len(house.starting) <= CAP  # a new life counts places anew
                    house.play.claim(may_start, f"{len(house.starting)} servers start at once")
                    await house.pause()
                    self.shape = shape
                    self.say("started", "connected", "ready")
                finally:
                    house.starting.discard(self.bundle_id)
                    if house.life is not None:
                        house.life.places.give_back(self.bundle_id)


class Child:
    """What a supervisor keeps of it: life after life, the first of which may fail for good."""

    def __init__(self, house: House, bundle_id: str, *, insists: bool) -> None:
        self.house, self.bundle_id, self.insists = house, bundle_id, insists
        self.incarnation = 0
        self.server: FakeServer | None = None
        self.first, self.ended, self.killed = anyio.Event(), anyio.Event(), anyio.Event()
        self.failed = False
        self.scope = anyio.CancelScope()

    async def live(self) -> None:
        house, address = self.house, address_of(self.bundle_id)
        with self.scope:
            while True:
                self.incarnation += 1
                await house.pause()
                if house.fails():
                    self.failed = not self.first.is_set()
                    if self.failed and not self.insists:
                        break
                else:
                    self.server, self.killed = FakeServer(house, self.bundle_id), anyio.Event()
                    house.publish(ActorUp(address, self.incarnation))
                    self.first.set()
                    await self.killed.wait()
                    late = self.server.asked
                    self.leave()
                    if late is not None and house.life is not None and house.play.chance(0.5):
                        house.life.tasks.start_soon(house.life.hand_out_late, self.bundle_id, *late)
                house.publish(ActorDown(address, self.incarnation, "killed", RESTART))
                self.first.set()
                await anyio.sleep(RESTART)
        self.leave()
        del house.children_of[self.bundle_id]
        if self.insists or not self.failed:
            house.publish(ActorDown(address, self.incarnation, "stopped"))
        self.first.set()
        self.ended.set()

    def leave(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.stop()

    async def end(self) -> None:
        await self.house.pause()
        self.scope.cancel()


class Committer:
    """Stands for the commits, which have a world of their own to be wrong in."""

    def mark(self) -> None: ...

    def forget(self, _: str) -> None: ...


class Reconcile(Following):
    """One life of it: what follows facts is the real thing, and so are the lanes."""

    def __init__(self, house: House, group: TaskGroup) -> None:
        self.house, self.group, self._held = house, group, house.held
        self.asks: list[anyio.CancelScope] = []
        self.tasks = Tasks(group, TaskPool(group, Context()), Context())
        self.places = self._places = StartPlaces(StartGate(CAP, LAUNCHER_CAP, budget=3600.0), anyio.current_time)
        self._committer: Any = Committer()
        self._degradations = Degradations(lambda: None)
        self._wall_clock = anyio.current_time
        self._lanes = Lanes(
            house.held,
            house,
            house.order,
            self.tasks.see_through,
            drain=0.5,
            placement_of=house.placements.__getitem__,
            may_rest=lambda bundle_id: bundle_id == LAZY,
            tell=lambda status: house.publish(ServerStatusChanged(status)),
            could_not=self.could_not,
            ended=self.ended,
        )
        self._outcomes = StartOutcomes(self._lanes.look, house.held.facts.status)
        self.facts: deque[Any] = deque()
        self.heard = anyio.Event()

    def idle_stop_of(self, bundle_id: str) -> float | None:
        return None

    async def run(self) -> None:
        """As the actor starts: settles all, asks those it finds, and hears facts in their order, if late."""
        kept = tuple(self.house.children())
        for bundle_id in sorted({*self._held.servers, *kept}):
            self.group.start_soon(self._lanes.settle, bundle_id)
        for bundle_id in kept:
            self.group.start_soon(self.ask_again, bundle_id)
        while True:
            while not self.facts:
                self.heard = anyio.Event()
                await self.heard.wait()
            fact = self.facts.popleft()
            await anyio.sleep(self.house.play.pick(0.0, 0.0, self.house.play.span(0.001, LATE)))
            match fact:
                case ActorUp():
                    self.on_up(fact)
                case ActorDown():
                    self.on_down(fact)
                case ServerStatusChanged():
                    self.on_status(fact)

    def die(self) -> None:
        self.group.cancel_scope.cancel()
        for scope in tuple(self.asks):
            scope.cancel()

    def could_not(self, bundle_id: str, error: SmcpError) -> None:
        self.house.play.note(f"{bundle_id} could not: {error.code}")
        self._degradations.open(degradation_of_error(bundle_id, error, self._wall_clock()))
        if not isinstance(error, BusError):
            self.house.left_to_people.add(bundle_id)

    def ended(self, bundle_id: str) -> None:
        self.house.play.note(f"{bundle_id} has ended")
        self._places.give_back(bundle_id)
        self._held.facts.ended(bundle_id)

    async def launch_plan(self, server: FakeServer) -> Any:
        house, bundle_id = self.house, server.bundle_id
        member = self._held.servers.get(bundle_id)
        if member is None or not member.may_run:
            raise StartupError("not wanted")
        shape, life = member.entry.launch_shape, self._lanes.life_of(bundle_id)
        server.asked = shape, life
        await house.pause()
        if house.fails():
            raise StartupError("cannot be rendered")
        if not self._lanes.handed_out(bundle_id, shape, life):
            self.tasks.start_soon(self._lanes.settle, bundle_id)
        return shape

    async def hand_out_late(self, bundle_id: str, shape: Any, life: int) -> None:
        """A plan that a dead life had asked for is ready only now."""
        await self.house.pause()
        if not self._lanes.handed_out(bundle_id, shape, life):
            await self._lanes.settle(bundle_id)

    async def change(self, new: dict[str, SetEntry]) -> None:
        await self.tasks.see_through(self.carry_out, new)

    async def carry_out(self, new: dict[str, SetEntry]) -> None:
        wanted = plan(self._held.servers, new)
        self.house.check(wanted, new)
        self.house.play.note(f"{wanted}")
        self._held.servers = new
        for bundle_id in wanted.stop:
            self._degradations.close("server", bundle_id)
        await anyio.sleep(self.house.play.pick(0.0, self.house.play.span(0.001, 1.0)))
        for bundle_id in (*wanted.stop, *wanted.start, *wanted.restart):
            self.tasks.start_soon(self._lanes.settle, bundle_id)


class House:
    """What outlives reconcile: the keeper, the bus, and what is wanted."""

    def __init__(self, play: Play, group: TaskGroup) -> None:
        self.play, self.group = play, group
        self.held = Held(parse_computer_config({"name": "sim"}).config)
        self.children_of: dict[str, Child] = {}
        self.placements: dict[str, Any] = {name: play.pick("inline", "process") for name in NAMES}
        self.life: Reconcile | None = None
        self.orders: Counter[str] = Counter()
        self.left_to_people: set[str] = set()
        self.starting: set[str] = set()
        self.faulty = play.chance(0.5)
        self.has_died = self.halted = False

    async def pause(self) -> None:
        await anyio.sleep(self.play.pick(0.0, self.play.span(0.001, SLOW)))

    def fails(self, probability: float = 0.15) -> bool:
        return self.faulty and self.play.now() < CHANGES_END and self.play.chance(probability)

    def is_wanted(self, bundle_id: str) -> bool:
        member = self.held.servers.get(bundle_id)
        return member is not None and member.may_run and bundle_id not in self.held.stopped

    # -- reconcile ------------------------------------------------------------------------

    async def reconcile(self) -> None:
        while not self.halted:
            try:
                async with anyio.create_task_group() as group:
                    self.life = Reconcile(self, group)
                    await self.life.run()
            finally:
                self.life = None
            self.play.note("reconcile is down")
            await self.pause()

    def crash(self) -> None:
        if self.life is not None:
            life, self.life = self.life, None
            self.has_died = True
            life.die()

    async def at_reconcile(self, handler: Callable[[Reconcile], Coroutine[Any, Any, Any]]) -> Any:
        """Asks it something; the handler ends with its asker, or with the actor."""
        life = self.life
        if life is not None:
            with anyio.CancelScope() as scope:
                life.asks.append(scope)
                try:
                    return await handler(life)
                finally:
                    life.asks.remove(scope)
        raise ActorLost("reconcile is down")

    def publish(self, fact: ActorUp | ActorDown | ServerStatusChanged) -> None:
        self.play.note(f"{fact}")
        if self.life is not None:
            self.life.facts.append(fact)
            self.life.heard.set()

    # -- keeper and bus -----------------------------------------------------------------

    async def start_child(self, bundle_id: str, placement: Any) -> None:
        self.play.claim(bundle_id not in self.children_of, f"{bundle_id} has an actor already")
        child = self.children_of[bundle_id] = Child(self, bundle_id, insists=placement == "process")
        self.group.start_soon(child.live)
        try:
            await child.first.wait()
        except BaseException:
            if not child.insists:
                child.scope.cancel()
                with anyio.CancelScope(shield=True):
                    await child.ended.wait()
            raise
        if child.failed:
            raise StartupError("no") if not child.insists else Undeliverable("no")

    async def stop_child(self, bundle_id: str) -> None:
        child = self.children_of.get(bundle_id)
        if child is not None:
            self.group.start_soon(child.end)
            await child.ended.wait()

    async def wake_child(self, bundle_id: str) -> None:
        pass

    def children(self) -> Iterable[str]:
        return tuple(self.children_of)

    async def order(self, target: Any, message: Any, *, timeout: float | None = None) -> Any:
        bundle_id = str(target).removeprefix("mcp/")
        is_of_a_lane = isinstance(message, StartServer | StopServer | RestartServer | StandBy)
        self.orders[bundle_id] += is_of_a_lane
        self.play.claim(self.orders[bundle_id] <= 1, f"two orders at once for {bundle_id}")
        try:
            self.play.note(f"{type(message).__name__} {bundle_id}")
            return await self.delivered(bundle_id, message, timeout)
        finally:
            self.orders[bundle_id] -= is_of_a_lane

    async def delivered(self, bundle_id: str, message: Any, timeout: float | None) -> Any:
        child = self.children_of.get(bundle_id)
        if child is None or (child.server is None and child.incarnation == 1):
            raise Undeliverable("nobody is there", details={"executed": "no"})
        if child.server is None:
            raise ActorLost("down", details={"executed": "no", "down": "restarting"})
        if isinstance(message, StartServer | StandBy) and self.fails(0.05):
            assert timeout is not None
            await anyio.sleep(timeout)
            raise DeadlineExceeded("it hangs")
        if self.fails():
            child.killed.set()
            raise ActorLost("killed", details={"executed": "unknown"})
        return await child.server.take(message)

    # -- what people do -------------------------------------------------------------------

    async def asked(self, what: str, handler: Callable[[Reconcile], Coroutine[Any, Any, Any]], *about: str) -> None:
        """Asks, with or without patience; who hears of a failure will ask again."""
        self.play.note(f"asked: {what} {about}")
        patience = self.play.pick(None, self.play.span(0.001, SLOW))
        try:
            with anyio.move_on_after(patience):
                await self.at_reconcile(handler)
        except SmcpError as error:
            self.play.note(f"{what} {about} failed: {error.code}")
            self.left_to_people.update(about)

    def entry(self, name: str) -> SetEntry:
        entry = ServerEntry(
            bundle_id=name,
            name=self.play.pick(name, name.upper()),
            type="stdio",
            parameters={"command": self.play.pick("a", "b")},
            disabled=self.play.chance(0.2),
        )
        return SetEntry(entry, "embed", "sim", verdict=self.play.pick("ENABLED", "ENABLED", "ENABLED", "PENDING"))

    async def change(self) -> None:
        """A new set is decided at once; what takes time is left to the lanes."""
        new = {name: self.entry(name) for name in NAMES if self.play.chance(0.7)}
        for name, member in self.held.servers.items():
            if name in new and self.play.chance(0.4):
                new[name] = member
        await self.asked("change", lambda life: life.change(new))

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
        name, act = self.play.pick(*NAMES), self.play.pick("start", "stop", "restart")
        member = self.held.servers.get(name)
        if member is not None and (act == "stop" or member.may_run):
            await self.asked(act, lambda life: getattr(life._lanes, act)(name), name)

    async def call(self) -> None:
        await self.asked("seat", lambda life: life._lanes.seat(LAZY))

    async def kill(self) -> None:
        child = self.children_of.get(self.play.pick(*NAMES))
        if child is not None:
            self.play.note(f"kill {child.bundle_id}")
            child.killed.set()

    async def kill_reconcile(self) -> None:
        self.play.note("kill reconcile")
        self.crash()

    async def after(self, delay: float, deed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await anyio.sleep(delay)
        await deed()

    # -- the end --------------------------------------------------------------------------

    def settled(self, life: Reconcile) -> None:
        degraded = {found.identity for found in life._degradations.snapshot()} - self.left_to_people
        self.play.claim(not degraded, f"still said to be degraded: {degraded}")
        for name in NAMES:
            child, wanted = self.children_of.get(name), self.is_wanted(name)
            server = child.server if child is not None else None
            shape = server.shape if server is not None else None
            if name == LAZY and wanted and shape is None:
                may_wait = child is None or (server is not None and server.stands_by)
                self.play.claim(may_wait, f"{name} waits for a call it would not hear")
                continue
            self.play.claim(wanted == (shape is not None), f"{name} is {'' if wanted else 'not '}wanted, runs {shape}")
            if wanted:
                status = self.held.facts.status(name)
                self.play.claim(status is not None and status.connection == "connected", f"{name} is shown as {status}")
                entry = self.held.servers[name].entry
                self.play.claim(shape == entry.launch_shape, f"{name} runs from what was, not from what is")

    def remembered(self, lanes: Lanes) -> None:
        gone = {*lanes._locks, *lanes._lives} - {name for name, one in self.held.servers.items() if one.may_run}
        self.play.claim(not gone, f"still remembered: {gone}")


async def main(play: Play) -> None:
    """One schedule: changes of the set, orders by hand and deaths, then quiet, then the end."""
    async with anyio.create_task_group() as group:
        house = House(play, group)
        group.start_soon(house.reconcile)
        deeds = [house.change] * play.random.randint(1, STEPS)
        deeds += [play.pick(house.by_hand, house.call) for _ in range(play.random.randint(0, 4))]
        if house.faulty:
            deeds += [play.pick(house.kill, house.kill_reconcile) for _ in range(play.random.randint(0, 4))]
        for deed in deeds:
            group.start_soon(house.after, play.random.random() * CHANGES_END, deed)
        await anyio.sleep(CHANGES_END + 200 * SLOW)
        life = house.life
        assert life is not None
        # A start or a rendering that failed, and was told to people, waits until they ask again; then it must be.
        for name in sorted(house.left_to_people):
            await life._lanes.settle(name)
        await anyio.sleep(100 * SLOW)
        house.settled(life)
        if house.is_wanted(LAZY):
            await life._lanes.seat(LAZY)
            play.claim(LAZY in house.children_of, f"nobody hears a call of {LAZY}")
            house.settled(life)
        house.remembered(life._lanes)
        house.halted = True
        life.places.close()
        await life._lanes.halt(0.1)
        play.claim(not house.children_of, f"left after the halt: {sorted(house.children_of)}")
        house.crash()


reconcile = on_trio(main)
