"""Every request of an Agent through a real Server to a Computer, and every way an answer can be wrong."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from smcp_runtime.agent import AsyncAgent, channels
from smcp_runtime.server.app import Running
from smcp_runtime.wire.errors import InvalidPayload, MalformedReplyError, NetworkError, PeerError
from support.scripted_computer import ScriptedComputer, tool
from support.scripted_server import Relay, ScriptedServer

pytestmark = pytest.mark.anyio

OFFICE = "office-1"


def agent_of(url: str, **options: Any) -> AsyncAgent:
    return AsyncAgent(url, **{"name": "ada", "office": OFFICE, "watch_tools": False} | options)


@pytest.mark.spec("W-AGT-1", "E-10", "E-12")
async def test_an_agent_joins_with_an_acknowledgement_and_lists_the_room(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE), agent_of(server.url) as agent:
        assert agent.state == "joined"
        room = await agent.list_room()
        members = {(member.role, member.name, member.office_id, member.a2c_version) for member in room.sessions}
        assert members == {("agent", "ada", OFFICE, "0.4.0"), ("computer", "pc", OFFICE, "0.4.0")}
        assert await agent.sole_computer() == "pc"


@pytest.mark.spec("E-1", "W-EVT-1", "W-AGT-7", "W-AGT-8")
async def test_a_tool_call_carries_the_joined_name_a_fresh_id_and_the_exposed_name(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        for _ in range(2):
            result = await agent.tool_call("pc", "demo__echo", {"ä": [1, None]}, timeout=7)
            assert (result.text, result.is_error, result.failure) == ("{'ä': [1, None]}", False, None)
        first, second = computer.requests("client:tool_call")
        assert first == {
            "agent": "ada",
            "req_id": first["req_id"],
            "computer": "pc",
            "tool_name": "demo__echo",
            "params": {"ä": [1, None]},
            "timeout": 7,
        }
        assert first["req_id"] != second["req_id"]


@pytest.mark.spec("E-2")
async def test_get_tools_returns_structures(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        computer.tools = [tool("a", meta={"x": 1}), tool("b", params_schema={"properties": {"code": {}}})]
        ret = await agent.get_tools("pc")
        assert [(t.name, t.bundle_id, t.params_schema) for t in ret.tools] == [
            ("demo__a", "demo", {"type": "object"}),
            ("demo__b", "demo", {"properties": {"code": {}}}),
        ]


@pytest.mark.spec("W-GEN-3", "W-GEN-2")
async def test_nulls_and_unknown_members_in_an_answer_mean_absence(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        computer.tools = [tool("a", description=None, meta=None, novelty={"code": 1})]
        (listed,) = (await agent.get_tools("pc")).tools
        assert (listed.description, listed.meta) == ("", None)
        computer.answers["client:get_resources"] = lambda request: {
            "resources": [{"uri": "x://1", "name": None, "size": None, "annotations": None}],
            "next_cursor": None,
            "req_id": request["req_id"],
        }
        ret = await agent.get_resources("pc", "demo", cursor="c1")
        assert [resource.uri for resource in ret.resources] == ["x://1"]
        assert computer.requests("client:get_resources")[0]["cursor"] == "c1"


@pytest.mark.spec("E-3")
async def test_get_config_needs_no_req_id_and_sets_unknown_entries_aside(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        stdio = {"type": "stdio", "name": "n", "bundle_id": "s1", "server_parameters": {"command": "x"}}
        computer.answers["client:get_config"] = lambda _request: {
            "servers": {"s1": stdio, "s2": {"type": "carrier-pigeon"}},
            "inputs": [],
        }
        config = await agent.get_config("pc")
        assert list(config.servers) == ["s1"]
        assert config.servers["s1"].name == "n"


@pytest.mark.spec("E-4", "E-6", "E-7", "E-8", "E-9", "E-30", "E-33", "W-GEN-3")
@pytest.mark.parametrize(
    ("event", "ask", "fields", "answer"),
    [
        ("get_desktop", lambda a: a.get_desktop("pc"), {}, {"desktops": ["w"]}),
        (
            "get_desktop",
            lambda a: a.get_desktop("pc", size=2, window="window://x"),
            {"desktop_size": 2, "window": "window://x"},
            {"desktops": []},
        ),
        ("get_skills", lambda a: a.get_skills("pc"), {}, {"skills": []}),
        (
            "get_skill",
            lambda a: a.get_skill("pc", "s"),
            {"name": "s"},
            {"name": "s", "rel_path": "SKILL.md", "mime_type": "t", "sha256": "0", "total_size": 1, "body": "b"},
        ),
        (
            "get_blob",
            lambda a: a.get_blob("pc", "h", offset=5, max_bytes=9),
            {"blob_handle": "h", "chunk_offset": 5, "max_chunk_bytes": 9},
            {
                "blob_handle": "h",
                "mime_type": "m",
                "total_size": 5,
                "sha256": "0",
                "chunk_offset": 5,
                "eof": True,
                "blob": "",
            },
        ),
        (
            "put_blob",
            lambda a: a.put_blob("pc", "eA==", offset=0, eof=True, total_size=1, sha256="0"),
            {"chunk_offset": 0, "eof": True, "blob": "eA==", "total_size": 1, "sha256": "0"},
            {"upload_id": "u", "chunk_offset": 0},
        ),
        (
            "list_finder",
            lambda a: a.list_finder("pc", tags=["t"], file_type="pdf", offset=1, limit=2),
            {"tags": ["t"], "file_type": "pdf", "offset": 1, "limit": 2},
            {"documents": [], "total_count": 0},
        ),
        (
            "get_dpe",
            lambda a: a.get_dpe("pc", "dpe://h/d"),
            {"uri": "dpe://h/d", "timeout": 60.0},
            {"uri": "file:///x", "mime_type": "m", "size": 3},
        ),
    ],
)
async def test_every_channel_request_carries_what_it_was_given_and_nothing_null(
    server: Running,
    event: str,
    ask: Callable[[AsyncAgent], Awaitable[Any]],
    fields: dict[str, Any],
    answer: dict[str, Any],
) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        computer.answers[f"client:{event}"] = lambda request: answer | {"req_id": request["req_id"]}
        ret = await ask(agent)
        (request,) = computer.requests(f"client:{event}")
        assert request == {"agent": "ada", "req_id": request["req_id"], "computer": "pc"} | fields
        assert ret.req_id == request["req_id"]


@pytest.mark.spec("W-ERR-3", "W-D-18")
@pytest.mark.parametrize("code", [400, 404, 4014, 4016, 4242])
@pytest.mark.parametrize(
    ("event", "ask"),
    [
        ("client:get_tools", lambda a: a.get_tools("pc")),
        ("client:get_config", lambda a: a.get_config("pc")),
        ("client:get_desktop", lambda a: a.get_desktop("pc")),
        ("client:get_skills", lambda a: a.get_skills("pc")),
        ("client:list_finder", lambda a: a.list_finder("pc")),
        ("client:tool_call", lambda a: a.tool_call("pc", "t")),
        ("server:list_room", lambda a: a.list_room()),
    ],
)
async def test_every_error_payload_is_raised_whatever_its_code(
    code: int, event: str, ask: Callable[[AsyncAgent], Awaitable[Any]]
) -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        server.answers[event] = lambda _request: {"code": code, "message": "no", "details": {"reason": "secret"}}
        with pytest.raises(PeerError) as refused:
            await ask(agent)
        assert refused.value.wire_code == code
        assert "secret" not in str(refused.value)
        assert len(server.payloads(event)) == 1


@pytest.mark.spec("W-ERR-5", "W-EVT-3", "W-AGT-4", "C-GEN-6")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, "unsupported"),
        ({}, "malformed_reply"),
        ([], "malformed_reply"),
        ("text", "malformed_reply"),
        ({"tools": [], "req_id": "another"}, "malformed_reply"),
        ({"tools": []}, "malformed_reply"),
        ({"tools": [{"name": 1}], "req_id": "same"}, "malformed_reply"),
        (({"tools": [], "req_id": "same"}, None), "malformed_reply"),
        ({"code": True, "message": "not a code"}, "malformed_reply"),
        ({"code": 500}, "malformed_reply"),
    ],
)
async def test_what_is_neither_a_success_nor_an_error_is_a_malformed_reply(answer: Any, code: str) -> None:
    def answered(request: Any) -> Any:
        if isinstance(answer, tuple):
            return tuple(answered_with(part, request) for part in answer)
        return answered_with(answer, request)

    def answered_with(part: Any, request: Any) -> Any:
        same = isinstance(part, dict) and part.get("req_id") == "same"
        return part | {"req_id": request["req_id"]} if same else part

    async with ScriptedServer() as server, agent_of(server.url) as agent:
        server.answers["client:get_tools"] = answered
        with pytest.raises(MalformedReplyError) as malformed:
            await agent.get_tools("pc")
        assert malformed.value.code == code


@pytest.mark.spec("W-ERR-5")
@pytest.mark.parametrize("answer", [None, [], "x"])
async def test_a_tool_call_answered_with_no_object_is_a_malformed_reply(answer: Any) -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        server.answers["client:tool_call"] = lambda _request: answer
        with pytest.raises(MalformedReplyError):
            await agent.tool_call("pc", "t")


@pytest.mark.spec("W-DOC-2", "C-DOC-1")
@pytest.mark.parametrize("ask", [lambda a: a.list_finder("pc"), lambda a: a.get_dpe("pc", "dpe://h/d")])
async def test_a_peer_without_documents_is_named_as_such(ask: Callable[[AsyncAgent], Awaitable[Any]]) -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        with pytest.raises(MalformedReplyError, match="document channel not supported") as refused:
            await ask(agent)
        assert refused.value.code == "unsupported"


@pytest.mark.spec("C-DOC-1")
async def test_a_peer_that_never_answers_for_documents_is_named_as_such() -> None:
    async with ScriptedServer() as server, agent_of(server.url, ack_timeout=0.1) as agent:
        server.answers["client:list_finder"] = lambda _request: asyncio.sleep(30)
        with pytest.raises(MalformedReplyError, match="document channel not supported"):
            await agent.list_finder("pc")


@pytest.mark.spec("C-DOC-16")
async def test_a_list_of_documents_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "DOCUMENTS_MAX", 5)

    def one_more(request: Any) -> dict[str, Any]:
        texts = dict.fromkeys(("doc_ref", "title", "summary", "mcp_server"), "d")
        document = {**texts, "uri": f"dpe://h/{request['offset']}"}
        return {"documents": [document], "total_count": request["offset"] + 2, "req_id": request["req_id"]}

    async with ScriptedServer() as server, agent_of(server.url) as agent:
        server.answers["client:list_finder"] = one_more
        with pytest.raises(MalformedReplyError, match="goes on after 5") as endless:
            await agent.documents("pc")
        assert endless.value.code == "endless_list"


@pytest.mark.spec("W-EVT-4")
async def test_a_request_without_an_answer_ends_at_the_ack_timeout() -> None:
    async with ScriptedServer() as server, agent_of(server.url, ack_timeout=0.1) as agent:
        server.answers["client:get_tools"] = lambda _request: asyncio.sleep(30)
        with anyio.fail_after(2), pytest.raises(NetworkError) as silent:
            await agent.get_tools("pc")
        assert (silent.value.code, silent.value.retryable) == ("no_answer", True)


@pytest.mark.spec("DEC-31")
async def test_get_dpe_waits_its_own_timeout_and_two_seconds() -> None:
    async with ScriptedServer() as server, agent_of(server.url, ack_timeout=0.1) as agent:

        async def slow(request: Any) -> Any:
            await asyncio.sleep(0.5)
            return {"uri": "file:///x", "mime_type": "m", "size": 1, "req_id": request["req_id"]}

        server.answers["client:get_dpe"] = slow
        assert (await agent.get_dpe("pc", "dpe://h/d", timeout=0.1)).size == 1


@pytest.mark.spec("W-CALL-2", "C-12", "W-ERR-30", "F-11")
async def test_calls_to_a_computer_that_vanishes_end_at_once_with_an_unknown_outcome(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        computer.answers["client:tool_call"] = lambda _request: asyncio.sleep(30)
        failures: list[PeerError] = []

        async def call() -> None:
            with pytest.raises(PeerError) as gone:
                await agent.tool_call("pc", "demo__echo")
            failures.append(gone.value)

        async with anyio.create_task_group() as calls:
            for _ in range(20):
                calls.start_soon(call)
            await computer.until(lambda: len(computer.requests("client:tool_call")) == 20)
            with anyio.fail_after(1):
                computer.vanish()
                while len(failures) < 20:  # noqa: ASYNC110
                    await anyio.sleep(0.005)
        assert {(error.wire_code, error.details["a2c_outcome"]) for error in failures} == {(404, "unknown")}


@pytest.mark.spec("W-ERR-33", "DEC-10")
async def test_a_lost_connection_fails_pending_calls_with_an_unknown_outcome() -> None:
    async with ScriptedServer() as server, Relay(server.port) as relay, agent_of(relay.url) as agent:
        server.answers["client:tool_call"] = lambda _request: asyncio.sleep(30)

        async def call() -> None:
            with pytest.raises(NetworkError) as lost:
                await agent.tool_call("pc", "t")
            assert lost.value.details["a2c_outcome"] == "unknown"
            with pytest.raises(NetworkError) as refused:
                await agent.tool_call("pc", "t")
            assert refused.value.details["a2c_outcome"] == "not_executed"

        with anyio.fail_after(3):
            async with anyio.create_task_group() as calls:
                calls.start_soon(call)
                await server.until(lambda: bool(server.payloads("client:tool_call")))
                relay.cut()


@pytest.mark.spec("DEC-10", "W-CALL-1")
@pytest.mark.parametrize(
    ("code", "outcome"), [(400, "not_executed"), (4103, "not_executed"), (4104, "not_executed"), (403, "not_executed"),
                          (408, "unknown"), (500, "unknown"), (404, "unknown")],
)  # fmt: skip
async def test_a_refused_call_says_whether_it_can_have_run(code: int, outcome: str) -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        server.answers["client:tool_call"] = lambda _request: {
            "code": code, "message": "m", "content": [], "isError": True,
        }  # fmt: skip
        with pytest.raises(PeerError) as refused:
            await agent.tool_call("pc", "t")
        assert refused.value.details["a2c_outcome"] == outcome


@pytest.mark.spec("W-CALL-11", "W-AGT-5", "W-D-2", "C-7")
async def test_a_call_without_an_answer_is_cancelled_and_reported_as_timed_out(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url, tool_margin=0) as agent:
        computer.answers["client:tool_call"] = lambda _request: asyncio.sleep(30)
        req_id = agent.new_req_id()
        with anyio.fail_after(2.5):
            result = await agent.tool_call("pc", "demo__echo", timeout=1, req_id=req_id)
        assert result.meta == {"a2c_timeout": True, "a2c_outcome": "unknown"}
        assert (result.is_error, result.failure, result.outcome) == (True, "timed_out", "unknown")
        assert result.text
        await computer.until(lambda: computer.cancelled == [req_id])


@pytest.mark.spec("W-CALL-11")
async def test_the_computers_own_timeout_result_arrives_within_the_margin(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:

        async def late(_request: Any) -> Any:
            await asyncio.sleep(1.3)
            return {"content": [], "isError": True, "meta": {"a2c_timeout": True, "error_code": 4004}}

        computer.answers["client:tool_call"] = late
        result = await agent.tool_call("pc", "demo__echo", timeout=1)
        assert (result.failure, result.error_code) == ("timed_out", 4004)
        assert computer.cancelled == []


@pytest.mark.spec("W-CALL-13", "E-13")
async def test_cancelling_the_waiting_task_cancels_the_call_at_the_computer(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        computer.answers["client:tool_call"] = lambda _request: asyncio.sleep(30)
        req_id = agent.new_req_id()
        async with anyio.create_task_group() as calls:
            calls.start_soon(lambda: agent.tool_call("pc", "demo__echo", req_id=req_id))
            await computer.until(lambda: bool(computer.requests("client:tool_call")))
            calls.cancel_scope.cancel()
        await computer.until(lambda: computer.cancelled == [req_id])


@pytest.mark.spec("W-CALL-13")
async def test_cancelling_the_whole_agent_still_sends_the_cancellation(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer:
        computer.answers["client:tool_call"] = lambda _request: asyncio.sleep(30)

        async def work() -> None:
            async with agent_of(server.url) as agent:
                await agent.tool_call("pc", "demo__echo")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await computer.until(lambda: bool(computer.requests("client:tool_call")))
            tasks.cancel_scope.cancel()
        await computer.until(lambda: len(computer.cancelled) == 1)
        assert computer.cancelled == [computer.requests("client:tool_call")[0]["req_id"]]


@pytest.mark.spec("W-CALL-15", "W-AGT-5", "C-8")
async def test_the_outcome_of_a_cancellation_is_the_answer_to_the_call(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:

        async def until_cancelled(request: Any) -> Any:
            await computer.until(lambda: computer.cancelled == [request["req_id"]])
            meta = {"a2c_cancelled": True, "a2c_cancel_reason": "agent_requested", "a2c_outcome": "unknown"}
            return {"content": [], "isError": True, "meta": meta}

        computer.answers["client:tool_call"] = until_cancelled
        req_id = agent.new_req_id()
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await computer.until(lambda: bool(computer.requests("client:tool_call")))
                await agent.cancel(req_id)

            tasks.start_soon(cancel)
            result = await agent.tool_call("pc", "demo__echo", req_id=req_id)
        assert (result.failure, result.error_code) == ("cancelled", None)


@pytest.mark.spec("W-CALL-20", "W-CALL-18", "W-CALL-27")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"content": []}, {"content": [], "isError": False}),
        ({"content": None, "isError": None, "structuredContent": None}, {"content": [], "isError": False}),
        (
            {"content": [{"type": "text", "text": "caf\udce9.txt"}]},
            {"content": [{"type": "text", "text": "caf\N{REPLACEMENT CHARACTER}.txt"}], "isError": False},
        ),
        (
            {"content": [], "_meta": {"k": 1}, "meta": None},
            {"content": [], "isError": False, "meta": {"k": 1}},
        ),
        (
            {"content": [], "_meta": {"k": 1}, "meta": {"k": 2}},
            {"content": [], "isError": False, "meta": {"k": 2}},
        ),
        (
            {"content": [{"type": "text", "text": "t", "meta": None, "_meta": {"k": 1}, "annotations": None}]},
            {"content": [{"type": "text", "text": "t", "_meta": {"k": 1}}], "isError": False},
        ),
        (
            {"content": [{"type": "text", "text": "t", "meta": {"k": 2}}]},
            {"content": [{"type": "text", "text": "t", "_meta": {"k": 2}}], "isError": False},
        ),
        (
            {"content": [], "isError": True, "structuredContent": {"error": "no tool", "error_type": "ValueError"}},
            {
                "content": [{"type": "text", "text": "no tool"}],
                "isError": True,
                "structuredContent": {"error": "no tool", "error_type": "ValueError"},
            },
        ),
        ({"content": [], "novel": {"x": 1}}, {"novel": {"x": 1}, "content": [], "isError": False}),
    ],
)
async def test_results_of_every_spelling_are_read_into_one(
    server: Running, answer: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        computer.answers["client:tool_call"] = lambda _request: answer
        assert (await agent.tool_call("pc", "demo__echo")).to_dict() == expected


@pytest.mark.parametrize("timeout", [0, 3601, 1.5, True, -1, None, "5", math.nan, math.inf])
async def test_a_timeout_that_cannot_be_sent_is_refused_here(timeout: Any) -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        with pytest.raises(InvalidPayload) as refused:
            await agent.tool_call("pc", "t", timeout=timeout)
        assert refused.value.field == "timeout"
        assert server.payloads("client:tool_call") == []


async def test_parameters_without_a_json_form_are_refused_here() -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        with pytest.raises(InvalidPayload) as refused:
            await agent.tool_call("pc", "t", {"x": object()})
        assert refused.value.field == "params"
        with pytest.raises(InvalidPayload):
            await agent.get_skill("pc", "\ud800")


@pytest.mark.spec("W-CALL-17")
async def test_a_hundred_calls_at_once_get_their_own_answers(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE), agent_of(server.url) as agent:

        async def call(number: int) -> None:
            assert (await agent.tool_call("pc", "demo__echo", {"n": number})).text == str({"n": number})

        async with anyio.create_task_group() as calls:
            for number in range(100):
                calls.start_soon(call, number)
