"""Children that fail to start, crash, hang and are killed, and the supervisor that keeps them."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec

from smcp_runtime.actors.kernel import Actor, ChildSpec, RestartPolicy, Supervisor
from smcp_runtime.bus import Bus
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ConflictError, SmcpError

from .facts import Lives
from .play import Play, on_trio

CHILDREN = tuple(Address(name) for name in ("elk", "fox", "gnu"))
FAULTS_END = 40.0
START_TIMEOUT, STOP_TIMEOUT = 1.0, 0.5
MOMENT = 1e-6


class Fate(msgspec.Struct, frozen=True):
    """What one life is like. Times in seconds.

    Attributes:
        start: How long `started` takes; beyond the limit it is a failed start.
        fails: Whether `started` raises in the end.
        lives: Until a background task of it crashes; `inf` for a healthy life.
        hangs: Whether `stopping` does not return.
    """

    start: float = 0.0
    fails: bool = False
    lives: float = float("inf")
    hangs: bool = False


class Fragile(Actor):
    """Lives as its fate wants it."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate

    async def started(self) -> None:
        await anyio.sleep(self._fate.start)
        if self._fate.fails:
            raise OSError("no")
        self.tasks.start_soon(self._crash)

    async def stopping(self) -> None:
        if self._fate.hangs:
            await anyio.sleep_forever()

    async def _crash(self) -> None:
        await anyio.sleep(self._fate.lives)
        raise ZeroDivisionError


class Ward:
    """The children of one schedule, and the last word on how each may be restarted."""

    def __init__(self, play: Play, bus: Bus, supervisor: Supervisor) -> None:
        self.play, self.supervisor = play, supervisor
        self.lives = Lives(play, bus)
        self.policies = {
            address: RestartPolicy(
                Backoff(play.span(0.01, 0.5), play.span(0.5, 3.0)),
                max_restarts=play.random.randint(1, 5),
                within=play.span(1.0, 20.0),
                stable_after=play.span(0.5, 10.0),
                park_retry=play.pick(play.span(0.5, 8.0), 0.0),
            )
            for address in CHILDREN
        }
        self.kinds: dict[str, Any] = {
            address: play.pick("permanent", "permanent", "transient", "temporary") for address in CHILDREN
        }
        self.restarts: dict[str, list[float]] = {address: [] for address in CHILDREN}
        self.by_hand = set(CHILDREN)

    def spec(self, address: Address) -> ChildSpec:
        return ChildSpec(
            address,
            lambda: self.born(address),
            restart=self.kinds[address],
            policy=self.policies[address],
            start_timeout=START_TIMEOUT,
            stop_timeout=STOP_TIMEOUT,
        )

    def born(self, address: Address) -> Fragile:
        play, policy, now = self.play, self.policies[address], self.play.now()
        if self.lives.lasted.get(address, 0.0) >= policy.stable_after:
            self.restarts[address].clear()
        if address in self.by_hand:
            self.by_hand.discard(address)
        elif address in self.lives.parked:
            self.lives.parked.discard(address)  # the slow try of a parked child counts for nothing
        else:
            # A restart counts from the moment it is decided; how long it waits then is a matter of chance.
            self.restarts[address].append(self.lives.down_at[address])
        decided = self.lives.down_at.get(address, now)
        recent = [moment for moment in self.restarts[address] if moment > decided - policy.within + MOMENT]
        play.claim(len(recent) <= policy.max_restarts, f"{address} was restarted {len(recent)} times in a row")
        fate = Fate()
        if now < FAULTS_END:
            fate = Fate(
                start=play.pick(0.0, 0.0, play.span(0.01, 2 * START_TIMEOUT)),
                fails=play.chance(0.25),
                lives=play.pick(float("inf"), play.span(0.001, 10.0)),
                hangs=play.chance(0.2),
            )
        play.note(f"{address} is born: {fate}")
        return Fragile(fate)

    async def start(self, address: Address) -> None:
        self.forget(address)
        try:
            await self.supervisor.start_child(self.spec(address))
        except ConflictError:
            pass
        except SmcpError as error:
            self.play.note(f"{address} did not start: {error.code}")

    async def stop(self, address: Address) -> None:
        began = self.play.now()
        self.play.note(f"stop {address}")
        await self.supervisor.stop_child(address)
        bound = 2 * STOP_TIMEOUT + 1 + MOMENT
        self.play.claim(self.play.now() <= began + bound, f"{address} took {self.play.now() - began:g} s to stop")
        self.play.claim(address not in self.states(), f"{address} is there though it was stopped")

    async def kill(self, address: Address) -> None:
        self.play.note(f"kill {address}: {self.supervisor.kill_child(address)}")

    async def revive(self, address: Address) -> None:
        if self.supervisor.revive_child(address):
            self.forget(address)
            self.play.note(f"revive {address}")

    def forget(self, address: Address) -> None:
        """A person wants it started: what went before does not count any more."""
        self.restarts[address].clear()
        self.by_hand.add(address)

    async def after(self, delay: float, deed: Any, address: Address) -> None:
        await anyio.sleep(delay)
        await deed(address)

    def states(self) -> dict[Address, str]:
        return {status.address: status.state for status in self.supervisor.children()}


async def main(play: Play) -> None:
    """One schedule: faults for a while, then none, and everybody who may come back must."""
    async with Bus() as bus:
        async with Supervisor(bus) as supervisor:
            ward = Ward(play, bus, supervisor)
            async with anyio.create_task_group() as group:
                for address in CHILDREN:
                    group.start_soon(ward.start, address)
                for _ in range(play.random.randint(0, 12)):
                    deed = play.pick(ward.kill, ward.kill, ward.revive, ward.stop, ward.start)
                    group.start_soon(ward.after, play.random.random() * FAULTS_END, deed, play.pick(*CHILDREN))
            if play.now() < FAULTS_END:
                await anyio.sleep(FAULTS_END - play.now())
            await anyio.sleep(
                max(policy.backoff.longest * 1.2 + policy.park_retry for policy in ward.policies.values())
            )
            await anyio.sleep(2 * START_TIMEOUT + 10.0)
            for address, state in ward.states().items():
                for_good = state == "parked" and not ward.policies[address].park_retry
                play.claim(state == "up" or for_good, f"{address} is {state} long after the last fault")
                play.claim((state == "up") == (address in ward.lives.alive), f"{address} was not announced as it is")
        ward.lives.over()


supervision = on_trio(main)
