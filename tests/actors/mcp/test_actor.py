"""A server actor over real processes: what users see when servers behave, and when they do not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from smcp_runtime.actors.mcp.calls import Calls
from smcp_runtime.actors.mcp.failures import TimeLimitReached
from smcp_runtime.actors.mcp.session import refresh
from smcp_runtime.bus import Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import ConfigValidationError, MissingInputError, PeerError, StartupError
from smcp_runtime.wire.messages.kernel import ActorUp
from smcp_runtime.wire.messages.mcp import (
    CallLimits,
    CallTool,
    HealthCheck,
    LaunchPlan,
    ListResources,
    ReadResource,
    ReconnectPolicy,
    RelistResources,
    ResourcesListed,
    RestartServer,
    ServerStatus,
    StartServer,
    ToolOutcome,
    ToolsListed,
)
from smcp_runtime.wire.resources import list_digest

from .conftest import Host, light

pytestmark = pytest.mark.anyio
spec = pytest.mark.spec

SECRET = "sk-live-0123456789"
QUICK = ReconnectPolicy(initial_delay=0.05, max_delay=0.1)
NEVER = ReconnectPolicy(enabled=False)


def text_of(outcome: ToolOutcome) -> str:
    assert outcome.result is not None, outcome
    content = json.loads(outcome.result.data)["content"]
    return str(content[0]["text"])


ODD_RESULTS = """
import json, sys
results = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
    "tools/call": {"resultType": 5, "content": []},
}
for message in map(json.loads, sys.stdin):
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
        print(json.dumps(answer), flush=True)
"""
"""A server of the newer era whose results are of a type that is no text."""


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def wait_for(condition: Any, timeout: float = 5.0) -> None:
    with anyio.fail_after(timeout):
        while not condition():  # noqa: ASYNC110 - the world outside has no event to wait for
            await anyio.sleep(0.01)


SLOPPY = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if method == "initialize":
        server = {"name": "sloppy", "version": "1"}
        result = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": server}
    elif method == "tools/list" and TOOLS:
        result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""Declares nothing and leaves what it does not know unanswered."""


def sloppy(bundle_id: str, *, tools: bool) -> LaunchPlan:
    script = SLOPPY.replace("TOOLS", str(tools))
    return LaunchPlan(bundle_id, f"{bundle_id} (display)", "stdio", command=sys.executable, args=("-c", script))


def failing(script: str, secret: str, reconnect: ReconnectPolicy = NEVER) -> LaunchPlan:
    """A server that is a script, which has a secret in its environment and ends."""
    return LaunchPlan(
        "bad",
        "bad (display)",
        "stdio",
        command=sys.executable,
        args=("-c", script),
        env={"TOKEN": secret},
        secrets=(secret,),
        reconnect=reconnect,
    )


class TestServing:
    @spec("R-MCP-24", "R-LIFE-23")
    async def test_a_started_server_is_connected_and_lists_its_tools_in_its_own_order(self, host: Host) -> None:
        await host.start(light("files", "--tools", "echo,add"))
        status = await host.status("files")
        assert (status.activation, status.connection, status.phase) == ("started", "connected", "ready")
        assert (status.protocol, status.server_name) == ("2025-11-25", "light")
        assert host.tools("files") == ["echo", "add"]

    @spec("W-CALL-8", "W-CALL-18")
    async def test_a_call_returns_the_servers_own_bytes(self, host: Host) -> None:
        await host.start(light("files"))
        outcome = await host.call("files", "echo", {"text": "hello"})
        assert (outcome.ended, outcome.executed, outcome.attempts) == ("answered", "yes", 1)
        assert text_of(outcome) == "hello"

    async def test_an_error_answer_of_the_server_keeps_its_code(self, host: Host) -> None:
        await host.start(light("files", "--tools", "rpc_error"))
        outcome = await host.call("files", "rpc_error", {"code": -32050})
        assert (outcome.ended, outcome.error_code, outcome.text) == ("error", -32050, "refused by the server")

    @spec("R-MCP-3", "F-39")
    async def test_a_server_gets_the_safe_base_and_its_own_variables_but_nothing_else_of_ours(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OURS", "secret of the host")
        monkeypatch.setenv("HOME", "/home/of/the/host")
        await host.start(light("files", "--tools", "env", env={"THEIRS": "1"}))
        names = json.loads(text_of(await host.call("files", "env")))
        assert names["THEIRS"] == "1"
        assert names["HOME"] == "/home/of/the/host"
        # the interpreter of the fixture may add its own locale
        assert set(names) - {"LC_CTYPE"} <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "THEIRS"}

    @spec("W-RES-1", "W-RES-2")
    async def test_a_page_of_resources_is_passed_on_as_it_is(self, host: Host) -> None:
        address = await host.start(light("files", "--resources", "3", "--page-size", "2"))
        page = await host.bus.ask(address, ListResources())
        assert [item["uri"] for item in json.loads(page.resources.data)] == ["memo://note/0", "memo://note/1"]
        rest = await host.bus.ask(address, ListResources(page.next_cursor))
        assert [item["uri"] for item in json.loads(rest.resources.data)] == ["memo://note/2"]
        assert rest.next_cursor is None

    @spec("W-RES-2")
    async def test_a_server_without_resources_is_4015_and_a_stopped_one_4014(self, host: Host) -> None:
        address = await host.start(light("files"))
        with pytest.raises(PeerError) as refused:
            await host.bus.ask(address, ListResources())
        assert (refused.value.wire_code, refused.value.payload["capability"]) == (4015, "resources")
        await host.stop("files")
        with pytest.raises(PeerError) as refused:
            await host.bus.ask(address, ListResources())
        assert (refused.value.wire_code, refused.value.payload["mcp_server"]) == (4014, "files")

    async def test_a_resource_is_read_by_its_raw_uri(self, host: Host) -> None:
        address = await host.start(light("files", "--resources", "1"))
        read = await host.bus.ask(address, ReadResource("memo://note/0", timeout=5.0))
        assert json.loads(read.contents.data)[0]["text"] == "text of memo://note/0"

    @spec("DEC-6")
    async def test_tools_that_a_server_forgot_to_declare_are_found(self, host: Host) -> None:
        await host.start(sloppy("sloppy", tools=True))
        assert host.tools("sloppy") == ["echo"]
        await host.start(sloppy("empty", tools=False))
        assert host.tools("empty") == []
        assert (await host.status("empty")).notes == ()

    @spec("DEC-6", "C-GEN-9")
    async def test_a_malformed_tool_costs_itself_and_leaves_a_note(self, host: Host) -> None:
        await host.start(light("files", "--bad-tool", "--tools", "echo"))
        assert host.tools("files") == ["echo"]
        assert any("set aside" in note for note in (await host.status("files")).notes)

    @spec("DEC-6")
    async def test_noise_on_stdout_is_skipped_counted_and_reported(self, host: Host) -> None:
        await host.start(light("files", "--noise", "--tools", "garbage"))
        assert text_of(await host.call("files", "garbage")) == "after the garbage"
        assert any("on stdout that are no messages" in note for note in (await host.status("files")).notes)

    @spec("DEC-6", "C-GEN-8", "F-41")
    async def test_all_pages_are_followed_and_a_repeated_cursor_ends_the_listing_with_a_note(self, host: Host) -> None:
        await host.start(light("files", "--tools", "", "--count", "7", "--page-size", "2"))
        assert host.tools("files") == [f"tool_{index:04d}" for index in range(7)]
        await host.start(light("loop", "--tools", "echo", "--repeat-cursor"))
        assert any("cursor" in note for note in (await host.status("loop")).notes)

    @spec("F-40")
    async def test_a_line_of_thirty_megabytes_is_one_result_like_any_other(self, host: Host) -> None:
        await host.start(light("files", "--tools", "big"))
        outcome = await host.call("files", "big", {"bytes": 30_000_000}, timeout=20.0)
        assert len(text_of(outcome)) == 30_000_000


class TestChanges:
    @spec("R-MCP-27", "F-01", "C-GEN-12")
    async def test_a_change_announced_in_the_middle_of_a_call_neither_hangs_nor_is_lost(self, host: Host) -> None:
        await host.start(light("files", "--tools", "add_tool", "--resources", "1"))
        with anyio.fail_after(1.0):
            assert text_of(await host.call("files", "add_tool", {"name": "fresh"})) == "added fresh"
            await host.eventually(lambda: "fresh" in host.tools("files"))

    @spec("DEC-4")
    async def test_a_server_that_announces_nothing_is_listed_again_after_a_call(
        self, host: Host, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(refresh, "UNASKED_GAP", 0.5)
        await host.start(light("files", "--tools", "add_tool", "--no-list-changed"))
        await host.call("files", "add_tool", {"name": "fresh"})
        await host.eventually(lambda: "fresh" in host.tools("files"))

    @spec("C-DOC-20")
    async def test_who_asks_hears_which_list_is_up_to_date(self, host: Host) -> None:
        address = await host.start(light("files", "--resources", "2"))
        relisted = await host.bus.ask(address, RelistResources(), timeout=5.0)
        shown = host.seen(ResourcesListed, "files")[-1]
        assert relisted.digest == list_digest(shown.resources.data)
        await host.stop("files")
        assert (await host.bus.ask(address, RelistResources())).digest == ""

    @spec("R-PROJ-5")
    async def test_an_equal_list_is_not_published_again(self, host: Host) -> None:
        await host.start(light("files", "--tools", "echo,remove_tool"))
        await host.call("files", "remove_tool", {"name": "no such tool"})
        await host.call("files", "remove_tool", {"name": "echo"})
        await host.eventually(lambda: host.tools("files") == ["remove_tool"])
        assert len(host.seen(ToolsListed, "files")) == 2


class TestFailingStarts:
    @spec("F-25", "R-LIFE-7", "R-MCP-21")
    @pytest.mark.parametrize(
        ("flags", "code", "words"),
        [
            (("--exit-at-once", "3"), "ended_early", "status 3"),
            (("--exit-on-initialize", "4"), "ended_early", "status 4"),
            (("--mute-initialize",), "start_timeout", "1.5 s"),
        ],
    )
    async def test_a_server_that_does_not_come_up_says_why(
        self, host: Host, flags: tuple[str, ...], code: str, words: str
    ) -> None:
        address = await host.add(light("bad", *flags, start_timeout=1.5, reconnect=ReconnectPolicy(max_retries=1)))
        await host.bus.ask(address, StartServer())
        status = await host.until("bad", phase="backing_off")
        assert (status.category, status.code, status.connection) == ("startup", code, "error")
        assert status.reason is not None
        assert words in status.reason

    @spec("F-25", "F-36")
    async def test_a_missing_command_is_named(self, host: Host) -> None:
        plan = LaunchPlan("bad", "bad (display)", "stdio", command="no-such-command", reconnect=NEVER)
        await host.bus.ask(await host.add(plan), StartServer())
        status = await host.until("bad", phase="parked")
        assert (status.reason, status.code) == ("command not found: no-such-command", "command_not_found")

    @spec("F-19", "F-36")
    async def test_the_last_words_on_stderr_are_in_the_reason_and_the_tail(
        self, host: Host, capfd: pytest.CaptureFixture[str]
    ) -> None:
        await host.bus.ask(await host.add(light("bad", "--exit-at-once", "3", reconnect=NEVER)), StartServer())
        status = await host.until("bad", phase="parked")
        assert status.stderr_tail
        assert status.reason is not None
        assert status.stderr_tail[-1] in status.reason
        assert capfd.readouterr().err == ""

    @spec("R-MCP-23", "R-INPUT-23")
    async def test_the_log_says_why_a_server_died_and_when_it_is_tried_again(
        self, host: Host, caplog: pytest.LogCaptureFixture
    ) -> None:
        script = f"import sys; print('boom: no database for {SECRET}', file=sys.stderr); sys.exit(3)"
        once = ReconnectPolicy(initial_delay=0.05, max_delay=0.1, max_retries=1)
        await host.bus.ask(await host.add(failing(script, SECRET, once)), StartServer())
        await host.until("bad", phase="parked")
        why = r"the server .*; stderr: boom: no database for \[REDACTED\]"
        down, parked = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert re.fullmatch(rf"bad is down: {why}; next try in 0\.\d s", down)
        assert re.fullmatch(rf"bad is parked: {why}; next try in [23]\d\d\.\d s", parked)

    @spec("R-MCP-22")
    async def test_the_log_says_why_a_server_that_was_up_is_down(
        self, host: Host, caplog: pytest.LogCaptureFixture
    ) -> None:
        await host.start(light("files", reconnect=NEVER))
        pid = (await host.status("files")).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        status = await host.until("files", phase="parked")
        (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert status.reason
        assert line == f"files is parked: {status.reason}; no further try"

    @spec("F-19")
    async def test_five_megabytes_on_stderr_without_a_line_end_do_not_keep_a_server_from_connecting(
        self, host: Host
    ) -> None:
        await host.start(light("loud", "--stderr-bytes", "5000000"))
        tail = (await host.status("loud")).stderr_tail
        assert sum(map(len, tail)) <= 20 * 4096

    @spec("R-MCP-23", "DEC-1")
    @pytest.mark.parametrize(
        "error",
        [
            MissingInputError("the input token has no value", input_id="token"),
            StartupError("rendering would change the identity", code="identity_drift"),
            ConfigValidationError("the command is empty"),
        ],
    )
    async def test_what_waiting_cannot_cure_parks_at_once_and_is_tried_again_slowly(
        self, host: Host, error: Exception
    ) -> None:
        address = await host.add(error, "bad")  # type: ignore[arg-type]
        await host.bus.ask(address, StartServer())
        status = await host.until("bad", phase="parked")
        assert status.category == error.category  # type: ignore[attr-defined]
        assert status.next_try_at == pytest.approx(time.time() + 300.0, abs=10.0)

    @spec("DEC-3", "F-22")
    async def test_a_start_that_outlives_its_budget_gives_its_place_to_the_next(self, host: Host) -> None:
        host.reconcile.cap = 2
        for name in ("mute1", "mute2"):
            plan = light(name, "--mute-initialize", start_timeout=1.0, reconnect=NEVER)
            await host.bus.ask(await host.add(plan), StartServer())
        for name in ("good1", "good2", "good3"):
            await host.bus.ask(await host.add(light(name)), StartServer())
        for name in ("good1", "good2", "good3"):
            await host.until(name, phase="ready")
        assert host.reconcile.most == 2
        await wait_for(lambda: host.reconcile.starting == set())

    @spec("F-59", "DEC-1")
    async def test_a_manual_start_after_the_cause_is_gone_brings_a_parked_server_up(self, host: Host) -> None:
        address = await host.add(light("bad", "--exit-at-once", "3", reconnect=NEVER))
        await host.bus.ask(address, StartServer())
        await host.until("bad", phase="parked")
        host.reconcile.plans["bad"] = light("bad")
        await host.bus.ask(address, StartServer())
        status = await host.until("bad", phase="ready")
        assert (status.reason, status.retries) == (None, 0)

    @spec("F-59")
    @pytest.mark.parametrize("parked", [False, True])
    async def test_without_anybody_starting_it_it_comes_up_at_the_next_attempt_after_the_cause_is_gone(
        self, host: Host, *, parked: bool
    ) -> None:
        policy = ReconnectPolicy(initial_delay=0.3, max_delay=0.3, park_retry=0.3, max_retries=1 if parked else 9)
        address = await host.add(light("bad", "--exit-at-once", "3", reconnect=policy))
        await host.bus.ask(address, StartServer())
        await host.until("bad", phase="parked" if parked else "backing_off")
        host.reconcile.plans["bad"] = light("bad", reconnect=policy)
        assert (await host.until("bad", phase="ready")).reason is None
        assert (await host.call("bad", "echo")).ended == "answered"


class TestLoss:
    @spec("F-64", "R-MCP-22")
    async def test_a_killed_server_is_noticed_within_a_second_and_comes_back(self, host: Host) -> None:
        await host.start(light("files", reconnect=QUICK))
        pid = (await host.status("files")).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await host.until("files", phase="backing_off", timeout=1.0)
        assert host.tools("files") == []
        again = await host.until("files", phase="ready")
        assert again.pid != pid
        assert host.sessions("files") == 2

    @spec("C-GEN-15", "C-DESK-8", "R-LIFE-26")
    async def test_a_session_of_a_later_life_is_told_from_every_earlier_one_by_those_who_missed_the_death(
        self, host: Host
    ) -> None:
        address = await host.start(light("files"))
        with Observer(host.bus, ActorUp) as lives, anyio.fail_after(5):
            assert host.supervisor.kill_child(address)
            assert (await anext(aiter(lives))).address == address
        await host.bus.ask(address, StartServer())
        await host.eventually(lambda: len(host.seen(ToolsListed, "files")) == 2)
        first, second = (fact.session for fact in host.seen(ToolsListed, "files"))
        assert first < second

    @spec("DEC-25", "C-14", "F-64")
    async def test_a_call_to_a_lost_server_is_answered_at_once_with_its_state(self, host: Host) -> None:
        await host.start(light("files", "--tools", "die", reconnect=ReconnectPolicy(initial_delay=30.0)))
        await host.call("files", "die")
        await host.until("files", phase="backing_off")
        outcome = await host.call("files", "die")
        assert (outcome.ended, outcome.executed) == ("not_connected", "no")
        assert "restarting" in outcome.text

    @spec("DEC-10", "F-48")
    async def test_a_call_whose_answer_is_lost_is_unknown_and_was_made_once(self, host: Host, tmp_path: Path) -> None:
        await host.start(light("files", "--tools", "append_then_die", reconnect=QUICK))
        outcome = await host.call("files", "append_then_die", {"path": str(tmp_path / "log")})
        assert (outcome.ended, outcome.executed, outcome.attempts) == ("failed", "unknown", 1)
        assert (tmp_path / "log").read_text() == "called\n"

    @spec("DEC-10", "F-48")
    async def test_a_repeatable_call_is_made_once_more_and_says_so_when_the_option_is_on(
        self, host: Host, tmp_path: Path
    ) -> None:
        limits = CallLimits(retry_safe_tools=True)
        await host.start(light("files", "--tools", "append_then_die", reconnect=QUICK, limits=limits))
        path = {"path": str(tmp_path / "log")}
        outcome = await host.call("files", "append_then_die", path, repeatable=True)
        assert (outcome.ended, outcome.executed, outcome.attempts) == ("failed", "unknown", 2)
        assert (tmp_path / "log").read_text() == "called\n" * 2
        outcome = await host.call("files", "append_then_die", path, repeatable=False)
        assert outcome.attempts == 1

    async def test_a_server_that_closes_its_output_mid_call_fails_the_call_and_is_restarted(self, host: Host) -> None:
        await host.start(light("files", "--tools", "close_pipe", reconnect=QUICK))
        with anyio.fail_after(2.0):
            outcome = await host.call("files", "close_pipe")
        assert (outcome.ended, outcome.executed) == ("failed", "unknown")
        await host.eventually(lambda: host.phases("files").count("ready") == 2)

    @spec("DEC-1", "DEC-35")
    async def test_a_crash_loop_is_parked_within_its_intensity_and_costs_others_nothing(self, host: Host) -> None:
        await host.start(light("good"))
        law = ReconnectPolicy(initial_delay=0.01, max_delay=0.01, max_retries=100, intensity_max=3)
        await host.bus.ask(await host.add(light("loop", "--exit-after", "0.2", reconnect=law)), StartServer())
        status = await host.until("loop", phase="parked")
        assert host.phases("loop").count("ready") == 4
        assert (status.restarts_in_window, status.next_try_at is not None) == (3, True)
        assert text_of(await host.call("good", "echo", {"text": "still here"})) == "still here"

    @spec("DEC-24", "R-MCP-22")
    async def test_a_stopped_process_is_found_though_it_lives(self, host: Host) -> None:
        health = HealthCheck(interval=0.3, timeout=0.2)
        await host.start(light("files", health=health, reconnect=QUICK))
        pid = (await host.status("files")).pid
        assert pid is not None
        with anyio.fail_after(5.0):
            await anyio.sleep(0.5)  # one answered ping, so that silence counts
        os.kill(pid, signal.SIGSTOP)
        await host.eventually(lambda: "unhealthy" in host.phases("files"))
        await host.eventually(lambda: host.phases("files").count("ready") == 2)
        assert gone(pid)

    @spec("F-50", "DEC-2", "DEC-24")
    async def test_a_server_that_ignores_ping_is_never_restarted(self, host: Host, tmp_path: Path) -> None:
        health = HealthCheck(interval=0.1, timeout=0.05)
        log = tmp_path / "received"
        await host.start(light("files", "--mute-ping", "--log", str(log), health=health))
        await wait_for(lambda: log.read_text().count('"tools/list"') >= 4)
        assert log.read_text().count('"ping"') == 1
        assert host.phases("files")[-1] == "ready"
        assert host.phases("files").count("ready") == 1


class TestStopping:
    @spec("R-LIFE-16", "DEC-13")
    async def test_a_call_in_flight_may_finish_within_the_drain(self, host: Host) -> None:
        await host.start(light("files", "--tools", "sleep"))
        async with anyio.create_task_group() as group:
            outcomes: list[ToolOutcome] = []

            async def call() -> None:
                outcomes.append(await host.call("files", "sleep", {"seconds": 0.3}))

            group.start_soon(call)
            await wait_for(lambda: host_in_flight(host) == 1)
            status = await host.stop("files", drain=5.0)
        assert (status.phase, status.activation) == ("stopped", "stopped")
        assert outcomes[0].ended == "answered"

    @spec("R-LIFE-16", "DEC-10", "DEC-13")
    async def test_a_call_that_outlasts_the_drain_ends_as_failed_and_unknown(self, host: Host) -> None:
        await host.start(light("files", "--tools", "silent"))
        async with anyio.create_task_group() as group:
            outcomes: list[ToolOutcome] = []

            async def call() -> None:
                outcomes.append(await host.call("files", "silent", timeout=30.0))

            group.start_soon(call)
            await wait_for(lambda: host_in_flight(host) == 1)
            with anyio.fail_after(3.0):
                await host.stop("files", drain=0.2)
        assert (outcomes[0].ended, outcomes[0].executed) == ("failed", "unknown")

    @spec("R-LIFE-16")
    async def test_withdrawal_comes_before_the_end(self, host: Host) -> None:
        await host.start(light("files"))
        await host.stop("files")
        await host.until("files", phase="stopped")
        last = [type(fact).__name__ for fact in host.facts]
        assert host.tools("files") == []
        assert last.index("ToolsListed", last.index("ServerStatusChanged") + 1) < len(last) - 1

    @spec("R-MCP-26", "DEC-8", "F-33")
    async def test_a_stubborn_server_with_a_grandchild_is_gone_within_five_seconds(self, host: Host) -> None:
        await host.start(light("files", "--ignore-eof", "--ignore-term", "--grandchild"))
        pid = (await host.status("files")).pid
        assert pid is not None
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        assert len(family) >= 2
        with anyio.fail_after(5.0):
            await host.stop("files")
        assert [process.pid for process in family if not gone(process.pid)] == []

    @spec("F-14")
    async def test_status_start_and_stop_answer_while_a_server_hangs_in_its_handshake(self, host: Host) -> None:
        address = await host.add(light("mute", "--mute-initialize"))
        await host.bus.ask(address, StartServer())
        await host.until("mute", phase="starting")
        with anyio.fail_after(0.2):
            assert (await host.status("mute")).connection == "connecting"
        with anyio.fail_after(3.0):
            assert (await host.stop("mute")).phase == "stopped"

    @spec("F-30")
    async def test_ten_servers_are_stopped_in_any_order_by_anybody_some_of_them_while_they_connect(
        self, host: Host, caplog: pytest.LogCaptureFixture
    ) -> None:
        names = [f"s{index}" for index in range(10)]
        for name in names[:8]:
            await host.start(light(name))
        for name in names[8:]:
            await host.bus.ask(await host.add(light(name, "--mute-initialize")), StartServer())
            await host.until(name, phase="starting")
        async with anyio.create_task_group() as group:
            for name in (names[index] for index in (3, 9, 0, 7, 1, 8, 5, 2, 6, 4)):
                group.start_soon(host.stop, name)
        assert {(await host.status(name)).phase for name in names} == {"stopped"}
        assert [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")] == []

    @spec("R-INPUT-21")
    async def test_a_restart_whose_rendering_fails_leaves_the_old_process_alone(self, host: Host) -> None:
        address = await host.start(light("files"))
        pid = (await host.status("files")).pid
        host.reconcile.plans["files"] = MissingInputError("no value", input_id="token")
        with pytest.raises(MissingInputError):
            await host.bus.ask(address, RestartServer())
        assert (await host.status("files")).pid == pid
        host.reconcile.plans["files"] = light("files", "--tools", "add")
        rendered = len(host.reconcile.rendered)
        await host.bus.ask(address, RestartServer())
        await host.eventually(lambda: host.tools("files") == ["add"])
        assert (await host.status("files")).pid != pid
        assert len(host.reconcile.rendered) == rendered + 1

    @spec("DEC-8")
    async def test_killing_the_actor_ends_its_server(self, host: Host) -> None:
        address = await host.start(light("files", "--ignore-eof", "--ignore-term", "--grandchild"))
        pid = (await host.status("files")).pid
        assert pid is not None
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        with contextlib.suppress(TimeoutError):
            host.supervisor.kill_child(Address(address))
        await wait_for(lambda: all(gone(process.pid) for process in family), 4.0)


class TestLimits:
    @spec("DEC-12", "W-CALL-10", "W-CALL-14")
    async def test_at_its_time_limit_a_call_is_cancelled_upstream_and_the_session_stays(
        self, host: Host, tmp_path: Path
    ) -> None:
        log = tmp_path / "received"
        await host.start(light("files", "--tools", "silent,echo", "--log", str(log)))
        outcome = await host.call("files", "silent", timeout=0.3)
        assert (outcome.ended, outcome.executed) == ("timeout", "unknown")
        assert text_of(await host.call("files", "echo", {"text": "on"})) == "on"
        received = [json.loads(line) for line in log.read_text().splitlines()]
        call = next(message for message in received if message.get("params", {}).get("name") == "silent")
        cancelled = next(message for message in received if message["method"] == "notifications/cancelled")
        assert cancelled["params"]["requestId"] == call["id"]

    @spec("DEC-11")
    async def test_progress_renews_the_idle_limit_but_never_the_time_limit(self, host: Host) -> None:
        limits = CallLimits(idle_timeout=0.3)
        await host.start(light("files", "--tools", "count,silent", limits=limits))
        steady = await host.call("files", "count", {"steps": 6, "delay": 0.1})
        assert steady.ended == "answered"
        assert (await host.call("files", "silent")).ended == "timeout"
        assert (await host.call("files", "count", {"steps": 20, "delay": 0.1}, timeout=0.7)).ended == "timeout"

    @spec("DEC-7", "DEC-29", "C-13")
    async def test_beyond_places_and_queue_a_call_is_busy_and_a_queued_one_waits_within_its_limit(
        self, host: Host
    ) -> None:
        await host.start(light("files", "--tools", "sleep", limits=CallLimits(max_in_flight=1, max_queued=1)))
        outcomes: dict[str, ToolOutcome] = {}

        async def call(name: str, timeout: float) -> None:
            outcomes[name] = await host.call("files", "sleep", {"seconds": 1.0}, timeout=timeout)

        async with anyio.create_task_group() as group:
            group.start_soon(call, "first", 5.0)
            await wait_for(lambda: host_in_flight(host) == 1)
            group.start_soon(call, "second", 0.2)
            await wait_for(lambda: status_of(host).queued == 1)
            await call("third", 5.0)
        assert (outcomes["third"].ended, outcomes["third"].executed) == ("busy", "no")
        assert (outcomes["second"].ended, outcomes["second"].executed) == ("timeout", "no")
        assert outcomes["first"].ended == "answered"

    @spec("DEC-29", "F-61")
    async def test_five_time_limits_open_the_tools_breaker_and_leave_other_tools_alone(self, host: Host) -> None:
        law = ReconnectPolicy(initial_delay=0.5, max_delay=0.5)
        await host.start(light("files", "--tools", "sleep,echo", reconnect=law))
        for _ in range(5):
            assert (await host.call("files", "sleep", {"seconds": 9}, timeout=0.05)).ended == "timeout"
        assert (await host.call("files", "sleep", {"seconds": 0}, timeout=5.0)).ended == "busy"
        assert (await host.call("files", "echo")).ended == "answered"
        with anyio.fail_after(3.0):
            while (await host.call("files", "sleep", {"seconds": 0})).ended == "busy":  # noqa: ASYNC110
                await anyio.sleep(0.05)
        assert (await host.call("files", "sleep", {"seconds": 0})).ended == "answered"

    @spec("DEC-29", "DEC-10")
    async def test_a_trial_that_the_encoding_cannot_write_leaves_the_breaker_to_the_next_call(self, host: Host) -> None:
        law = ReconnectPolicy(initial_delay=0.1, max_delay=0.1)
        await host.start(light("files", "--tools", "sleep", reconnect=law, encoding="latin-1"))
        for _ in range(5):
            assert (await host.call("files", "sleep", {"seconds": 9}, timeout=0.05)).ended == "timeout"
        unwritable = CallTool("sleep", Attachment('{"seconds": 0, "note": "漢"}'.encode()), 5.0)
        with anyio.fail_after(10.0):
            while (outcome := await host.bus.ask(host.address("files"), unwritable)).ended == "busy":  # noqa: ASYNC110
                await anyio.sleep(0.02)
        assert (outcome.ended, outcome.executed) == ("failed", "no")
        assert "latin-1" in outcome.text
        assert (await host.call("files", "sleep", {"seconds": 0})).ended == "answered"

    @spec("DEC-29")
    async def test_a_trial_that_ends_in_a_way_nobody_expected_leaves_the_breaker_to_the_next_call(self) -> None:
        ends: list[Exception | None] = [*(TimeLimitReached(1.0) for _ in range(5)), RuntimeError("unforeseen"), None]

        class Scripted:
            async def call(self, *_: object, **__: object) -> bytes:
                end = ends.pop(0)
                if end is not None:
                    raise end
                return b"{}"

        calls = Calls(Scripted(), CallLimits(), lambda _: 0.0)  # type: ignore[arg-type]
        call = CallTool("echo", Attachment(b"{}"), 5.0)
        for _ in range(5):
            assert (await calls.run(call, anyio.current_time() + 5.0)).ended == "timeout"
        with pytest.raises(RuntimeError, match="unforeseen"):
            await calls.run(call, anyio.current_time() + 5.0)
        assert (await calls.run(call, anyio.current_time() + 5.0)).ended == "answered"

    @spec("DEC-10")
    async def test_a_result_whose_type_cannot_be_read_fails_its_call_as_executed(self, host: Host) -> None:
        plan = LaunchPlan("odd", "odd (display)", "stdio", command=sys.executable, args=("-c", ODD_RESULTS))
        await host.start(plan)
        outcome = await host.call("odd", "echo")
        assert (outcome.ended, outcome.executed) == ("failed", "yes")
        assert "type of the result" in outcome.text


def status_of(host: Host) -> ServerStatus:
    """The status as the actor would tell it, read in place so that a condition needs no await."""
    child = host.supervisor._children[Address("mcp/files")]
    assert child.runner is not None
    status: ServerStatus = child.runner.actor._status()  # type: ignore[attr-defined]
    return status


def host_in_flight(host: Host) -> int:
    return status_of(host).in_flight


class TestSecrets:
    @spec("R-INPUT-23")
    async def test_a_secret_that_the_server_prints_is_not_in_its_status(self, host: Host) -> None:
        script = "import sys; print('token is hunter22', file=sys.stderr); sys.exit(5)"
        await host.bus.ask(await host.add(failing(script, "hunter22")), StartServer())
        status = await host.until("bad", phase="parked")
        assert "hunter22" not in repr(status)
        assert status.stderr_tail == ("token is [REDACTED]",)

    @spec("R-INPUT-23")
    @pytest.mark.parametrize("before", [f"{'x' * 292}", f"{'x' * 500}"], ids=["reason", "tail"])
    async def test_a_secret_in_a_line_that_is_shown_cut_is_not_shown_in_part(self, host: Host, before: str) -> None:
        after = "y" * (4096 - len(SECRET) + 1) if len(before) > 300 else " refused"
        script = f"import os, sys; print('{before}' + os.environ['TOKEN'] + '{after}', file=sys.stderr); sys.exit(3)"
        await host.bus.ask(await host.add(failing(script, SECRET)), StartServer())
        status = await host.until("bad", phase="parked")
        assert status.stderr_tail
        assert not [part for at in range(len(SECRET) - 3) if (part := SECRET[at : at + 4]) in repr(status)]

    def test_a_plan_shows_none_of_its_values(self) -> None:
        assert "hunter22" not in repr(light("files", "--token", "hunter22", env={"TOKEN": "hunter22"}))


class TestResources:
    async def test_what_a_server_does_not_declare_is_published_as_not_declared(self, host: Host) -> None:
        await host.start(light("files"))
        (listed,) = host.seen(ResourcesListed, "files")
        assert (listed.declared, listed.resources.data) == (False, b"[]")

    async def test_resources_follow_the_tools_in_the_background(self, host: Host) -> None:
        await host.start(light("files", "--resources", "2"))
        (listed,) = await host.eventually(lambda: host.seen(ResourcesListed, "files"))
        assert (listed.declared, len(json.loads(listed.resources.data))) == (True, 2)
