"""What an actor sees through: work that others rely on does not end with the patience of one asker."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, Supervisor, handler
from smcp_runtime.bus import Bus
from smcp_runtime.bus.context import Context, current
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ActorLost, DeadlineExceeded, PolicyError
from smcp_runtime.wire.message import Ask

pytestmark = pytest.mark.anyio

A = Address("a")


class KernelErrand(Ask[str]):
    refused: bool = False


class Errands(Actor):
    """Runs errands, each as long as the gate is closed."""

    def __init__(self) -> None:
        self.begun, self.gate, self.done = anyio.Event(), anyio.Event(), anyio.Event()
        self.context = Context()

    @handler(concurrent=4)
    async def errand(self, message: KernelErrand) -> str:
        return await self.tasks.see_through(self.run, message.refused)

    async def run(self, refused: bool) -> str:
        self.context = current.get()
        self.begun.set()
        await self.gate.wait()
        self.done.set()
        if refused:
            raise PolicyError("no", code="no")
        return "done"


@pytest.fixture
async def errands(supervisor: Supervisor) -> Errands:
    errands = Errands()
    await supervisor.start_child(ChildSpec(A, lambda: errands, restart="temporary"))
    return errands


async def test_it_gives_its_result_and_its_error_to_whoever_waits(bus: Bus, errands: Errands) -> None:
    errands.gate.set()
    assert await bus.ask(A, KernelErrand()) == "done"
    with pytest.raises(PolicyError):
        await bus.ask(A, KernelErrand(refused=True))


@pytest.mark.parametrize("refused", [True, False])
async def test_it_goes_on_when_its_asker_runs_out_of_patience(bus: Bus, errands: Errands, refused: bool) -> None:
    with pytest.raises(DeadlineExceeded):
        await bus.ask(A, KernelErrand(refused), timeout=0.01)
    errands.gate.set()
    with anyio.fail_after(5):
        await errands.done.wait()
    assert await bus.ask(A, KernelErrand()) == "done"


async def test_it_has_the_trace_of_its_asker_but_not_the_deadline(bus: Bus, errands: Errands) -> None:
    errands.gate.set()
    token = current.set(Context(trace="00-" + "1" * 32 + "-" + "2" * 16 + "-01"))
    await bus.ask(A, KernelErrand(), timeout=5)
    current.reset(token)
    assert (errands.context.address, errands.context.deadline) == (A, float("inf"))
    assert "1" * 32 in errands.context.trace


async def test_it_ends_with_its_actor(bus: Bus, supervisor: Supervisor, errands: Errands) -> None:
    async def ask() -> None:
        with pytest.raises(ActorLost):
            await bus.ask(A, KernelErrand())

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await errands.begun.wait()
            supervisor.kill_child(A)
    errands.gate.set()
    await anyio.wait_all_tasks_blocked()
    assert not errands.done.is_set()


class SelfDestruction(Errands):
    """Its first life is killed by the errand it sees through."""

    lives = 0

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        SelfDestruction.lives += 1
        self._supervisor, self._is_first = supervisor, SelfDestruction.lives == 1

    async def run(self, refused: bool) -> str:
        if self._is_first:
            self._supervisor.kill_child(A)
            await anyio.lowlevel.cancel_shielded_checkpoint()  # its end takes a moment longer than that of the asker
            await anyio.sleep_forever()
        return "done"


@pytest.mark.spec("DEC-1")
async def test_whoever_asks_again_the_moment_a_life_ends_does_not_keep_it_from_ending(
    bus: Bus, supervisor: Supervisor
) -> None:
    SelfDestruction.lives = 0
    await supervisor.start_child(ChildSpec(A, lambda: SelfDestruction(supervisor)))
    with anyio.fail_after(5):
        while True:
            try:
                assert await bus.ask(A, KernelErrand()) == "done"
                break
            except ActorLost:
                continue
    assert SelfDestruction.lives == 2
