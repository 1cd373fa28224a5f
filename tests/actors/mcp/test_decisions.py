"""The small pure decisions: listings, probes, breakers, places, rounds, outcomes, refusals, causes."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smcp_runtime.actors.mcp import outcome
from smcp_runtime.actors.mcp.failures import (
    AuthorizationFailed,
    ConnectionLost,
    ErrorAnswer,
    HandshakeFailed,
    RedirectRefused,
    RequestFailed,
    SessionForgotten,
    StartLimitReached,
    TimeLimitReached,
    UnusableAnswer,
    UpstreamFailed,
)
from smcp_runtime.actors.mcp.life import launcher_of
from smcp_runtime.actors.mcp.session.listing import Kind, Listing, Page, read_page
from smcp_runtime.actors.mcp.session.refresh import Refresh
from smcp_runtime.actors.mcp.session.sdk.param_headers import ParamHeaders
from smcp_runtime.actors.mcp.status import complaint
from smcp_runtime.actors.mcp.supervision.breaker import Breaker, Breakers
from smcp_runtime.actors.mcp.supervision.bulkhead import Bulkhead
from smcp_runtime.actors.mcp.supervision.health import Health
from smcp_runtime.actors.mcp.supervision.start_failure import cause_of
from smcp_runtime.actors.mcp.transports.environment import child_environment
from smcp_runtime.actors.mcp.transports.refusal import authorization_signal, refusal
from smcp_runtime.wire.errors import AuthError, MissingInputError, StartupError
from smcp_runtime.wire.messages.mcp import HealthCheck, LaunchPlan, ServerStatus

spec = pytest.mark.spec


def page(*items: Any, cursor: str | None = None) -> Page:
    return Page(json.dumps(items).encode(), cursor)


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


class TestListing:
    def test_pages_are_joined_in_order_and_items_stay_as_sent(self) -> None:
        listing = Listing("tools")
        assert listing.add(Page(b'[{"name":"a", "inputSchema":{}, "own" : 1.0}]', "2")) == "2"
        assert listing.add(page(tool("b"))) is None
        assert (
            listing.json()
            == b'[{"name":"a", "inputSchema":{}, "own" : 1.0},{"name": "b", "inputSchema": {"type": "object"}}]'
        )
        assert listing.notes() == ()

    @spec("DEC-6", "C-GEN-9")
    @pytest.mark.parametrize(
        "bad",
        [
            7,
            None,
            {"name": 7, "inputSchema": {}},
            {"name": "no schema"},
            {"name": "schema", "inputSchema": "none"},
            tool("annotations", annotations="x"),
            tool("meta", _meta=[1]),
            tool("description", description=1),
        ],
    )
    def test_a_malformed_tool_costs_itself(self, bad: Any) -> None:
        listing = Listing("tools")
        listing.add(page(tool("a"), bad, tool("b")))
        assert [item["name"] for item in json.loads(listing.json())] == ["a", "b"]
        (note,) = listing.notes()
        assert "item 1 of page 1 set aside" in note

    @spec("C-GEN-9")
    def test_a_resource_with_odd_annotations_stays(self) -> None:
        listing = Listing("resources")
        odd = {"uri": "window://a", "annotations": {"priority": 7}, "_meta": 1}
        listing.add(page(odd, {"name": "no uri"}))
        assert json.loads(listing.json()) == [odd]

    @spec("DEC-6", "C-GEN-8")
    def test_a_cursor_that_comes_again_ends_the_listing_with_a_note_and_keeps_what_was_read(self) -> None:
        listing = Listing("tools")
        assert listing.add(page(tool("a"), cursor="x")) == "x"
        assert listing.add(page(tool("b"), cursor="y")) == "y"
        assert listing.add(page(tool("c"), cursor="x")) is None
        assert len(json.loads(listing.json())) == 3
        assert "cursor" in listing.notes()[0]

    @spec("DEC-6", "C-GEN-8")
    def test_a_thousand_pages_are_read_and_no_more(self) -> None:
        listing = Listing("resources")
        pages = 0
        cursor: str | None = "0"
        while cursor is not None:
            pages += 1
            cursor = listing.add(page({"uri": f"a://{pages}"}, cursor=str(pages)))
        assert pages == 1000
        assert "more than 1000 pages" in listing.notes()[0]

    def test_so_are_only_so_many_bytes(self) -> None:
        listing = Listing("tools", max_bytes=100)
        assert listing.add(page(tool("a" * 100), cursor="x")) is None

    def test_many_malformed_items_make_few_notes(self) -> None:
        listing = Listing("tools")
        listing.add(page(*range(500)))
        assert len(listing.notes()) == 11
        assert listing.notes()[-1] == "490 more tools set aside"

    def test_a_page_that_is_no_list_is_reported(self) -> None:
        listing = Listing("tools")
        listing.add(Page(b'{"a":1}'))
        assert listing.notes() == ("page 1 of tools is not a list",)

    @pytest.mark.parametrize(
        ("result", "cursor"),
        [
            (b'{"tools":[]}', None),
            (b'{"tools":[],"nextCursor":null}', None),
            (b'{"tools":[],"nextCursor":""}', None),
            (b'{"tools":[],"nextCursor":"a"}', "a"),
            (b'{"tools":[],"nextCursor":7}', "7"),
        ],
    )
    def test_the_cursor_is_read_leniently(self, result: bytes, cursor: str | None) -> None:
        assert read_page(result, "tools") == Page(b"[]", cursor)

    def test_a_tool_with_invalid_header_marks_is_set_aside_and_the_valid_one_mirrors_its_argument(self) -> None:
        def marked(name: str, mark: str) -> dict[str, Any]:
            return {
                "name": name,
                "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": mark}}},
            }

        listing, headers = Listing("tools"), ParamHeaders()
        listing.add(page(marked("good", "Region"), marked("bad", "not a token"), tool("plain")))
        raw = Listing("tools")
        raw.add(Page(json.dumps([json.loads(bytes(item)) for item in listing.items()], separators=(",", ":")).encode()))
        headers.absorb(raw)
        assert [item["name"] for item in json.loads(raw.json())] == ["good", "plain"]
        assert headers.of("good", b'{"region": "eu"}') == {"Mcp-Param-Region": "eu"}
        assert headers.of("plain", b"{}") == {}


class TestHealth:
    def health(self, *, modern: bool = False, **sizes: int | None) -> Health:
        declared: dict[Kind, int | None] = sizes  # type: ignore[assignment]
        return Health(HealthCheck(interval=30.0), modern=modern, declared=declared)

    @spec("R-MCP-22", "DEC-2")
    def test_a_probe_is_due_an_interval_after_the_last_sign_of_life(self) -> None:
        health = self.health()
        assert health.due(last_received=100.0, last_work=None) == 130.0
        assert health.due(last_received=100.0, last_work=115.0) == 145.0
        health.asked(200.0)
        assert health.due(last_received=100.0, last_work=115.0) == 230.0

    @spec("DEC-24", "R-MCP-22")
    def test_two_silences_in_a_row_are_enough_where_a_ping_was_answered_before(self) -> None:
        health = self.health(tools=10)
        health.answered("ping")
        assert health.unanswered("ping", heard=False, working=False) == "ask_again"
        assert health.request() == "ping"
        assert health.unanswered("ping", heard=False, working=False) == "unhealthy"

    def test_an_answer_in_between_starts_over(self) -> None:
        health = self.health(tools=10)
        health.answered("ping")
        health.unanswered("ping", heard=False, working=False)
        health.answered("ping")
        assert health.unanswered("ping", heard=False, working=False) == "ask_again"

    @spec("DEC-24", "F-50")
    def test_a_ping_that_was_never_answered_counts_for_nothing_and_the_cheapest_list_is_asked(self) -> None:
        health = self.health(tools=500, resources=20)
        assert health.unanswered("ping", heard=False, working=False) == "ask_again"
        assert health.request() == "resources/list"
        assert health.unanswered("resources/list", heard=False, working=False) == "ask_again"
        assert health.unanswered("resources/list", heard=False, working=False) == "unhealthy"

    @spec("DEC-24", "F-50")
    def test_a_server_that_declared_no_list_is_watched_by_its_process_alone(self) -> None:
        health = self.health()
        health.unanswered("ping", heard=False, working=False)
        assert health.request() is None

    def test_a_list_of_unknown_size_is_asked_where_no_other_is_declared(self) -> None:
        health = self.health(prompts=None)
        health.unanswered("ping", heard=False, working=False)
        assert health.request() == "prompts/list"

    @spec("DEC-2", "R-MCP-22")
    @pytest.mark.parametrize(("heard", "working"), [(True, False), (False, True)])
    def test_silence_is_not_counted_while_there_is_another_sign_of_life(self, heard: bool, working: bool) -> None:
        health = self.health(tools=1)
        health.answered("ping")
        for _ in range(5):
            assert health.unanswered("ping", heard=heard, working=working) == "alive"

    @spec("R-MCP-22", "DEC-2")
    def test_a_newer_server_is_asked_what_every_newer_server_answers(self) -> None:
        assert self.health(modern=True, tools=1).request() == "server/discover"

    def test_probing_can_be_switched_off(self) -> None:
        assert Health(HealthCheck(enabled=False), modern=False, declared={}).request() is None


class TestBreaker:
    def breaker(self) -> Breaker:
        return Breaker(lambda opened: 10.0 * 2**opened)

    def fail(self, breaker: Breaker, times: int = 5) -> None:
        for _ in range(times):
            breaker.failure(100.0)

    @spec("DEC-29", "F-61")
    def test_four_failures_in_a_row_leave_it_closed_and_the_fifth_opens_it(self) -> None:
        breaker = self.breaker()
        self.fail(breaker, 4)
        assert breaker.admits(100.0)
        breaker.success()
        self.fail(breaker, 4)
        assert breaker.admits(100.0)
        self.fail(breaker, 1)
        assert not breaker.admits(100.0)

    @spec("DEC-29", "F-61")
    def test_after_the_delay_one_trial_passes_and_its_success_closes(self) -> None:
        breaker = self.breaker()
        self.fail(breaker)
        assert not breaker.admits(109.9)
        assert breaker.admits(110.0)
        assert not breaker.admits(110.0)
        breaker.success()
        assert breaker.admits(110.0)

    @spec("DEC-29")
    def test_a_failed_trial_opens_for_longer(self) -> None:
        breaker = self.breaker()
        self.fail(breaker)
        assert breaker.admits(110.0)
        breaker.failure(111.0)
        assert breaker.open_until == 131.0

    def test_a_trial_that_says_nothing_makes_room_for_another(self) -> None:
        breaker = self.breaker()
        self.fail(breaker)
        assert breaker.admits(110.0)
        breaker.undecided()
        assert breaker.admits(110.0)

    def test_calls_that_were_under_way_do_not_prolong_it(self) -> None:
        breaker = self.breaker()
        self.fail(breaker)
        breaker.failure(105.0)
        assert breaker.open_until == 110.0

    @spec("DEC-29", "F-61")
    def test_the_breaker_of_one_tool_leaves_the_others_alone_and_time_limits_never_open_the_servers(self) -> None:
        breakers = Breakers(lambda _: 10.0)
        for _ in range(5):
            breakers.failed("slow", 100.0, transport=False)
        assert (breakers.is_open("slow", 100.0), breakers.is_open("other", 100.0)) == (True, False)
        assert (breakers.admits("slow", 100.0), breakers.admits("other", 100.0)) == (False, True)

    @spec("DEC-29")
    def test_transport_failures_over_all_tools_open_the_servers_and_no_call_is_its_trial(self) -> None:
        breakers = Breakers(lambda _: 10.0)
        for name in "abcde":
            breakers.failed(name, 100.0, transport=True)
        assert breakers.server.open_until == 110.0
        assert not breakers.admits("f", 200.0)
        breakers.server.success()
        assert breakers.admits("f", 200.0)

    @spec("DEC-29")
    def test_any_answer_starts_the_count_over(self) -> None:
        breakers = Breakers(lambda _: 10.0)
        for _ in range(20):
            for _ in range(4):
                breakers.failed("a", 100.0, transport=True)
            breakers.answered("a")
        assert breakers.admits("a", 100.0)


class TestBulkhead:
    @spec("DEC-7")
    def test_places_then_queue_then_busy_first_come_first_served(self) -> None:
        bulkhead: Bulkhead[str] = Bulkhead(2, 2)
        assert [bulkhead.enter(name) for name in "abcde"] == ["run", "run", "wait", "wait", "busy"]
        assert (bulkhead.leave(), bulkhead.leave()) == ("c", "d")
        assert (bulkhead.leave(), bulkhead.leave(), bulkhead.in_flight) == (None, None, 0)

    def test_who_gives_up_waiting_is_passed_over(self) -> None:
        bulkhead: Bulkhead[str] = Bulkhead(1, 2)
        for name in "abc":
            bulkhead.enter(name)
        assert bulkhead.give_up("b")
        assert not bulkhead.give_up("b")
        assert bulkhead.leave() == "c"

    @spec("DEC-7")
    @given(st.lists(st.sampled_from(["enter", "leave", "give up"]), max_size=60))
    def test_never_more_run_or_wait_than_allowed_and_nobody_waits_beside_a_free_place(self, steps: list[str]) -> None:
        bulkhead: Bulkhead[int] = Bulkhead(3, 4)
        running, waiting = 0, []
        for number, step in enumerate(steps):
            if step == "enter":
                entry = bulkhead.enter(number)
                running += entry == "run"
                waiting += [number] if entry == "wait" else []
            elif step == "leave" and running:
                promoted = bulkhead.leave()
                if promoted is None:
                    running -= 1
                else:
                    assert promoted == waiting.pop(0)
            elif step == "give up" and waiting:
                assert bulkhead.give_up(waiting.pop())
            assert (bulkhead.in_flight, bulkhead.queued) == (running, len(waiting))
            assert running <= 3
            assert len(waiting) <= 4
            assert not waiting or running == 3


class TestRefresh:
    @spec("C-GEN-12", "F-01")
    def test_marks_before_a_round_are_one_round_and_marks_during_it_one_more(self) -> None:
        refresh = Refresh(0.0)
        assert refresh.due(0.0) is None
        for _ in range(5):
            refresh.mark()
        assert refresh.due(0.0) == 0.0
        refresh.begin(0.0)
        assert refresh.due(0.0) is None
        for _ in range(5):
            refresh.mark()
        assert refresh.end()
        assert refresh.due(0.0) == 0.0
        refresh.begin(0.0)
        assert not refresh.end()
        assert refresh.due(0.0) is None

    @spec("F-03", "DEC-4")
    def test_a_server_that_announces_whenever_it_is_listed_is_listed_at_a_bounded_rate(self) -> None:
        refresh, now, rounds = Refresh(0.0), 0.0, 0
        while now <= 10.0:
            refresh.mark()
            due = refresh.due(now)
            assert due is not None
            now = due
            refresh.begin(now)
            refresh.end()
            rounds += 1
        assert rounds <= 10

    @spec("DEC-4")
    def test_a_mere_suspicion_makes_one_round_in_five_seconds_and_is_never_forgotten(self) -> None:
        refresh = Refresh(0.0)
        assert refresh.suspect(1.0)
        assert not refresh.suspect(1.0)
        assert (refresh.due(1.0), refresh.stale) == (5.0, False)
        assert (refresh.due(5.0), refresh.stale) == (5.0, True)
        assert not refresh.suspect(5.0)
        refresh.begin(5.0)
        assert refresh.suspect(6.0), "what is read just now may be older than the change"
        assert refresh.due(6.0) is None
        assert not refresh.end()
        assert refresh.due(7.0) == 10.0
        refresh.mark()
        assert refresh.due(7.0) == 7.0
        refresh.begin(7.0)
        refresh.end()
        assert refresh.due(20.0) is None
        assert refresh.suspect(20.0)
        assert refresh.due(20.0) == 20.0


class TestRefusal:
    @spec("U-2", "U-3", "U-7", "U-8", "W-UP-4", "W-UP-5")
    @pytest.mark.parametrize(
        ("status", "headers", "code"),
        [
            (401, {}, 4006),
            (401, {"www-authenticate": "Bearer"}, 4006),
            (403, {}, 4007),
            (403, {"www-authenticate": 'Bearer error="insufficient_scope"'}, 4007),
            (400, {"www-authenticate": "Bearer"}, 4006),
            (400, {}, None),
            (404, {}, None),
            (429, {}, None),
            (500, {}, None),
            (503, {}, None),
        ],
    )
    def test_a_status_is_authorization_only_with_a_positive_sign(
        self, status: int, headers: dict[str, str], code: int | None
    ) -> None:
        failure = refusal(status, headers)
        assert failure is not None
        assert (failure.code if isinstance(failure, AuthorizationFailed) else None) == code

    @pytest.mark.parametrize("status", [200, 202, 204, 304])
    def test_a_success_is_no_refusal(self, status: int) -> None:
        assert refusal(status, {"www-authenticate": "Bearer"}) is None

    def named(self, name: str) -> Exception:
        return type(name, (Exception,), {})("text with a token")  # type: ignore[no-any-return]

    @spec("U-1", "U-4", "U-5", "U-6")
    @pytest.mark.parametrize(
        ("name", "code"), [("OAuthRegistrationError", 4006), ("OAuthFlowError", 4006), ("OAuthTokenError", 4007)]
    )
    def test_the_librarys_own_errors_are_positive_signs(self, name: str, code: int) -> None:
        signal = authorization_signal(self.named(name))
        assert signal is not None
        assert signal.code == code
        assert "token with" not in str(signal)

    @spec("W-UP-5")
    def test_groups_and_explicit_causes_are_looked_into_but_no_implicit_context(self) -> None:
        inner = self.named("OAuthTokenError")
        caused = ValueError("outer")
        caused.__cause__ = inner
        assert authorization_signal(ExceptionGroup("several", [KeyError("x"), caused])) is not None
        unrelated = ValueError("raised while another was handled")
        unrelated.__context__ = inner
        assert authorization_signal(unrelated) is None


class TestOutcomes:
    @spec("DEC-10", "C-6", "C-7", "C-9")
    @pytest.mark.parametrize(
        ("failure", "ended", "executed", "code"),
        [
            (AuthorizationFailed(4006, "x"), "unauthorized", "no", 4006),
            (ErrorAnswer(-5, "x"), "error", "yes", -5),
            (TimeLimitReached(3.0), "timeout", "unknown", None),
            (ConnectionLost("x"), "failed", "unknown", None),
            (ConnectionLost("x", sent=False), "failed", "no", None),
            (UpstreamFailed("x", status=500), "failed", "unknown", None),
            (UnusableAnswer("x"), "failed", "yes", None),
            (SessionForgotten("id"), "failed", "no", None),
            (RedirectRefused("https://elsewhere/"), "failed", "no", None),
        ],
    )
    def test_each_failure_says_what_is_known(
        self, failure: RequestFailed, ended: str, executed: str, code: int | None
    ) -> None:
        told = outcome.failed(failure, "x")
        assert (told.ended, told.executed, told.error_code) == (ended, executed, code)

    @spec("W-ERR-6", "DEC-16")
    def test_where_an_endpoint_redirects_to_is_not_for_agents(self) -> None:
        told = outcome.failed(RedirectRefused("http://10.0.0.5:8080/mcp"), "to http://10.0.0.5:8080/mcp")
        assert "redirects" in told.text
        assert "10.0.0.5" not in told.text

    @spec("C-13", "DEC-29")
    def test_what_never_reached_the_server_was_not_executed(self) -> None:
        assert outcome.busy("full").executed == "no"
        assert outcome.timed_out_waiting(2.0).executed == "no"
        assert outcome.stopped_waiting().executed == "no"

    @spec("DEC-25", "C-14")
    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (ServerStatus("a", "stopped"), "stopped"),
            (ServerStatus("a", "started", "connecting", "queued"), "starting"),
            (ServerStatus("a", "started", "connecting", "starting", retries=1), "restarting"),
            (ServerStatus("a", "started", "error", "backing_off"), "restarting"),
            (ServerStatus("a", "started", "error", "unhealthy"), "restarting"),
            (ServerStatus("a", "started", "error", "parked", next_try_at=1100.0), "next try in 100 s"),
            (ServerStatus("a", "started", "error", "parked"), "parked after repeated failures"),
            (ServerStatus("a", "started", "authorization_required", "parked"), "waiting for authorization"),
        ],
    )
    def test_a_call_to_a_server_without_a_session_is_told_its_state(self, status: ServerStatus, words: str) -> None:
        told = outcome.not_connected(status, now=1000.0)
        assert (told.ended, told.executed) == ("not_connected", "no")
        assert told.text.endswith(words)

    @spec("R-LIFE-25")
    def test_and_nothing_of_the_diagnostics(self) -> None:
        status = ServerStatus("a", "started", "error", "backing_off", reason="/home/me/secret exited")
        assert "secret" not in outcome.not_connected(status, now=0.0).text


class TestComplaints:
    def status(self, **more: Any) -> ServerStatus:
        return ServerStatus("files", "started", "error", **more)

    def test_only_a_server_that_is_down_has_one(self) -> None:
        assert complaint(self.status(phase="ready", reason="old"), 0.0) is None
        assert complaint(self.status(phase="stopping", reason="old"), 0.0) is None

    def test_it_says_why_and_when_it_is_tried_again(self) -> None:
        down = self.status(phase="backing_off", reason="it ended", next_try_at=101.5)
        assert complaint(down, 100.0) == "files is down: it ended; next try in 1.5 s"
        assert complaint(self.status(phase="parked"), 0.0) == "files is parked: no reason known; no further try"

    def test_what_a_server_says_stays_in_one_line_and_steers_no_terminal(self) -> None:
        line = complaint(self.status(phase="parked", reason="\x1b[2J\nforged" + "x" * 10_000), 0.0)
        assert line is not None
        assert line.isprintable()
        assert len(line) < 600


class TestCauses:
    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (MissingInputError("no value", input_id="t"), ("missing_input", "missing_input", "configuration")),
            (StartupError("x", code="identity_drift"), ("startup", "identity_drift", "configuration")),
            (StartupError("x", code="command_not_found"), ("startup", "command_not_found", "passing")),
            (AuthError("x"), ("auth", "auth", "authorization")),
            (AuthorizationFailed(4007, "x"), ("auth", "4007", "authorization")),
            (StartLimitReached(3.0), ("startup", "start_timeout", "passing")),
            (ConnectionLost("x"), ("startup", "ended_early", "passing")),
            (ConnectionLost("x", sent=False), ("network", "unreachable", "passing")),
            (UpstreamFailed("x"), ("network", "upstream_failed", "passing")),
            (RedirectRefused("x"), ("network", "redirect_refused", "passing")),
            (HandshakeFailed("refused", "x"), ("startup", "refused", "passing")),
            (HandshakeFailed("version", "x"), ("startup", "version", "passing")),
            (KeyError("secret"), ("startup", "startup", "passing")),
        ],
    )
    def test_each_error_of_a_start_has_its_category(self, error: Exception, expected: tuple[str, str, str]) -> None:
        cause = cause_of(error)
        assert (cause.category, cause.code, cause.nature) == expected
        assert "secret" not in cause.text

    @spec("F-19", "F-25")
    def test_the_newest_line_that_says_something_is_shown(self) -> None:
        assert cause_of(ConnectionLost("it ended"), ("old", "no module named x", "  ")).text == (
            "it ended; stderr: no module named x"
        )


class TestEnvironment:
    @spec("R-MCP-3", "F-39")
    def test_the_plan_wins_over_the_base_and_nothing_else_comes_in(self) -> None:
        host = {"PATH": "/bin", "HOME": "/root", "SECRET": "x", "SHELL": "() { :; }"}
        assert child_environment(host, {"HOME": "/srv", "A": "1"}) == {"PATH": "/bin", "HOME": "/srv", "A": "1"}

    def test_windows_has_a_base_of_its_own(self) -> None:
        host = {"SYSTEMROOT": "C:\\Windows", "HOME": "x", "SECRET": "x"}
        assert child_environment(host, {}, windows=True) == {"SYSTEMROOT": "C:\\Windows"}

    def test_the_hosts_mapping_is_not_touched(self) -> None:
        before = dict(os.environ)
        child_environment(os.environ, {"A": "1"})
        assert dict(os.environ) == before


class TestSmall:
    @spec("DEC-3")
    @pytest.mark.parametrize(
        ("command", "launcher"),
        [("npx", "npx"), ("/usr/bin/uvx", "uvx"), ("docker.exe", "docker"), ("npx.cmd", "npx"), ("python", "")],
    )
    def test_a_launcher_is_known_by_the_file_name_of_the_command(self, command: str, launcher: str) -> None:
        assert launcher_of(LaunchPlan("a", "a (display)", "stdio", command=command)) == launcher

    def test_raw_items_compare_by_their_bytes(self) -> None:
        """What setting an item aside relies on."""
        assert msgspec.Raw(b"1") == msgspec.Raw(b"1")
