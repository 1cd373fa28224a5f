"""Tools of lazy servers: searched for, described and called, and not in the list (F-68)."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest

from smcp_runtime.actors.kernel import Actor, ChildSpec, handler
from smcp_runtime.actors.tools import lazy
from smcp_runtime.actors.tools.confirmation import ConfirmationRequest
from smcp_runtime.actors.tools.exposure import Catalogue, build
from smcp_runtime.actors.tools.shrink import ListedEntry
from smcp_runtime.bus import Observer
from smcp_runtime.wire.codec import Attachment
from smcp_runtime.wire.envelope import Address
from smcp_runtime.wire.errors import StartupError
from smcp_runtime.wire.identity import is_valid_bundle_id
from smcp_runtime.wire.messages.mcp import CallTool
from smcp_runtime.wire.messages.projection import SeatServer
from smcp_runtime.wire.messages.tools import CallEnded
from smcp_runtime.wire.protocol import NAME_SEPARATOR

from .conftest import Bench, StubServer
from .test_exposure import catalogue, names, server, tool

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F-68")]

VIEW = [lazy.CALL, lazy.DESCRIBE, lazy.SEARCH]


def encoded(**params: Any) -> bytes:
    return json.dumps(params).encode()


async def through(bench: Bench, name: str, **arguments: Any) -> dict[str, Any]:
    return await bench.call(lazy.CALL, encoded(name=name, arguments=arguments))


async def search(bench: Bench, query: str, **more: Any) -> list[str]:
    result = await bench.call(lazy.SEARCH, encoded(query=query, **more))
    return [found["name"] for found in result["structuredContent"]["tools"]]


class TestView:
    """What the list shows."""

    def test_no_tool_of_a_server_can_have_the_name_of_one_of_ours(self) -> None:
        assert all(NAME_SEPARATOR not in name for name in lazy.NAMES)
        assert is_valid_bundle_id(lazy.OWNER), "peers may check it as one"

    def test_it_is_the_same_bytes_whatever_lazy_servers_there_are_and_whether_they_are_up(self) -> None:
        one = catalogue(server("a", tool("x"), lazy=True, connected=False))
        many = catalogue(*(server(f"s{n}", tool("x"), tool("y"), lazy=True, connected=n % 2 == 0) for n in range(9)))
        assert (names(one), one.tools, one.signature) == (VIEW, many.tools, many.signature)

    def test_it_stands_beside_the_tools_of_other_servers_in_the_order_of_names(self) -> None:
        assert names(catalogue(server("a", tool("x")), server("z", tool("x")), server("l", tool("x"), lazy=True))) == [
            "a__x",
            *VIEW,
            "z__x",
        ]

    def test_without_a_lazy_server_that_may_run_there_is_none_of_it(self) -> None:
        assert names(catalogue(server("a", tool("x")), server("l", tool("x"), lazy=True, disabled=True))) == ["a__x"]

    def test_it_never_gives_way_to_make_a_list_fit(self) -> None:
        crowd = [server(f"s{n:03d}", tool("x", description="d" * 300)) for n in range(50)]
        built = build([*crowd, server("l", tool("x"), lazy=True)], Catalogue(), 4000)
        assert len(built.tools) <= 4000
        assert set(VIEW) <= set(names(built))


class TestSearch:
    """Which tools are found, and how they are shown."""

    @staticmethod
    def found(query: str, **descriptions: str) -> list[str]:
        known = [ListedEntry(name, "b", text, b"{}", None, {}) for name, text in descriptions.items()]  # type: ignore[arg-type]
        result = lazy.search(encoded(query=query), known)
        return [one["name"] for one in result["structuredContent"]["tools"]]

    def test_a_word_of_the_name_counts_more_than_one_of_the_description(self) -> None:
        assert self.found("issue", b__note="Files an issue.", b__issue_list="Lists.", b__other="Nothing.") == [
            "b__issue_list",
            "b__note",
        ]

    def test_more_words_that_fit_count_more(self) -> None:
        assert self.found("Send MAIL", b__a_mail="", b__mail_send="", b__send_x="") == [
            "b__mail_send",
            "b__a_mail",
            "b__send_x",
        ]

    def test_without_words_all_are_found_by_name(self) -> None:
        assert self.found("", b__z="", b__a="") == ["b__a", "b__z"]

    def test_a_description_is_shown_as_one_short_line(self) -> None:
        known = [ListedEntry("b__x", "b", "\n  First   line \nSecond", b"{}", None, {})]  # type: ignore[arg-type]
        long = [ListedEntry("b__y", "b", "w" * 999, b"{}", None, {})]  # type: ignore[arg-type]
        shown = lazy.search(encoded(query=""), [*known, *long])["structuredContent"]["tools"]
        assert shown[0]["description"] == "First line"
        assert len(shown[1]["description"]) == lazy.LINE

    def test_it_is_bounded_and_says_how_many_there_are(self) -> None:
        known = [ListedEntry(f"b__{n:03d}", "b", "", b"{}", None, {}) for n in range(200)]  # type: ignore[arg-type]
        for limit, shown in ((0, 1), (7, 7), (10_000, lazy.MOST)):
            result = lazy.search(encoded(query="", limit=limit), known)["structuredContent"]
            assert (len(result["tools"]), result["total"]) == (shown, 200)


class TestCalls:
    """A call through ours is a call of the tool it names, with all that is asked and told of it."""

    async def test_it_reaches_the_server_that_is_not_connected_and_may_wake_it(self, bench: Bench) -> None:
        await bench.start()
        await bench.serve("db", "query", lazy=True, connected=False)
        for result in (await through(bench, "db__query", sql="x"), await bench.call("db__query", encoded(sql="x"))):
            assert result["content"][0]["text"] == "done"
        calls = bench.servers["db"].calls
        assert [(call.tool, json.loads(call.arguments.data), call.wake) for call in calls] == [
            ("query", {"sql": "x"}, True)
        ] * 2

    async def test_a_server_without_an_actor_is_given_one_by_reconcile(self, bench: Bench) -> None:
        seated: list[str] = []

        class Reconcile(Actor):
            @handler
            async def seat(self, message: SeatServer) -> None:
                seated.append(message.bundle_id)
                bench.servers["db"] = StubServer()
                await bench.supervisor.start_child(ChildSpec(Address("mcp/db"), lambda: bench.servers["db"]))

        await bench.start()
        await bench.supervisor.start_child(ChildSpec(Address("reconcile"), Reconcile))
        await bench.serve("db", "query", lazy=True, connected=False, running=False)
        assert (await through(bench, "db__query"))["content"][0]["text"] == "done"
        assert seated == ["db"]

    async def test_one_that_gets_none_was_not_executed(self, bench: Bench) -> None:
        class Reconcile(Actor):
            @handler
            def seat(self, message: SeatServer) -> None:
                """A server that is not wanted gets none."""

        await bench.start()
        await bench.supervisor.start_child(ChildSpec(Address("reconcile"), Reconcile))
        await bench.serve("db", "query", lazy=True, connected=False, running=False)
        meta = (await through(bench, "db__query"))["meta"]
        assert (meta["error_code"], meta["a2c_outcome"], meta["mcp_server"]) == (4003, "not_executed", "db")

    async def test_one_whose_actor_does_not_start_or_not_in_time_was_not_executed(self, bench: Bench) -> None:
        class Reconcile(Actor):
            @handler(concurrent=2)
            async def seat(self, message: SeatServer) -> None:
                if message.bundle_id == "slow":
                    await anyio.sleep_forever()
                raise StartupError("no", code="no")

        await bench.start(answer_grace=0.1)
        await bench.supervisor.start_child(ChildSpec(Address("reconcile"), Reconcile))
        for bundle_id, code in (("bad", 4003), ("slow", 4004)):
            await bench.serve(bundle_id, "query", lazy=True, connected=False, running=False)
            meta = (await bench.call(f"{bundle_id}__query", timeout=1))["meta"]
            assert (meta["error_code"], meta["a2c_outcome"], meta["mcp_server"]) == (code, "not_executed", bundle_id)

    async def test_forbidden_and_unknown_tools_are_refused_and_found_by_no_search(self, bench: Bench) -> None:
        await bench.start()
        await bench.serve("db", "query", "drop", lazy=True, connected=False, forbidden=("drop",))
        await bench.serve("off", "echo", lazy=True, disabled=True)
        assert await search(bench, "") == ["db__query"]
        for name, code in (("db__drop", 4002), ("off__echo", 4002), ("db__none", 4001), (lazy.CALL, 4001)):
            assert (await through(bench, name))["meta"]["error_code"] == code
            described = await bench.call(lazy.DESCRIBE, encoded(name=name))
            assert described["meta"]["error_code"] == code
        assert bench.servers["db"].calls == []

    async def test_whoever_confirms_is_asked_about_the_tool_itself(self, bench: Bench) -> None:
        asked: list[ConfirmationRequest] = []

        def refuse(request: ConfirmationRequest) -> bool:
            asked.append(request)
            return False

        await bench.start(confirmation=refuse)
        await bench.serve("db", "query", lazy=True, connected=False, default_tool_meta=None)
        assert (await through(bench, "db__query", sql="x"))["meta"]["error_code"] == 4005
        assert [(one.exposed, one.tool, json.loads(one.parameters)) for one in asked] == [
            ("db__query", "query", {"sql": "x"})
        ]
        assert await search(bench, "query") == ["db__query"], "ours need no confirmation"

    async def test_the_audit_names_the_tool_itself(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        await bench.start()
        await bench.serve("db", "query", lazy=True, connected=False)
        with Observer(bench.bus, CallEnded) as ends, caplog.at_level(logging.INFO):
            await through(bench, "db__query", sql="very private")
            await search(bench, "query")
            told = [await anext(aiter(ends)) for _ in range(2)]
        assert [(end.tool, end.bundle_id, end.outcome) for end in told if isinstance(end, CallEnded)] == [
            ("db__query", "db", "ok"),
            (lazy.SEARCH, "", "ok"),
        ]
        assert "private" not in caplog.text

    async def test_a_description_is_the_entry_that_is_not_listed(self, bench: Bench) -> None:
        await bench.start()
        await bench.serve("db", "query", lazy=True, connected=False)
        definition = (await bench.call(lazy.DESCRIBE, encoded(name="db__query")))["structuredContent"]
        assert set(definition) == {"name", "bundle_id", "description", "params_schema", "return_schema", "meta"}
        assert (definition["name"], definition["bundle_id"]) == ("db__query", "db")

    @pytest.mark.parametrize(
        ("name", "params"),
        [
            (lazy.CALL, encoded(arguments={})),
            (lazy.CALL, encoded(name="db__query", arguments=[1])),
            (lazy.CALL, encoded(name=7)),
            (lazy.DESCRIBE, encoded()),
            (lazy.SEARCH, encoded(query=["x"])),
        ],
    )
    async def test_arguments_that_are_none_are_called_so(self, bench: Bench, name: str, params: bytes) -> None:
        await bench.start()
        await bench.serve("db", "query", lazy=True, connected=False)
        result = await bench.call(name, params)
        assert (result["isError"], result["meta"]["error_code"]) == (True, 400)
        assert name in result["content"][0]["text"]

    async def test_where_no_server_is_lazy_ours_are_unknown(self, bench: Bench) -> None:
        await bench.start()
        await bench.serve("db", "query")
        for name, params in ((lazy.SEARCH, encoded(query="")), (lazy.CALL, encoded(name="db__query"))):
            assert (await bench.call(name, params))["meta"]["error_code"] == 4001
        assert bench.servers["db"].calls == []

    async def test_a_call_of_a_server_that_is_not_lazy_does_not_wake_it(self, bench: Bench) -> None:
        await bench.start()
        await bench.serve("db", "query", lazy=True, connected=False)
        await bench.serve("fs", "read")
        assert not (await through(bench, "fs__read")).get("isError")
        assert [call.wake for call in bench.servers["fs"].calls] == [False]


def test_the_flag_that_a_peer_cannot_set_is_off_by_itself() -> None:
    assert not CallTool("t", Attachment(b"{}"), 1.0).wake
