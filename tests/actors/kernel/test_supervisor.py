"""Restart law and supervision: each child by its own history, parked instead of escalating."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, RestartPolicy, Supervisor
from smcp_runtime.actors.kernel.restart import History, Park, Restart
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ActorLost, ConflictError, StartupError, Undeliverable
from smcp_runtime.wire.messages.kernel import ActorDown, ActorParked, ActorUp

from .conftest import Nursery
from .sample import KernelEcho, KernelTrip

POLICY = RestartPolicy(backoff=Backoff(1.0, 30.0, 2.0), max_restarts=5, within=60.0, stable_after=60.0, park_retry=300)


def middle(low: float, high: float) -> float:
    return (low + high) / 2


class TestHistory:
    @pytest.mark.spec("DEC-1", "R-MCP-21")
    def test_delays_double_from_one_second_up_to_the_longest(self) -> None:
        history = History(RestartPolicy(backoff=Backoff(1.0, 6.0, 2.0), max_restarts=9), uniform=middle)
        decisions = [history.failed(started_at=t, now=t + 1) for t in range(5)]
        assert decisions == [Restart(1.0), Restart(2.0), Restart(4.0), Restart(6.0), Restart(6.0)]

    @pytest.mark.spec("DEC-1")
    def test_jitter_is_uniform_within_a_fifth(self) -> None:
        bounds: list[tuple[float, float]] = []

        def record(low: float, high: float) -> float:
            bounds.append((low, high))
            return high

        assert History(POLICY, uniform=record).failed(started_at=0, now=1) == Restart(1.2)
        assert bounds == [(0.8, 1.2)]

    @pytest.mark.spec("DEC-1", "DEC-35")
    def test_one_restart_more_than_the_intensity_parks(self) -> None:
        history = History(POLICY, uniform=middle)
        decisions = [history.failed(started_at=t, now=t + 0.5) for t in range(6)]
        assert all(isinstance(decision, Restart) for decision in decisions[:5])
        assert decisions[5] == Park(300)

    @pytest.mark.spec("DEC-1")
    def test_the_window_slides(self) -> None:
        history = History(POLICY, uniform=middle)
        for t in (0, 20, 40, 41, 42):
            history.failed(started_at=t, now=t)
        assert isinstance(history.failed(started_at=59, now=60.0), Restart)

    @pytest.mark.spec("DEC-1")
    def test_only_a_long_uptime_forgets_earlier_failures(self) -> None:
        history = History(POLICY, uniform=middle)
        history.failed(started_at=0, now=1)
        assert history.failed(started_at=2, now=61.9) == Restart(2.0)
        assert history.failed(started_at=62, now=122) == Restart(1.0)

    def test_never_trying_again_is_a_park_without_a_time(self) -> None:
        history = History(RestartPolicy(max_restarts=0, park_retry=0))
        assert history.failed(started_at=0, now=1) == Park(None)


@pytest.mark.anyio
class TestSupervisor:
    @pytest.mark.spec("F-104", "DEC-35")
    async def test_each_child_has_its_own_budget(self, bus: Bus, nursery: Nursery) -> None:
        for name in "abcde":
            await nursery.start(name)
        with anyio.fail_after(10), Observer(bus, ActorUp) as ups, Observer(bus, ActorParked) as parked:
            for name in "abcde":
                await bus.tell(Address(name), KernelTrip())
                await anext(ups)
            for _ in range(2):
                await bus.tell(Address("a"), KernelTrip())
                await anext(ups)
            await bus.tell(Address("a"), KernelTrip())
            fact = await anext(parked)
        assert fact == ActorParked("a", "RuntimeError", None)
        states = {child.address: child.state for child in nursery.supervisor.children()}
        assert states == {"a": "parked", "b": "up", "c": "up", "d": "up", "e": "up"}
        with pytest.raises(ActorLost, match="parked"):
            await bus.ask(Address("a"), KernelEcho("?"))

    async def test_a_manual_start_resets_a_parked_child(self, bus: Bus, nursery: Nursery) -> None:
        await nursery.start(policy=RestartPolicy(max_restarts=0, park_retry=0))
        with anyio.fail_after(5), Observer(bus, ActorParked, ActorUp) as facts:
            nursery.supervisor.kill_child(Address("a"))
            assert isinstance(await anext(facts), ActorParked)
            assert nursery.supervisor.revive_child(Address("a"))
            assert await anext(facts) == ActorUp("a", 2)
        assert nursery.supervisor.children()[0].restarts_in_window == 0

    async def test_a_manual_start_can_be_waited_for(self, bus: Bus, nursery: Nursery) -> None:
        await nursery.start(policy=RestartPolicy(max_restarts=0, park_retry=0))
        with anyio.fail_after(5), Observer(bus, ActorParked) as parked:
            nursery.supervisor.kill_child(Address("a"))
            await anext(parked)
            assert await nursery.supervisor.start_again(Address("a"))
            assert nursery.supervisor.children()[0].state == "up"
            assert not await nursery.supervisor.start_again(Address("a"))
            assert not await nursery.supervisor.start_again(Address("nobody"))

    async def test_all_who_wait_for_a_manual_start_hear_of_it(self, bus: Bus, nursery: Nursery) -> None:
        await nursery.start(policy=RestartPolicy(backoff=Backoff(60.0, 60.0)))
        with anyio.fail_after(5), Observer(bus, ActorDown) as downs:
            nursery.supervisor.kill_child(Address("a"))
            await anext(downs)
            async with anyio.create_task_group() as tasks:
                for _ in range(2):
                    tasks.start_soon(nursery.supervisor.start_again, Address("a"))
        assert nursery.supervisor.children()[0].state == "up"

    async def test_a_parked_child_is_tried_again_slowly(self, bus: Bus, nursery: Nursery) -> None:
        await nursery.start(policy=RestartPolicy(max_restarts=0, park_retry=0.01))
        with anyio.fail_after(5), Observer(bus, ActorParked, ActorUp) as facts:
            nursery.supervisor.kill_child(Address("a"))
            assert await anext(facts) == ActorParked("a", "killed", 0.01)
            assert await anext(facts) == ActorUp("a", 2)

    @pytest.mark.spec("DEC-35")
    async def test_a_start_that_takes_long_to_fail_is_no_stable_life(self, bus: Bus, supervisor: Supervisor) -> None:
        lives: list[Actor] = []

        class Slow(Actor):
            async def started(self) -> None:
                lives.append(self)
                if len(lives) > 1:
                    await anyio.sleep_forever()

        policy = RestartPolicy(Backoff(0.001, 0.002), max_restarts=2, stable_after=0.02, park_retry=0)
        parked = Observer(bus, ActorParked)
        await supervisor.start_child(ChildSpec(Address("slow"), Slow, policy=policy, start_timeout=0.05))
        supervisor.kill_child(Address("slow"))
        with anyio.fail_after(5):
            assert (await anext(parked)).reason == "TimeoutError"  # type: ignore[attr-defined]
        assert len(lives) == 3

    @pytest.mark.parametrize(("restart", "lives"), [("permanent", 2), ("transient", 2), ("temporary", 1)])
    async def test_a_crash_restarts_permanent_and_transient_children(
        self, bus: Bus, nursery: Nursery, restart: str, lives: int
    ) -> None:
        await nursery.start(restart=restart)
        with anyio.fail_after(5), Observer(bus, ActorDown, ActorUp) as facts:
            nursery.supervisor.kill_child(Address("a"))
            assert isinstance(await anext(facts), ActorDown)
            if lives == 2:
                assert isinstance(await anext(facts), ActorUp)
        assert len(nursery.lives["a"]) == lives
        assert len(nursery.supervisor.children()) == lives - 1

    async def test_a_stopped_child_is_gone_for_good(self, bus: Bus, nursery: Nursery) -> None:
        await nursery.start()
        with Observer(bus, ActorDown) as facts, anyio.fail_after(5):
            await nursery.supervisor.stop_child(Address("a"))
            assert await anext(facts) == ActorDown("a", 1, "stopped", None)
        with pytest.raises(Undeliverable):
            await bus.ask(Address("a"), KernelEcho("?"))

    async def test_stopping_wins_over_a_restart_that_waits(self, bus: Bus, nursery: Nursery) -> None:
        await nursery.start(policy=RestartPolicy(backoff=Backoff(60.0, 60.0)))
        with anyio.fail_after(5), Observer(bus, ActorDown) as facts:
            nursery.supervisor.kill_child(Address("a"))
            await anext(facts)
            await nursery.supervisor.stop_child(Address("a"))
        assert nursery.supervisor.children() == ()

    async def test_an_address_has_one_child(self, nursery: Nursery) -> None:
        await nursery.start()
        with pytest.raises(ConflictError):
            await nursery.start()

    @pytest.mark.parametrize("insists", [True, False])
    async def test_whoever_stops_waiting_for_a_first_start_ends_it_unless_it_insists(
        self, bus: Bus, supervisor: Supervisor, insists: bool
    ) -> None:
        begun, let = anyio.Event(), anyio.Event()

        class Slow(Actor):
            async def started(self) -> None:
                begun.set()
                await let.wait()

        with anyio.fail_after(5), Observer(bus, ActorUp) as ups:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(supervisor.start_child, ChildSpec(Address("a"), Slow, insists=insists))
                await begun.wait()
                tasks.cancel_scope.cancel()
            assert supervisor.addresses() == (("a",) if insists else ())
            let.set()
            if not insists:
                await supervisor.start_child(ChildSpec(Address("a"), Slow))
            assert await anext(ups) == ActorUp("a", 1)

    async def test_a_stop_nobody_waits_for_any_more_is_bounded_all_the_same(
        self, bus: Bus, supervisor: Supervisor
    ) -> None:
        class Deaf:
            """A life elsewhere that no order to stop reaches."""

            queued = high_water = busy = capacity = 0

            async def run(self, *, start_timeout: float, on_up: Callable[[], None]) -> None:
                on_up()
                await anyio.sleep_forever()

            def stop(self, within: float) -> None:
                pass

        with anyio.fail_after(5), Observer(bus, ActorDown) as downs:
            await supervisor.start_child(ChildSpec(Address("a"), Deaf, stop_timeout=0.01))
            with anyio.move_on_after(0.01):
                await supervisor.stop_child(Address("a"))
            assert await anext(downs) == ActorDown("a", 1, "stopped", None)
        assert supervisor.addresses() == ()

    async def test_a_stop_that_hangs_is_bounded(self, bus: Bus, supervisor: Supervisor) -> None:
        class Clinging(Actor):
            async def stopping(self) -> None:
                await anyio.sleep_forever()

        await supervisor.start_child(ChildSpec(Address("a"), Clinging, stop_timeout=0.01))
        with anyio.fail_after(5):
            await supervisor.stop_child(Address("a"))
        assert supervisor.children() == ()

    async def test_a_background_task_that_fails_brings_its_actor_down(self, bus: Bus, supervisor: Supervisor) -> None:
        lives: list[Actor] = []

        class Fragile(Actor):
            async def started(self) -> None:
                lives.append(self)
                if len(lives) == 1:
                    self.tasks.start_soon(self.fall)

            async def fall(self) -> None:
                raise LookupError

        with anyio.fail_after(5), Observer(bus, ActorDown, ActorUp) as facts:
            await supervisor.start_child(
                ChildSpec(Address("a"), Fragile, policy=RestartPolicy(backoff=Backoff(0.001, 0.01)))
            )
            seen = [await anext(facts) for _ in range(3)]
        assert ActorDown("a", 1, "LookupError", pytest.approx(0.001, rel=0.21)) in seen  # type: ignore[comparison-overlap]
        assert len(lives) == 2

    @pytest.mark.spec("F-100")
    async def test_a_child_that_fails_early_ends_its_start_at_once_with_the_cause(self, supervisor: Supervisor) -> None:
        class Stillborn(Actor):
            async def started(self) -> None:
                raise ImportError("no such module")

        with anyio.fail_after(2), pytest.raises(StartupError) as caught:
            await supervisor.start_child(ChildSpec(Address("a"), Stillborn, start_timeout=60.0))
        assert caught.value.causes == ("ImportError",)
        assert supervisor.children() == ()

    @pytest.mark.spec("F-100")
    async def test_a_child_that_is_killed_while_it_stops_ends_the_stop_in_time(
        self, bus: Bus, supervisor: Supervisor
    ) -> None:
        class Lingering(Actor):
            async def stopping(self) -> None:
                said_goodbye.set()
                await anyio.sleep_forever()

        said_goodbye = anyio.Event()
        await supervisor.start_child(ChildSpec(Address("a"), Lingering, stop_timeout=60.0))
        with anyio.fail_after(2), Observer(bus, ActorDown) as facts:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(supervisor.stop_child, Address("a"))
                await said_goodbye.wait()
                assert supervisor.kill_child(Address("a"))
            assert await anext(facts) == ActorDown("a", 1, "killed", None)
        assert supervisor.children() == ()
