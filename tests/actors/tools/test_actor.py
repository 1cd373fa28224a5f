"""Tool calls and lists on a real bus: the order of checks, and every way a call can end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.tools.confirmation import ConfirmationRequest
from smcp_runtime.bus import Observer
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.messages.kernel import ActorUp
from smcp_runtime.wire.messages.mcp import ToolOutcome
from smcp_runtime.wire.messages.tools import CallFinished, ToolsRead

from .conftest import Bench, answered

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def ready(bench: Bench) -> Bench:
    await bench.start()
    await bench.serve("b", "echo")
    return bench


class TestOutcomes:
    @spec("C-1", "W-CALL-8", "W-CALL-18")
    async def test_a_call_reaches_the_server_by_its_original_name_with_unchanged_arguments(self, ready: Bench) -> None:
        await ready.serve("b", "echo", tool_meta={"echo": {"alias": "say"}})
        result = await ready.call("b__say", b'{"a": [1,  2]}')
        (call,) = ready.servers["b"].calls
        assert (call.tool, call.arguments.data) == ("echo", b'{"a": [1,  2]}')
        assert (result["content"], result["isError"]) == ([{"type": "text", "text": "done"}], False)

    @spec("C-1", "W-META-2")
    async def test_a_result_carries_the_configured_metadata_as_an_object(self, ready: Bench) -> None:
        meta = (await ready.call("b__echo"))["meta"]
        assert meta["a2c_tool_meta"]["auto_apply"] is True

    @spec("W-CALL-19")
    async def test_the_servers_own_metadata_moves_to_meta_without_the_names_that_are_ours(self, ready: Bench) -> None:
        ready.servers["b"].reply = answered({"content": [], "_meta": {"own": 1, "a2c_timeout": True, "error_code": 5}})
        meta = (await ready.call("b__echo"))["meta"]
        assert (meta["own"], "a2c_timeout" in meta, "error_code" in meta) == (1, False, False)

    @spec("C-2")
    async def test_an_error_of_the_tool_itself_passes_without_code_or_outcome(self, ready: Bench) -> None:
        ready.servers["b"].reply = answered({"content": [], "isError": True})
        result = await ready.call("b__echo")
        assert result["isError"] is True
        assert set(result["meta"]) == {"a2c_tool_meta"}

    @spec("C-3", "W-CALL-5", "R-PROJ-9")
    async def test_an_unknown_name_is_4001(self, ready: Bench) -> None:
        assert_failed(await ready.call("b__nothing"), 4001, "not_executed")

    @spec("C-4", "W-CALL-6", "T-PROJ-2")
    async def test_a_forbidden_tool_is_4002_and_never_reaches_its_server(self, ready: Bench) -> None:
        await ready.serve("b", "echo", forbidden=("echo",))
        assert_failed(await ready.call("b__echo"), 4002, "not_executed", mcp_server="b")
        assert (ready.servers["b"].calls, await ready.names()) == ([], [])

    @spec("C-4", "W-CALL-6", "R-MCP-17")
    async def test_a_tool_of_a_disabled_server_is_4002(self, ready: Bench) -> None:
        await ready.serve("b", disabled=True, connected=False)
        assert_failed(await ready.call("b__echo"), 4002, "not_executed")

    @spec("C-5", "W-CALL-7")
    async def test_without_auto_apply_and_without_anybody_to_ask_it_is_4005(self, ready: Bench) -> None:
        await ready.serve("b", "echo", default_tool_meta=None)
        assert_failed(await ready.call("b__echo"), 4005, "not_executed")
        assert ready.servers["b"].calls == []

    @spec("W-CALL-7")
    async def test_the_log_names_the_key_once_for_each_tool_that_nobody_confirms(
        self, ready: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        await ready.serve("b", "echo", "add", default_tool_meta=None)
        for name in ("b__echo", "b__echo", "b__add", "b__echo"):
            result = await ready.call(name)
            assert "auto_apply" not in result["content"][0]["text"]
        told = [record.getMessage() for record in caplog.records if "auto_apply" in record.getMessage()]
        assert [line.partition(" ")[0] for line in told] == ["b__echo", "b__add"]

    @spec("C-6", "W-ERR-6")
    async def test_a_json_rpc_error_is_4003_without_an_outcome_because_the_server_answered(self, ready: Bench) -> None:
        ready.servers["b"].reply = ToolOutcome("error", text="no such thing")
        result = await ready.call("b__echo")
        assert_failed(result, 4003, None, mcp_server="b")
        assert result["content"][0]["text"] == "no such thing"

    @spec("C-6", "DEC-10")
    @pytest.mark.parametrize(("executed", "known"), [("no", "not_executed"), ("unknown", "unknown")])
    async def test_a_lost_answer_is_4003_with_what_is_known(self, ready: Bench, executed: Any, known: str) -> None:
        ready.servers["b"].reply = ToolOutcome("failed", executed=executed, text="the connection ended")
        assert_failed(await ready.call("b__echo"), 4003, known, mcp_server="b")

    @spec("C-6")
    async def test_a_result_that_is_no_result_is_4003(self, ready: Bench) -> None:
        ready.servers["b"].reply = answered({"content": "text"})
        assert_failed(await ready.call("b__echo"), 4003, None)

    @spec("C-7")
    async def test_a_time_limit_reported_by_the_server_actor_is_4004_with_its_outcome(self, ready: Bench) -> None:
        ready.servers["b"].reply = ToolOutcome("timeout", executed="no")
        result = await ready.call("b__echo")
        assert_failed(result, 4004, "not_executed")
        assert result["meta"]["a2c_timeout"] is True

    @spec("C-7", "W-CALL-10", "W-CMP-3", "T-PROJ-8", "DEC-12")
    async def test_the_own_time_limit_holds_when_the_server_actor_does_not_keep_to_it(self, bench: Bench) -> None:
        await bench.start(answer_grace=0.05)
        await bench.serve("b", "echo")
        bench.servers["b"].hold()
        with anyio.fail_after(5):
            result = await bench.call("b__echo", timeout=1)
        assert_failed(result, 4004, "unknown")
        assert bench.servers["b"].cancelled == ["r1"]

    @spec("C-8", "W-CALL-14", "W-CALL-15", "DEC-12", "T-PROJ-8")
    async def test_a_cancelled_call_ends_at_once_without_error_code_and_interrupts_the_server(
        self, ready: Bench
    ) -> None:
        server = ready.servers["b"]
        server.hold()
        async with collected(ready, "b__echo") as call:
            await server.called.wait()
            await ready.cancel()
        meta = call.result["meta"]
        assert (meta["a2c_cancelled"], meta["a2c_cancel_reason"]) == (True, "agent_requested")
        assert ("error_code" in meta, meta["a2c_outcome"]) == (False, "unknown")
        assert server.cancelled == ["r1"]

    @spec("C-8", "DEC-10")
    async def test_a_call_cancelled_in_its_servers_queue_was_not_executed(self, ready: Bench) -> None:
        server = ready.servers["b"]
        server.hold()
        server.queues = True
        async with collected(ready, "b__echo") as call:
            await server.called.wait()
            await ready.cancel()
        assert call.result["meta"]["a2c_outcome"] == "not_executed"

    @spec("C-8", "DEC-10", "W-CALL-7")
    async def test_a_call_cancelled_during_its_confirmation_was_not_executed(self, bench: Bench) -> None:
        asked = anyio.Event()

        async def never(_: ConfirmationRequest) -> bool:
            asked.set()
            await anyio.sleep_forever()
            return True

        await bench.start(never)
        await bench.serve("b", "echo", default_tool_meta=None)
        async with collected(bench, "b__echo") as call:
            await asked.wait()
            await bench.cancel()
        assert (call.result["meta"]["a2c_cancelled"], call.result["meta"]["a2c_outcome"]) == (True, "not_executed")

    @spec("W-CALL-14", "T-PROJ-8")
    async def test_t_proj_8_cancelling_an_unknown_call_changes_nothing(self, ready: Bench) -> None:
        await ready.cancel("nobody")
        assert (await ready.call("b__echo"))["isError"] is False

    @spec("C-9", "W-UP-2", "T-PROJ-9")
    @pytest.mark.parametrize("code", [4006, 4007])
    async def test_an_authorization_failure_names_code_and_server(self, ready: Bench, code: int) -> None:
        ready.servers["b"].reply = ToolOutcome("unauthorized", error_code=code, executed="yes")
        result = await ready.call("b__echo")
        assert_failed(result, code, None, mcp_server="b")
        assert set(result["meta"]["auth_hint"]) == {"action", "message"}

    @spec("C-10", "W-CALL-16")
    async def test_a_req_id_in_flight_is_400_and_the_first_call_goes_on(self, ready: Bench) -> None:
        server = ready.servers["b"]
        server.hold()
        async with collected(ready, "b__echo") as first:
            await server.called.wait()
            assert_failed(await ready.call("b__echo"), 400, "not_executed")
            server.release.set()
        assert (first.result["isError"], len(server.calls)) == (False, 1)

    @spec("C-10", "W-CALL-4")
    @pytest.mark.parametrize("timeout", [0, -1, 3601])
    async def test_a_timeout_out_of_range_is_400(self, ready: Bench, timeout: int) -> None:
        assert_failed(await ready.call("b__echo", timeout=timeout), 400, "not_executed")

    @spec("C-11", "W-CALL-21", "DEC-18")
    async def test_a_result_above_the_budget_becomes_an_error_that_names_both_sizes(self, bench: Bench) -> None:
        await bench.start(ack_budget=10_000)
        await bench.serve("b", "echo")
        bench.servers["b"].reply = answered({"content": [{"type": "text", "text": "x" * 20_000}]})
        result = await bench.call("b__echo")
        assert_failed(result, 4003, None)
        assert result["meta"]["a2c_result_too_large"] is True
        assert "10000" in result["content"][0]["text"]

    @spec("C-13", "DEC-29")
    async def test_a_busy_server_is_4003_with_the_busy_mark(self, ready: Bench) -> None:
        ready.servers["b"].reply = ToolOutcome("busy", executed="no", text="queue full")
        result = await ready.call("b__echo")
        assert_failed(result, 4003, "not_executed", mcp_server="b")
        assert result["meta"]["a2c_busy"] is True

    @spec("C-13", "DEC-7", "W-CALL-4")
    async def test_a_full_server_is_busy_before_anybody_is_asked_to_confirm(self, bench: Bench) -> None:
        asked: list[ConfirmationRequest] = []

        async def note(request: ConfirmationRequest) -> bool:
            asked.append(request)
            return True

        await bench.start(note)
        await bench.serve("b", "echo", default_tool_meta=None, capacity=1)
        bench.servers["b"].hold()
        async with collected(bench, "b__echo"):
            await bench.servers["b"].called.wait()
            result = await bench.call("b__echo", req_id="r2")
            bench.servers["b"].release.set()
        assert result["meta"]["a2c_busy"] is True
        assert len(asked) == 1

    @spec("C-14", "DEC-25", "R-PROJ-9")
    @pytest.mark.parametrize(
        ("status", "words"),
        [
            ({"phase": "starting"}, "starting"),
            ({"phase": "backing_off"}, "restarting"),
            ({"phase": "parked", "next_try_at": 1_060.0}, "next try in 60 s"),
            ({"phase": "stopped"}, "stopped"),
        ],
    )
    async def test_a_tool_of_a_lost_server_is_4003_and_says_why(self, ready: Bench, status: Any, words: str) -> None:
        await ready.serve("b", "echo", connected=False)
        await ready.say_status(bundle_id="b", **status)
        result = await ready.call("b__echo")
        assert_failed(result, 4003, "not_executed", mcp_server="b")
        assert words in result["content"][0]["text"]
        assert ready.servers["b"].calls == []

    async def test_what_a_removed_server_said_does_not_count_for_one_that_takes_its_id(self, ready: Bench) -> None:
        await ready.serve("b", "echo", connected=False)
        await ready.say_status(bundle_id="b", phase="parked", next_try_at=1_060.0)
        known = ready.slices.pop("b")
        await ready.commit()
        ready.slices["b"] = known
        await ready.commit()
        assert "next try" not in (await ready.call("b__echo"))["content"][0]["text"]

    @spec("C-14", "DEC-35")
    async def test_a_server_whose_actor_is_gone_is_4003_not_executed(self, bench: Bench) -> None:
        await bench.start()
        await bench.serve("b", "echo", running=False)
        assert_failed(await bench.call("b__echo"), 4003, "not_executed", mcp_server="b")

    @spec("C-6", "DEC-10")
    async def test_a_server_actor_killed_in_the_middle_of_a_call_gives_outcome_unknown(self, ready: Bench) -> None:
        ready.servers["b"].hold()
        async with collected(ready, "b__echo") as call:
            await ready.servers["b"].called.wait()
            ready.supervisor.kill_child(Address("mcp/b"))
        assert_failed(call.result, 4003, "unknown", mcp_server="b")

    @spec("DEC-10")
    async def test_a_repeated_call_says_how_often_it_was_sent(self, ready: Bench) -> None:
        ready.servers["b"].reply = answered({"content": []}, attempts=2)
        assert (await ready.call("b__echo"))["meta"]["a2c_attempts"] == 2


class TestConfirmation:
    @spec("W-CALL-7")
    async def test_a_confirmed_call_runs(self, bench: Bench) -> None:
        seen: list[ConfirmationRequest] = []

        async def yes(request: ConfirmationRequest) -> bool:
            seen.append(request)
            return True

        await bench.start(yes)
        await bench.serve("b", "echo", default_tool_meta=None)
        assert (await bench.call("b__echo", b'{"q":1}', agent="alice"))["isError"] is False
        (request,) = seen
        assert (request.bundle_id, request.tool, request.parameters, request.agent) == (
            "b",
            "echo",
            b'{"q":1}',
            "alice",
        )

    @spec("W-CALL-7", "C-5")
    async def test_a_denied_call_does_not_run(self, bench: Bench) -> None:
        await bench.start(lambda _: False)
        await bench.serve("b", "echo", default_tool_meta=None)
        result = await bench.call("b__echo")
        assert_failed(result, 4005, "not_executed")
        assert "denied" in result["content"][0]["text"]

    @spec("W-CALL-7")
    async def test_a_confirmation_that_fails_does_not_run_the_tool(self, bench: Bench) -> None:
        async def broken(_: ConfirmationRequest) -> bool:
            raise RuntimeError("no screen")

        await bench.start(broken)
        await bench.serve("b", "echo", default_tool_meta=None)
        assert_failed(await bench.call("b__echo"), 4005, "not_executed")

    @spec("W-CALL-7", "DEC-11", "C-5")
    async def test_waiting_for_the_confirmation_counts_against_the_time_limit(self, bench: Bench) -> None:
        async def never(_: ConfirmationRequest) -> bool:
            await anyio.sleep_forever()
            return True

        await bench.start(never)
        await bench.serve("b", "echo", default_tool_meta=None)
        with anyio.fail_after(5):
            result = await bench.call("b__echo", timeout=1)
        assert_failed(result, 4005, "not_executed")
        assert "timed out" in result["content"][0]["text"]

    @spec("W-CALL-7")
    async def test_what_the_confirmation_used_up_is_missing_from_the_servers_time(self, bench: Bench) -> None:
        async def slow(_: ConfirmationRequest) -> bool:
            await anyio.sleep(0.2)
            return True

        await bench.start(slow)
        await bench.serve("b", "echo", default_tool_meta=None)
        await bench.call("b__echo", timeout=5)
        assert bench.servers["b"].calls[0].timeout <= 4.8


class TestDrain:
    @spec("DEC-13", "DEC-26")
    async def test_while_draining_new_calls_are_refused_and_running_ones_finish(self, ready: Bench) -> None:
        server = ready.servers["b"]
        server.hold()
        async with collected(ready, "b__echo") as running, anyio.create_task_group() as group:
            await server.called.wait()
            group.start_soon(ready.drain, 5.0)
            await wait_until_refused(ready)
            server.release.set()
        assert running.result["isError"] is False

    @spec("DEC-13", "R-LIFE-16")
    async def test_after_the_grace_the_rest_ends_as_failed_and_not_as_cancelled(self, ready: Bench) -> None:
        server = ready.servers["b"]
        server.hold()
        async with collected(ready, "b__echo") as running:
            await server.called.wait()
            with anyio.fail_after(5):
                await ready.drain(0.05)
        assert_failed(running.result, 4003, "unknown", mcp_server="b")
        assert "a2c_cancelled" not in running.result["meta"]

    @spec("DEC-26")
    async def test_two_drains_at_once_both_return(self, ready: Bench) -> None:
        server = ready.servers["b"]
        server.hold()
        with anyio.fail_after(5):
            async with collected(ready, "b__echo"), anyio.create_task_group() as group:
                await server.called.wait()
                group.start_soon(ready.drain, 5.0)
                group.start_soon(ready.drain, 5.0)
                await wait_until_refused(ready)
                server.release.set()

    async def test_after_resuming_calls_run_again(self, ready: Bench) -> None:
        await ready.drain(0)
        await ready.resume()
        assert (await ready.call("b__echo"))["isError"] is False


class TestLists:
    @spec("DEC-4", "F-56")
    async def test_a_list_answers_while_calls_hang(self, ready: Bench) -> None:
        ready.servers["b"].hold()
        async with collected(ready, "b__echo"):
            await ready.servers["b"].called.wait()
            assert await ready.names() == ["b__echo"]
            ready.servers["b"].release.set()

    @spec("R-PROJ-5")
    async def test_a_commit_says_whether_an_agent_would_see_a_difference(self, ready: Bench) -> None:
        same = await ready.commit()
        await ready.serve("b", "echo", "more")
        again = await ready.commit()
        assert (same.changed, again.changed, await ready.names()) == (False, False, ["b__echo", "b__more"])

    @spec("C-GEN-15")
    async def test_before_the_first_commit_a_call_waits_for_it(self, bench: Bench) -> None:
        await bench.start()
        async with collected(bench, "b__echo") as call:
            await bench.serve("b", "echo")
        assert call.result["isError"] is False

    @spec("C-GEN-15", "DEC-10")
    async def test_a_call_that_no_commit_came_in_time_for_was_not_executed_rather_than_unknown(
        self, bench: Bench
    ) -> None:
        await bench.start(rebuild_wait=0.01)
        assert_failed(await bench.call("b__echo"), 4003, "not_executed")

    @spec("C-GEN-15", "DEC-35")
    async def test_a_killed_actor_answers_again_once_the_commit_was_sent_to_it_again(self, ready: Bench) -> None:
        with Observer(ready.bus, ActorUp) as ups, anyio.fail_after(5):
            ready.supervisor.kill_child(Address("tools"))
            await anext(aiter(ups))
        await ready.commit()
        assert await ready.names() == ["b__echo"]

    @spec("DEC-4")
    async def test_reading_the_list_is_announced_once_in_the_interval(self, ready: Bench) -> None:
        with Observer(ready.bus, ToolsRead, CallFinished) as observer, anyio.fail_after(5):
            facts = aiter(observer)
            await ready.names()
            assert isinstance(await anext(facts), ToolsRead)
            await ready.names()
            await ready.call("b__echo")
            assert isinstance(await anext(facts), CallFinished)


class TestHistory:
    @spec("C-DESK-23")
    async def test_finished_calls_are_kept_and_published_whatever_their_end(self, ready: Bench) -> None:
        with Observer(ready.bus, CallFinished) as finished:
            await ready.call("b__echo")
            ready.servers["b"].reply = ToolOutcome("failed", executed="unknown")
            await ready.call("b__echo", req_id="r2")
            with anyio.fail_after(5):
                facts = [(await anext(aiter(finished))).record for _ in range(2)]
        records = (await ready.history()).calls
        assert list(records) == facts
        assert [(r.req_id, r.bundle_id, r.tool, r.ended) for r in records] == [
            ("r1", "b", "echo", "answered"),
            ("r2", "b", "echo", "failed"),
        ]

    @spec("C-DESK-23")
    async def test_calls_that_could_not_be_routed_are_not_kept(self, ready: Bench) -> None:
        await ready.call("b__nothing")
        assert (await ready.history()).calls == ()

    @spec("C-DESK-23")
    async def test_the_history_keeps_the_last_ten(self, ready: Bench) -> None:
        for number in range(12):
            await ready.call("b__echo", req_id=f"r{number}")
        assert [record.req_id for record in (await ready.history()).calls] == [f"r{n}" for n in range(2, 12)]


class TestVrl:
    @spec("W-CALL-22", "R-MCP-20", "T-PROJ-10")
    async def test_t_proj_10_a_script_adds_its_event_and_leaves_the_result_alone(self, ready: Bench) -> None:
        await ready.serve("b", "echo", vrl='.summary = "seen " + string!(.tool_name)\n.q = .parameters.q')
        result = await ready.call("b__echo", b'{"q": 7}')
        event = json.loads(result["meta"]["a2c_vrl_transformed"])
        assert (event["summary"], event["q"], event["tool_name"]) == ("seen echo", 7, "echo")
        assert (result["content"], result["isError"]) == ([{"type": "text", "text": "done"}], False)

    @spec("W-CALL-22", "R-MCP-20", "T-PROJ-10")
    async def test_t_proj_10_a_script_that_fails_costs_one_warning_and_not_the_result(
        self, ready: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        await ready.serve("b", "echo", vrl=".x = parse_json!(.parameters.secret)")
        result = await ready.call("b__echo", b'{"secret": "hunter2"}')
        assert "a2c_vrl_transformed" not in result["meta"]
        warnings = [record.getMessage() for record in caplog.records if "script" in record.getMessage()]
        assert len(warnings) == 1
        assert "hunter2" not in caplog.text

    @spec("R-MCP-19")
    async def test_a_blank_script_is_off(self, ready: Bench) -> None:
        await ready.serve("b", "echo", vrl="  \n")
        assert "a2c_vrl_transformed" not in (await ready.call("b__echo"))["meta"]


@spec("W-CALL-17")
async def test_a_thousand_calls_to_ten_servers_are_all_answered(bench: Bench) -> None:
    await bench.start()
    for number in range(10):
        await bench.serve(f"s{number}", "echo")
    results: list[dict[str, Any]] = []

    async def one(number: int) -> None:
        results.append(await bench.call(f"s{number % 10}__echo", req_id=f"r{number}", timeout=30))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for number in range(1000):
                group.start_soon(one, number)
    assert [result["isError"] for result in results] == [False] * 1000


class Running:
    """A call on its way; `result` is there once the `collected` block is over."""

    result: dict[str, Any]


@asynccontextmanager
async def collected(bench: Bench, name: str) -> AsyncIterator[Running]:
    """Runs one call beside the body, and waits for its result at the end."""
    running = Running()

    async def run() -> None:
        running.result = await bench.call(name)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            yield running


async def wait_until_refused(bench: Bench) -> None:
    with anyio.fail_after(5):
        number = 0
        while True:
            number += 1
            result = await bench.call("b__nothing", req_id=f"probe{number}")
            if result["meta"]["error_code"] == 4003:
                return
            await anyio.sleep(0.005)


def assert_failed(result: dict[str, Any], code: int, known: str | None, mcp_server: str | None = None) -> None:
    meta = result["meta"]
    assert (result["isError"], meta["error_code"], meta.get("a2c_outcome")) == (True, code, known)
    assert result["content"][0]["type"] == "text"
    if mcp_server is not None:
        assert meta["mcp_server"] == mcp_server
