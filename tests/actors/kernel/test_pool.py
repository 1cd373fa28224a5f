"""The task pool: work runs as in a task of its own, in a task that may have served before."""

from __future__ import annotations

from contextvars import ContextVar

import anyio
import pytest

from smcp_runtime.actors.kernel.pool import TaskPool
from smcp_runtime.bus.context import Context, current
from smcp_runtime.wire.envelope import Address

pytestmark = pytest.mark.anyio

CONTEXT = Context(address=Address("owner"))

mark: ContextVar[object] = ContextVar("mark")
"""What a task finds again when it serves again: a context variable lives as long as its task."""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def tasks_of(pool: TaskPool, times: int) -> list[object]:
    """The tasks that did a piece of work each, one after another."""
    seen: list[object] = []
    for _ in range(times):
        done = anyio.Event()

        async def work(done: anyio.Event) -> None:
            mark.set(mark.get(object()))
            seen.append(mark.get())
            done.set()

        pool.run_soon(work, done)
        await done.wait()
        await anyio.wait_all_tasks_blocked()
    return seen


async def test_a_task_that_has_finished_serves_again() -> None:
    async with anyio.create_task_group() as group:
        assert len(set(await tasks_of(TaskPool(group, CONTEXT), 5))) == 1
        group.cancel_scope.cancel()


async def test_a_pool_that_parks_nobody_starts_a_task_for_each_piece_of_work() -> None:
    async with anyio.create_task_group() as group:
        assert len(set(await tasks_of(TaskPool(group, CONTEXT, parked=0), 5))) == 5


async def test_pieces_of_work_run_at_the_same_time_and_no_more_tasks_than_allowed_wait_afterwards() -> None:
    together, met = 5, anyio.Event()
    present = 0

    async def work() -> None:
        nonlocal present
        present += 1
        if present == together:
            met.set()
        await met.wait()

    async with anyio.create_task_group() as group:
        pool = TaskPool(group, CONTEXT, parked=2)
        before = len(anyio.get_running_tasks())
        for _ in range(together):
            pool.run_soon(work)
        with anyio.fail_after(5):
            await met.wait()
        await anyio.wait_all_tasks_blocked()
        assert len(anyio.get_running_tasks()) - before == 2
        group.cancel_scope.cancel()


async def test_work_sees_the_context_of_its_owner_and_not_that_of_who_gave_it() -> None:
    seen: list[Context] = []

    async def work() -> None:
        seen.append(current.get())

    async with anyio.create_task_group() as group:
        pool = TaskPool(group, CONTEXT)
        for sender in ("first", "second"):
            token = current.set(Context(address=Address(sender)))
            pool.run_soon(work)
            current.reset(token)
            await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert seen == [CONTEXT, CONTEXT]


async def test_work_given_in_the_moment_the_pool_ends_begins_and_is_cancelled_where_it_waits() -> None:
    steps: list[str] = []

    async def idle() -> None:
        """Ends at once, and leaves its task parked."""

    async def work() -> None:
        steps.append("began")
        try:
            await anyio.sleep_forever()
        finally:
            steps.append("ended")

    async with anyio.create_task_group() as group:
        pool = TaskPool(group, CONTEXT)
        pool.run_soon(idle)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        pool.run_soon(work)
    assert steps == ["began", "ended"]


async def test_an_exception_of_a_piece_of_work_is_that_of_the_task_group() -> None:
    async def work() -> None:
        raise RuntimeError("broken")

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: PT012 - the group raises where it ends
        async with anyio.create_task_group() as group:
            TaskPool(group, CONTEXT).run_soon(work)
            await anyio.sleep(5)
    assert caught.group_contains(RuntimeError, match="broken")
