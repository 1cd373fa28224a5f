"""What an actor may rely on: order, concurrency, failures, cancellation, the end of every ask."""

from __future__ import annotations

import logging

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, RestartPolicy, handler, handler_table
from smcp_runtime.bus import Bus, Observer
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import (
    ActorLost,
    AskCycle,
    DeadlineExceeded,
    HandlerFailed,
    Overloaded,
    PolicyError,
    SmcpError,
    StartupError,
    Undeliverable,
)
from smcp_runtime.wire.messages.kernel import ActorDown, ActorUp
from support.waiting import until

from .conftest import Nursery
from .sample import (
    KernelCrash,
    KernelEcho,
    KernelHold,
    KernelHoldBeside,
    KernelNews,
    KernelRefuse,
    KernelShout,
    KernelTrip,
    KernelUrgent,
    KernelVisit,
    Sample,
)

pytestmark = pytest.mark.anyio

A = Address("a")


async def failure_of(bus: Bus, *asks: object, into: list[SmcpError]) -> None:
    for ask in asks:
        try:
            await bus.ask(A, ask, timeout=5)  # type: ignore[arg-type]
        except SmcpError as error:
            into.append(error)


async def test_an_ask_gets_its_typed_reply(bus: Bus, nursery: Nursery) -> None:
    await nursery.start()
    assert await bus.ask(A, KernelEcho("hello")) == "hello"


async def test_a_declared_error_comes_back_as_its_own_class_with_all_its_facts(bus: Bus, nursery: Nursery) -> None:
    await nursery.start()
    with pytest.raises(PolicyError) as caught:
        await bus.ask(A, KernelRefuse())
    error = caught.value
    assert (error.code, error.field, error.bundle_id, error.details) == ("closed_on_sundays", "day", "b", {"n": 1})


async def test_an_unexpected_exception_answers_without_its_text_and_the_actor_lives_on(
    bus: Bus, nursery: Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    await nursery.start()
    with caplog.at_level(logging.DEBUG), pytest.raises(HandlerFailed) as caught:
        await bus.ask(A, KernelCrash("hunter2"))
    assert "RuntimeError" in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(caught.value.causes) + caplog.text
    assert await bus.ask(A, KernelEcho("still here")) == "still here"
    assert len(nursery.lives["a"]) == 1


async def test_control_messages_overtake_ordinary_ones(bus: Bus, nursery: Nursery) -> None:
    actor = await nursery.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.ask, A, KernelHold())
        with anyio.fail_after(5):
            await actor.entered.wait()
        bus.tell_nowait(A, KernelShout("first"))
        bus.tell_nowait(A, KernelShout("second"))
        tasks.start_soon(bus.ask, A, KernelUrgent())
        await anyio.wait_all_tasks_blocked()
        actor.gate.set()
    assert await bus.ask(A, KernelEcho("end")) == "end"
    assert actor.heard == ["urgent", "first", "second", "end"]


async def test_concurrent_handlers_run_beside_the_serial_one_up_to_their_bound(bus: Bus, nursery: Nursery) -> None:
    actor = await nursery.start()
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(bus.ask, A, KernelHoldBeside())
        await anyio.wait_all_tasks_blocked()
        assert await bus.ask(A, KernelEcho("not blocked")) == "not blocked"
        assert actor.side_by_side == 3
        actor.gate.set()
    assert actor.most_side_by_side == 3


async def test_cancelling_an_ask_cancels_its_handler(bus: Bus, nursery: Nursery) -> None:
    actor = await nursery.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.ask, A, KernelHold())
        with anyio.fail_after(5):
            await actor.entered.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        await actor.interrupted.wait()
    assert await bus.ask(A, KernelEcho("free again")) == "free again"


async def test_a_deadline_interrupts_the_handler_and_says_that_the_outcome_is_unknown(
    bus: Bus, nursery: Nursery
) -> None:
    actor = await nursery.start()
    with pytest.raises(DeadlineExceeded) as caught:
        await bus.ask(A, KernelHold(), timeout=0.02)
    assert caught.value.details["executed"] == "unknown"
    with anyio.fail_after(5):
        await actor.interrupted.wait()


async def test_a_deadline_passed_in_the_queue_says_not_executed(bus: Bus, nursery: Nursery) -> None:
    actor = await nursery.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.ask, A, KernelHold())
        with anyio.fail_after(5):
            await actor.entered.wait()
        with pytest.raises(DeadlineExceeded) as caught:
            await bus.ask(A, KernelEcho("too late"), timeout=0.02)
        actor.gate.set()
    assert caught.value.details["executed"] == "no"
    assert await bus.ask(A, KernelEcho("x")) == "x"
    assert actor.heard == ["x"]


async def test_a_nested_ask_inherits_the_deadline_of_its_message(bus: Bus, nursery: Nursery) -> None:
    await nursery.start()
    other = await nursery.start("b")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.ask, Address("b"), KernelHold())
        with anyio.fail_after(5):
            await other.entered.wait()
        with anyio.fail_after(2), pytest.raises(DeadlineExceeded):
            await bus.ask(A, KernelVisit(("b",)), timeout=0.02)
        other.gate.set()


async def test_what_became_of_a_nested_ask_is_not_said_of_the_handler_that_made_it(bus: Bus, nursery: Nursery) -> None:
    await nursery.start()
    with pytest.raises(Undeliverable) as lost:
        await bus.ask(A, KernelVisit(("nobody",)))
    assert lost.value.details["executed"] == "unknown"


async def test_a_message_the_actor_does_not_understand_is_refused(
    bus: Bus, supervisor: object, nursery: Nursery
) -> None:
    await nursery.supervisor.start_child(ChildSpec(A, Actor))
    with pytest.raises(Undeliverable) as caught:
        await bus.ask(A, KernelEcho("?"))
    assert caught.value.code == "not_understood"


async def test_facts_reach_observing_actors_and_equal_keys_coalesce_while_they_wait(bus: Bus, nursery: Nursery) -> None:
    actor = await nursery.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.ask, A, KernelHold())
        with anyio.fail_after(5):
            await actor.entered.wait()
        for number in range(5):
            bus.publish(KernelNews(f"k{number}", key="k"))
            bus.publish(KernelNews(f"plain{number}"))
        actor.gate.set()
    await bus.ask(A, KernelEcho("end"))
    assert actor.heard == ["k4", "plain0", "plain1", "plain2", "plain3", "plain4", "end"]


class TestCycles:
    """A cycle of asks is reported instead of ending in a deadlock."""

    async def test_a_chain_that_returns_to_a_waiting_actor_is_reported(self, bus: Bus, nursery: Nursery) -> None:
        for name in "abc":
            await nursery.start(name)
        with anyio.fail_after(2), pytest.raises(AskCycle, match="c → a → b → c"):
            await bus.ask(A, KernelVisit(("b", "c", "a")))

    async def test_a_concurrent_handler_in_between_does_not_hide_it(self, bus: Bus, nursery: Nursery) -> None:
        for name in "ab":
            await nursery.start(name)
        with anyio.fail_after(2), pytest.raises(AskCycle):
            await bus.ask(A, KernelVisit(("b/beside", "a")))

    async def test_returning_to_a_concurrent_handler_is_no_cycle(self, bus: Bus, nursery: Nursery) -> None:
        for name in "ab":
            await nursery.start(name)
        with anyio.fail_after(2):
            assert await bus.ask(A, KernelVisit(("b", "a/beside"))) == "a"

    async def test_two_independent_asks_that_cross_are_found_too(self, bus: Bus, nursery: Nursery) -> None:
        for name in "ab":
            await nursery.start(name)
        outcomes: list[object] = []

        async def visit(first: str, second: str) -> None:
            try:
                outcomes.append(await bus.ask(Address(first), KernelVisit((second,))))
            except AskCycle as error:
                outcomes.append(error)

        with anyio.fail_after(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(visit, "a", "b")
                tasks.start_soon(visit, "b", "a")
        assert any(isinstance(outcome, AskCycle) for outcome in outcomes)
        assert len(outcomes) == 2


class TestEndOfALife:
    """What becomes of each message when its actor goes down is stated, never guessed."""

    async def test_killed_in_work_is_unknown_and_queued_is_not_executed(self, bus: Bus, nursery: Nursery) -> None:
        actor = await nursery.start()
        in_work: list[SmcpError] = []
        queued: list[SmcpError] = []
        beside: list[SmcpError] = []
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: failure_of(bus, KernelHold(), into=in_work))
                await actor.entered.wait()
                tasks.start_soon(lambda: failure_of(bus, KernelEcho("later"), into=queued))
                for _ in range(5):
                    tasks.start_soon(lambda: failure_of(bus, KernelHoldBeside(), into=beside))
                await anyio.wait_all_tasks_blocked()
                assert nursery.supervisor.kill_child(A)
        assert [error.details["executed"] for error in in_work] == ["unknown"]
        assert [error.details["executed"] for error in queued] == ["no"]
        assert sorted(error.details["executed"] for error in beside) == ["no", "no", "unknown", "unknown", "unknown"]
        assert all(isinstance(error, ActorLost) for error in (*in_work, *queued, *beside))

    async def test_a_tell_that_was_accepted_and_never_handled_is_a_dead_letter(
        self, bus: Bus, nursery: Nursery
    ) -> None:
        actor = await nursery.start()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: failure_of(bus, KernelHold(), into=[]))
                await actor.entered.wait()
                await bus.tell(A, KernelShout("never heard"))
                nursery.supervisor.kill_child(A)
        (letter,) = bus.dead_letters.recent
        assert (letter.kind, letter.subject, letter.target) == ("tell", "KernelShout", "a")

    @pytest.mark.spec("F-95")
    async def test_a_one_way_message_that_raises_brings_a_death_notice_with_its_cause(
        self, bus: Bus, nursery: Nursery
    ) -> None:
        await nursery.start()
        with anyio.fail_after(5), Observer(bus, ActorDown, ActorUp) as facts:
            await bus.tell(A, KernelTrip())
            down = await anext(facts)
            up = await anext(facts)
        assert isinstance(down, ActorDown)
        assert (down.address, down.reason) == ("a", "RuntimeError")
        assert up == ActorUp("a", 2)
        assert len(nursery.lives["a"]) == 2

    @pytest.mark.spec("F-97")
    async def test_stop_goes_ahead_of_the_backlog_and_answers_every_caller(self, bus: Bus, nursery: Nursery) -> None:
        actor = await nursery.start(capacity=20_000, stop_timeout=0.05)
        errors: list[SmcpError] = []
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: failure_of(bus, KernelHold(), into=errors))
                await actor.entered.wait()
                for _ in range(10_000):
                    tasks.start_soon(lambda: failure_of(bus, KernelEcho("never"), into=errors))
                await anyio.wait_all_tasks_blocked()
                await nursery.supervisor.stop_child(A)
        assert len(errors) == 10_001
        assert sorted({error.details["executed"] for error in errors}) == ["no", "unknown"]
        assert actor.heard == []

    async def test_a_graceful_stop_lets_the_message_in_work_finish(self, bus: Bus, nursery: Nursery) -> None:
        actor = await nursery.start(stop_timeout=5.0)
        replies: list[str] = []

        async def hold() -> None:
            replies.append(await bus.ask(A, KernelHold()))

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold)
                await actor.entered.wait()
                tasks.start_soon(nursery.supervisor.stop_child, A)
                await anyio.wait_all_tasks_blocked()
                actor.gate.set()
        assert replies == ["held"]
        assert actor.said_goodbye

    async def test_a_handler_that_is_finishing_still_hears_that_nobody_waits_any_more(
        self, bus: Bus, nursery: Nursery
    ) -> None:
        sample = await nursery.start(stop_timeout=4.0)
        with anyio.fail_after(3):
            async with anyio.create_task_group() as group:
                group.start_soon(bus.ask, A, KernelHold())
                await sample.entered.wait()
                async with anyio.create_task_group() as stopping:
                    stopping.start_soon(nursery.supervisor.stop_child, A)
                    await until(lambda: A not in bus.addresses())
                    group.cancel_scope.cancel()
                    with anyio.CancelScope(shield=True):
                        await sample.interrupted.wait()

    async def test_asks_to_an_actor_between_two_lives_fail_at_once_as_not_executed(
        self, bus: Bus, nursery: Nursery
    ) -> None:
        await nursery.start(policy=RestartPolicy(backoff=Backoff(initial=60.0, longest=60.0)))
        with Observer(bus, ActorDown) as facts:
            nursery.supervisor.kill_child(A)
            with anyio.fail_after(5):
                await anext(facts)
        with anyio.fail_after(1), pytest.raises(ActorLost) as caught:
            await bus.ask(A, KernelEcho("?"), timeout=30)
        assert caught.value.details["executed"] == "no"
        assert nursery.supervisor.revive_child(A)
        with Observer(bus, ActorUp) as facts, anyio.fail_after(5):
            await anext(facts)
        assert await bus.ask(A, KernelEcho("back")) == "back"


@pytest.mark.spec("F-101")
async def test_senders_that_outrun_an_actor_get_a_typed_busy_answer(bus: Bus, nursery: Nursery) -> None:
    actor = await nursery.start(capacity=10, waiting=20)
    errors: list[SmcpError] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.ask, A, KernelHold())
            await actor.entered.wait()
            for number in range(100):
                tasks.start_soon(lambda n=number: failure_of(bus, KernelEcho(str(n)), into=errors))
            await anyio.wait_all_tasks_blocked()
            actor.gate.set()
    assert len(errors) == 70
    assert all(isinstance(error, Overloaded) and error.retryable for error in errors)
    assert len(actor.heard) == 30


class TestDeclaration:
    """Mistakes in an actor class are found when it is used, not when a message arrives."""

    def test_two_handlers_of_one_message_are_refused(self) -> None:
        class Twice(Actor):
            @handler
            def one(self, message: KernelEcho) -> str:
                return ""

            @handler
            def two(self, message: KernelEcho) -> str:
                return ""

        with pytest.raises(TypeError, match="KernelEcho has two handlers"):
            handler_table(Twice)

    def test_a_reply_other_than_the_declared_one_is_refused(self) -> None:
        class Wrong(Actor):
            @handler
            def one(self, message: KernelEcho) -> int:
                return 1

        with pytest.raises(TypeError, match="must return"):
            handler_table(Wrong)

    def test_a_handler_without_a_message_is_refused(self) -> None:
        class Vague(Actor):
            @handler
            def one(self, number: int) -> int:
                return number

        with pytest.raises(TypeError, match="exactly one annotated message"):
            handler_table(Vague)

    def test_the_table_names_every_marked_method(self) -> None:
        assert handler_table(Sample)["KernelHoldBeside"].concurrent == 3
        assert not handler_table(Sample)["KernelEcho"].waits


async def test_a_failed_first_start_is_an_error_and_leaves_nothing(bus: Bus, nursery: Nursery) -> None:
    class Broken(Actor):
        async def started(self) -> None:
            raise RuntimeError("hunter2")

    with pytest.raises(StartupError) as caught:
        await nursery.supervisor.start_child(ChildSpec(A, Broken))
    assert "hunter2" not in str(caught.value)
    assert nursery.supervisor.children() == ()
    with pytest.raises(Undeliverable):
        await bus.ask(A, KernelEcho("?"))
