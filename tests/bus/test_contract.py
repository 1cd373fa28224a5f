"""What every bus promises, on every transport: asks and tells."""

from __future__ import annotations

import math
import time
from typing import Any

import anyio
import pytest

from smcp_runtime.bus.context import Context, current
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import (
    ActorLost,
    AskCycle,
    AuthError,
    BusClosed,
    BusError,
    ConfigValidationError,
    DeadlineExceeded,
    Finding,
    HandlerFailed,
    Overloaded,
    PartialFailureError,
    SmcpError,
    Undeliverable,
)
from support.waiting import until

from .conftest import OpenWorld
from .vocabulary import BusEcho, BusEchoed, BusFetch, BusNote, BusUrgent
from .worlds import World

pytestmark = pytest.mark.anyio

A, B = Address("a"), Address("b")


async def hang(_message: Any) -> None:
    await anyio.sleep_forever()


class Askers:
    """Asks under way, and what became of each."""

    def __init__(self, world: World, target: Address = A, timeout: float = 10.0) -> None:
        self.sent: list[str] = []
        self.replies: list[str] = []
        self.errors: list[BusError] = []
        self._world, self._target, self._timeout = world, target, timeout

    def ask(self, message: BusEcho | BusUrgent) -> None:
        self._world.tasks.start_soon(self._ask, message)

    async def _ask(self, message: BusEcho | BusUrgent) -> None:
        self.sent.append(message.text)
        try:
            reply = await self._world.near.ask(self._target, message, timeout=self._timeout)
            self.replies.append(reply.text)
        except BusError as error:
            self.errors.append(error)

    @property
    def ended(self) -> int:
        return len(self.replies) + len(self.errors)


class TestAnswers:
    async def test_an_ask_returns_the_typed_reply(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            await world.serve("a")
            assert await world.near.ask(A, BusEcho("hello")) == BusEchoed("hello")

    async def test_messages_of_one_sender_arrive_in_order(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            for number in range(200):
                await world.near.tell(A, BusNote(number))
            await until(lambda: len(receiver.seen) == 200)
            assert [message.number for message in receiver.seen] == list(range(200))  # type: ignore[attr-defined]

    async def test_attachments_arrive_identical_and_outside_the_body(self, open_world: OpenWorld) -> None:
        data = bytes(range(256)) * 4096
        async with open_world() as world:
            receiver = await world.serve("a")
            reply = await world.near.ask(A, BusFetch(Attachment(data)))
            assert reply.chunk.data == data
            assert receiver.seen == [BusFetch(Attachment(data))]
            envelope = receiver.envelopes[0]
            # A body without them is a tag and an index; they are never encoded into it.
            assert len(envelope.body) < 64
            if not world.remote:
                assert reply.chunk.data is data

    async def test_the_trace_of_a_caller_reaches_the_handler(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            token = current.set(Context(trace="00-11-22-01"))
            try:
                await world.near.ask(A, BusEcho())
            finally:
                current.reset(token)
            assert receiver.envelopes[0].trace == "00-11-22-01"


class TestFailures:
    async def fail_with(self, open_world: OpenWorld, error: Exception) -> BaseException:
        async def fail(_message: Any) -> None:
            raise error

        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.on[BusEcho] = fail
            with pytest.raises(SmcpError) as caught:
                await world.near.ask(A, BusEcho())
            return caught.value

    @pytest.mark.spec("R-ERR-1")
    async def test_a_handlers_error_is_raised_again_as_its_own_class_with_its_facts(
        self, open_world: OpenWorld
    ) -> None:
        error = AuthError(
            "token refused", code="expired", field="auth.token", bundle_id="files", retryable=True,
            details={"at": 3, "scopes": ["a"]}, causes=("401",),
        )  # fmt: skip
        raised = await self.fail_with(open_world, error)
        assert isinstance(raised, AuthError)
        assert (raised.message, raised.code, raised.field) == ("token refused", "expired", "auth.token")
        assert (raised.bundle_id, raised.retryable, raised.causes) == ("files", True, ("401",))
        assert raised.details == {"at": 3, "scopes": ["a"]}

    async def test_what_only_some_errors_have_crosses_too(self, open_world: OpenWorld) -> None:
        partial = await self.fail_with(open_world, PartialFailureError("half", applied=("a",), failed=("b",)))
        assert isinstance(partial, PartialFailureError)
        assert (partial.applied, partial.failed) == (("a",), ("b",))
        invalid = await self.fail_with(open_world, ConfigValidationError("bad", findings=[Finding("x", "no")]))
        assert isinstance(invalid, ConfigValidationError)
        assert invalid.findings == (Finding("x", "no"),)

    async def test_details_without_a_wire_form_do_not_hold_the_error_back(self, open_world: OpenWorld) -> None:
        raised = await self.fail_with(open_world, AuthError("no", details={"odd": object()}))
        assert isinstance(raised, AuthError)
        assert raised.message == "no"

    async def test_a_foreign_exception_crosses_by_name_only(self, open_world: OpenWorld) -> None:
        raised = await self.fail_with(open_world, RuntimeError("password=hunter2"))
        assert isinstance(raised, HandlerFailed)
        assert raised.causes == ("RuntimeError",)
        assert "hunter2" not in f"{raised} {raised.details}"


class TestDeadlines:
    async def test_a_queued_ask_ends_at_its_deadline_as_not_executed(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.pause()
            began = time.monotonic()
            with pytest.raises(DeadlineExceeded) as caught:
                await world.near.ask(A, BusEcho(), timeout=0.2)
            assert caught.value.details["executed"] == "no"
            assert 0.19 <= time.monotonic() - began < 1.2
            receiver.resume()
            await world.near.ask(A, BusEcho("next"))
            assert receiver.texts == ["next"]

    async def test_a_running_ask_ends_at_its_deadline_as_unknown_and_its_handler_is_cancelled(
        self, open_world: OpenWorld
    ) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.on[BusEcho] = hang
            with pytest.raises(DeadlineExceeded) as caught:
                await world.near.ask(A, BusEcho(), timeout=0.2)
            assert caught.value.details["executed"] == "unknown"
            await until(lambda: receiver.interrupted == [BusEcho()])

    async def test_an_ask_within_a_handler_cannot_outlive_the_ask_it_works_on(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            outer, inner = await world.serve("a"), await world.serve("b")
            inner.on[BusEcho] = hang

            async def ask_on(_message: Any) -> BusEchoed:
                return await world.far.ask(B, BusEcho(), timeout=60.0)

            outer.on[BusEcho] = ask_on
            with pytest.raises(DeadlineExceeded):
                await world.near.ask(A, BusEcho(), timeout=0.3)
            await until(lambda: inner.interrupted == [BusEcho()])

    async def test_the_work_of_a_tell_is_not_bound_by_the_senders_deadline(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            limits = []

            async def note_limit(_message: Any) -> None:
                limits.append(current.get().deadline)

            receiver.on[BusNote] = note_limit
            await world.near.tell(A, BusNote(1), timeout=0.2)
            await until(lambda: limits == [math.inf])

    async def test_a_late_answer_is_dropped_and_the_next_ask_gets_its_own(self, open_world: OpenWorld) -> None:
        release = anyio.Event()

        async def answer_late(message: BusEcho) -> BusEchoed:
            with anyio.CancelScope(shield=True):
                await release.wait()
            return BusEchoed(f"late {message.text}")

        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.on[BusEcho] = answer_late
            with pytest.raises(DeadlineExceeded):
                await world.near.ask(A, BusEcho("first"), timeout=0.1)
            release.set()
            assert (await world.near.ask(A, BusEcho("second"), timeout=5)).text == "late second"


class TestNobody:
    async def test_an_unknown_address_is_undeliverable_at_once_and_a_dead_letter(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            began = time.monotonic()
            with pytest.raises(Undeliverable) as caught:
                await world.near.ask(Address("nowhere"), BusEcho())
            with pytest.raises(Undeliverable):
                await world.near.tell(Address("nowhere"), BusNote())
            assert time.monotonic() - began < 1.0
            assert caught.value.details["executed"] == "no"
            assert world.near.dead_letters.total == 2
            assert [letter.target for letter in world.near.dead_letters.recent] == ["nowhere", "nowhere"]
            assert [why for meter in world.meters for why in meter.dead] == ["no such address"] * 2

    async def test_an_address_that_will_be_back_is_lost_not_unknown(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            await world.serve("a")
            world.far.detach(A, "restarting")
            await until(lambda: not world.near.reaches(A))
            with pytest.raises(ActorLost, match="restarting") as caught:
                await world.near.ask(A, BusEcho())
            assert caught.value.details["executed"] == "no"

    async def test_an_address_that_stopped_for_good_is_unknown_again(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            await world.serve("a")
            world.far.detach(A)
            await until(lambda: not world.near.reaches(A))
            with pytest.raises(Undeliverable):
                await world.near.ask(A, BusEcho())

    async def test_an_address_can_come_back(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            await world.serve("a")
            world.far.detach(A, "restarting")
            await until(lambda: not world.near.reaches(A))
            await world.serve("a")
            assert await world.near.ask(A, BusEcho("again")) == BusEchoed("again")

    async def test_a_message_that_crosses_a_withdrawal_ends_at_once(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            await world.serve("a")
            world.far.detach(A, "restarting")
            # Over ZeroMQ the near end has not heard of it yet: the message leaves and finds nobody.
            with pytest.raises(ActorLost), anyio.fail_after(2):
                await world.near.ask(A, BusEcho(), timeout=30)


class TestBackpressure:
    async def test_asks_wait_for_a_place_and_are_answered_in_order(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a", capacity=4, waiting=40)
            receiver.pause()
            askers = Askers(world)
            for number in range(30):
                askers.ask(BusEcho(str(number)))
            await until(lambda: len(receiver.mailbox) == 30)
            receiver.resume()
            await until(lambda: len(askers.replies) == 30)
            assert receiver.texts == askers.sent

    async def test_an_ask_that_never_gets_a_place_is_overloaded_at_its_deadline(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a", capacity=1, waiting=5)
            receiver.pause()
            askers = Askers(world, timeout=0.3)
            askers.ask(BusEcho("queued"))
            await until(lambda: len(receiver.mailbox) == 1)
            with pytest.raises(Overloaded) as caught:
                await world.near.ask(A, BusEcho("in line"), timeout=0.2)
            assert caught.value.details["executed"] == "no"
            assert caught.value.retryable

    async def test_beyond_the_waiting_line_an_ask_is_overloaded_at_once(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a", capacity=2, waiting=2)
            receiver.pause()
            askers = Askers(world)
            for number in range(4):
                askers.ask(BusEcho(str(number)))
            await until(lambda: len(receiver.mailbox) == 4)
            began = time.monotonic()
            with pytest.raises(Overloaded):
                await world.near.ask(A, BusEcho("too many"), timeout=30)
            assert time.monotonic() - began < 1.0
            receiver.resume()
            await until(lambda: len(askers.replies) == 4)

    async def test_a_tell_returns_when_a_mailbox_has_it_not_when_it_is_handled(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.pause()
            await world.near.tell(A, BusNote(1))
            assert (len(receiver.mailbox), receiver.seen) == (1, [])

    async def test_a_tell_that_finds_no_place_is_refused_and_never_handled(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a", capacity=1, waiting=1)
            receiver.pause()
            await world.near.tell(A, BusNote(1))
            with pytest.raises(Overloaded):
                await world.near.tell(A, BusNote(2), timeout=0.2)
            receiver.resume()
            await world.near.ask(A, BusEcho())
            assert receiver.seen == [BusNote(1), BusEcho()]

    async def test_a_tell_waits_in_line_until_there_is_a_place(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a", capacity=1, waiting=1)
            receiver.pause()
            await world.near.tell(A, BusNote(1))
            accepted = anyio.Event()

            async def tell() -> None:
                await world.near.tell(A, BusNote(2), timeout=10)
                accepted.set()

            world.tasks.start_soon(tell)
            await until(lambda: len(receiver.mailbox) == 2)
            assert not accepted.is_set()
            receiver.resume()
            with anyio.fail_after(5):
                await accepted.wait()

    async def test_withdrawing_a_queued_ask_lets_the_line_advance(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a", capacity=1, waiting=1)
            receiver.pause()
            accepted = anyio.Event()

            async def tell_second() -> None:
                await until(lambda: len(receiver.mailbox) == 1)
                await world.near.tell(A, BusNote(2), timeout=20)
                accepted.set()

            with anyio.CancelScope() as first:
                world.tasks.start_soon(self.cancel_when, lambda: len(receiver.mailbox) == 2, first)
                world.tasks.start_soon(tell_second)
                await world.near.ask(A, BusEcho("first"), timeout=20)
            assert first.cancelled_caught
            with anyio.fail_after(5):
                await accepted.wait()
            receiver.resume()
            await until(lambda: receiver.seen == [BusNote(2)])

    @staticmethod
    async def cancel_when(condition: Any, scope: anyio.CancelScope) -> None:
        await until(condition)
        scope.cancel()

    async def test_control_messages_overtake_ordinary_ones_even_when_those_fill_everything(
        self, open_world: OpenWorld
    ) -> None:
        async with open_world(window=4, line=4) as world:
            receiver = await world.serve("a", capacity=2, waiting=2)
            receiver.pause()
            askers = Askers(world)
            for number in range(4):
                askers.ask(BusEcho(str(number)))
            await until(lambda: len(receiver.mailbox) == 4)
            askers.ask(BusUrgent("now"))
            await until(lambda: len(receiver.mailbox) == 5)
            receiver.resume()
            await until(lambda: len(askers.replies) == 5)
            assert receiver.texts == ["now", *askers.sent[:4]]

    async def test_a_sender_that_ignores_refusals_does_not_starve_the_receiver(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a", capacity=1, waiting=0)
            with anyio.fail_after(10):
                while len(receiver.seen) < 50:
                    with anyio.move_on_after(1):
                        try:
                            await world.near.tell(A, BusNote())
                        except Overloaded:
                            continue


class TestCancellation:
    async def test_cancelling_an_ask_cancels_its_handler(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.on[BusEcho] = hang
            with anyio.CancelScope() as scope:
                world.tasks.start_soon(TestBackpressure.cancel_when, lambda: receiver.seen, scope)
                await world.near.ask(A, BusEcho("x"))
            await until(lambda: receiver.interrupted == [BusEcho("x")])
            receiver.on.pop(BusEcho)

    async def test_cancelling_a_queued_ask_keeps_it_from_its_handler(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.pause()
            with anyio.CancelScope() as scope:
                world.tasks.start_soon(TestBackpressure.cancel_when, lambda: len(receiver.mailbox) == 1, scope)
                await world.near.ask(A, BusEcho("never"))
            await until(lambda: len(receiver.mailbox) == 0)
            receiver.resume()
            await world.near.ask(A, BusEcho("next"))
            assert receiver.texts == ["next"]


class TestCycles:
    async def test_a_chain_that_returns_to_a_waiting_actor_is_reported_not_waited_for(
        self, open_world: OpenWorld
    ) -> None:
        async with open_world() as world:
            a, b = await world.serve("a"), await world.serve_near("b")

            async def ask_b(_message: Any) -> BusEchoed:
                return await world.far.ask(B, BusEcho(), timeout=20)

            async def ask_a(_message: Any) -> BusEchoed:
                return await world.near.ask(A, BusEcho(), timeout=20)

            a.on[BusEcho], b.on[BusEcho] = ask_b, ask_a
            with anyio.fail_after(5), pytest.raises(AskCycle, match="b → a → b"):
                await world.near.ask(A, BusEcho(), timeout=20)

    async def test_two_asks_that_cross_are_reported_not_waited_for(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            a, b = await world.serve("a"), await world.serve_near("b")
            a_waits = anyio.Event()
            outcomes: list[str] = []

            async def ask_b(message: BusEcho) -> BusEchoed:
                if message.text != "go":
                    return BusEchoed()
                a_waits.set()
                return await world.far.ask(B, BusEcho(), timeout=20)

            async def ask_a(message: BusEcho) -> BusEchoed:
                if message.text != "go":
                    return BusEchoed()
                await a_waits.wait()
                # The ask of `a` now waits in our mailbox behind this very message.
                await until(lambda: len(b.mailbox) > 0)
                try:
                    return await world.near.ask(A, BusEcho(), timeout=20)
                except AskCycle:
                    outcomes.append("cycle")
                    return BusEchoed()

            a.on[BusEcho], b.on[BusEcho] = ask_b, ask_a
            with anyio.fail_after(5):
                async with anyio.create_task_group() as group:
                    group.start_soon(world.far.ask, B, BusEcho("go"))
                    await until(lambda: len(b.seen) == 1)
                    group.start_soon(world.near.ask, A, BusEcho("go"))
            assert outcomes == ["cycle"]

    async def test_a_tell_to_oneself_is_no_cycle(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            a = await world.serve("a")

            async def note(_message: Any) -> BusEchoed:
                await world.far.tell(A, BusNote(1))
                return BusEchoed("told")

            a.on[BusEcho] = note
            assert await world.near.ask(A, BusEcho()) == BusEchoed("told")
            await until(lambda: a.seen == [BusEcho(), BusNote(1)])

    async def test_what_the_handler_of_a_tell_asks_closes_no_circle_with_the_sender(
        self, open_world: OpenWorld
    ) -> None:
        async with open_world() as world:
            a, b = await world.serve("a"), await world.serve_near("b")
            replies: list[str] = []

            async def tell_b(message: BusEcho) -> BusEchoed:
                if message.text == "go":
                    await world.far.tell(B, BusNote())
                return BusEchoed(message.text)

            async def ask_back(_message: Any) -> None:
                replies.append((await world.near.ask(A, BusEcho("back"))).text)

            a.on[BusEcho], b.on[BusNote] = tell_b, ask_back
            await world.near.ask(A, BusEcho("go"))
            await until(lambda: replies == ["back"])


class TestClosing:
    async def test_closing_the_senders_bus_ends_every_ask(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.pause()
            askers = Askers(world)
            for number in range(20):
                askers.ask(BusEcho(str(number)))
            await until(lambda: len(receiver.mailbox) == 20)
            world.near.close()
            await until(lambda: len(askers.errors) == 20)
            assert {type(error) for error in askers.errors} == {BusClosed}
            with pytest.raises(BusClosed):
                await world.near.ask(A, BusEcho())
            assert not world.near.tell_nowait(A, BusNote())

    async def test_closing_the_receivers_bus_ends_every_ask(self, open_world: OpenWorld) -> None:
        async with open_world() as world:
            receiver = await world.serve("a")
            receiver.pause()
            askers = Askers(world)
            for number in range(20):
                askers.ask(BusEcho(str(number)))
            await until(lambda: len(receiver.mailbox) == 20)
            world.far.close()
            await until(lambda: len(askers.errors) == 20)
            assert {type(error) for error in askers.errors} <= {BusClosed, ActorLost}
