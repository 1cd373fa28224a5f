"""An Agent's life: joining, being refused, losing the Server, and what it knows meanwhile."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from smcp_runtime.agent import AsyncAgent, Notices
from smcp_runtime.server.app import Running, serve, tls_context
from smcp_runtime.server.auth import ANONYMOUS, TokenAuth
from smcp_runtime.server.options import ServerOptions
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.errors import (
    AuthError,
    ConfigValidationError,
    ConflictError,
    NetworkError,
    PolicyError,
    ProtocolVersionError,
)
from support.certificates import self_signed
from support.scripted_computer import ScriptedComputer, tool
from support.scripted_server import Relay, ScriptedServer

pytestmark = pytest.mark.anyio

OFFICE = "office-1"
QUICK = Backoff(initial=0.01, longest=0.05)


def agent_of(url: str, **options: Any) -> AsyncAgent:
    return AsyncAgent(url, **{"name": "ada", "office": OFFICE, "backoff": QUICK} | options)


async def next_of(notices: Notices, event: str) -> Any:
    """The next notice of a kind; others are passed over."""
    with anyio.fail_after(5):
        async for notice in notices:
            if notice.event == event:
                return notice
    raise AssertionError(f"the Agent ended before {event}")


# --- joining and being refused ---


@pytest.mark.spec("H-2", "W-HS-4")
async def test_a_server_of_another_version_is_a_typed_error() -> None:
    async with serve(options=ServerOptions(auth=ANONYMOUS, protocol_version="0.5.0")) as running:
        agent = agent_of(running.url)
        with pytest.raises(ProtocolVersionError) as refused:
            await agent.connect()
        assert (refused.value.client_version, refused.value.server_version) == ("0.4.0", "0.5.0")
        assert (refused.value.min_supported, refused.value.max_supported) == ("0.5.0", "0.5.999")
        assert agent.state == "ended"


@pytest.mark.spec("W-AUTH-1", "W-AUTH-8")
async def test_a_token_opens_the_door_in_auth_or_in_a_header_and_a_wrong_one_does_not() -> None:
    async with serve(options=ServerOptions(auth=TokenAuth(["s3cret"]))) as running:
        async with agent_of(running.url, auth={"token": "s3cret"}):
            pass
        async with agent_of(running.url, headers={"x-api-key": "s3cret"}):
            pass
        with pytest.raises(AuthError) as refused:
            await agent_of(running.url, auth={"token": "wrong"}).connect()
        assert "wrong" not in str(refused.value)


@pytest.mark.spec("W-SRV-6", "R-LIFE-12")
async def test_an_unknown_certificate_is_refused_unless_it_is_trusted_or_nobody_is_checked(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    options, context = ServerOptions(auth=ANONYMOUS), tls_context(str(certificate), str(key))
    async with serve(options=options, ssl_context=context) as running:
        with pytest.raises(NetworkError) as refused:
            await agent_of(running.url).connect()
        assert refused.value.code == "tls"
        trusting = ssl.create_default_context(cafile=str(certificate))
        for tls in (trusting, False):
            async with agent_of(running.url, tls=tls) as agent:
                assert agent.transport == "websocket"


@pytest.mark.spec("W-ROOM-15", "W-ROOM-16", "W-AGT-1")
async def test_a_second_agent_and_a_taken_name_are_conflicts(server: Running) -> None:
    async with agent_of(server.url):
        with pytest.raises(ConflictError, match="agent"):
            await agent_of(server.url, name="bob").connect()
        with pytest.raises(ConflictError, match="Name"):
            await agent_of(server.url, office="elsewhere").connect()


async def test_a_refused_join_leaves_no_connection_behind(server: Running) -> None:
    async with agent_of(server.url):
        refused = agent_of(server.url, name="bob")
        with pytest.raises(ConflictError):
            await refused.connect()
        assert refused.state == "ended"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\ud800"}, "name"),
        ({"name": 5}, "name"),
        ({"office": ""}, "office"),
        ({"tool_margin": -1}, "tool_margin"),
    ],
)
def test_unusable_values_are_refused_with_their_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigValidationError) as refused:
        agent_of("http://127.0.0.1:1", **change)
    assert refused.value.field == field


async def test_leaving_the_context_frees_the_name_and_ends_the_connection(server: Running) -> None:
    for _ in range(3):
        async with agent_of(server.url) as agent:
            assert agent.state == "joined"
        assert agent.state == "ended"


async def test_without_exactly_one_computer_one_has_to_be_chosen(server: Running) -> None:
    async with agent_of(server.url) as agent:
        with pytest.raises(ConfigValidationError, match="no Computer"):
            await agent.sole_computer()
        async with ScriptedComputer(server.url, "pc1", OFFICE), ScriptedComputer(server.url, "pc2", OFFICE):
            with pytest.raises(ConfigValidationError, match="pc1, pc2"):
                await agent.sole_computer()


# --- what it knows ---


@pytest.mark.spec("W-AGT-1", "W-ROOM-28")
async def test_the_tools_of_everybody_present_are_known_after_joining(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc1", OFFICE), ScriptedComputer(server.url, "pc2", OFFICE) as pc2:
        pc2.tools = [tool("b"), tool("a")]
        async with agent_of(server.url) as agent:
            with anyio.fail_after(5):
                tools = await agent.wait_tools()
            assert [(computer, listed.name) for computer, listed in tools] == [
                ("pc1", "demo__echo"),
                ("pc2", "demo__b"),
                ("pc2", "demo__a"),
            ]


@pytest.mark.spec("E-20", "E-21", "W-AGT-2")
async def test_tools_come_and_go_with_their_computer(server: Running) -> None:
    async with agent_of(server.url) as agent, agent.notifications() as notices:
        with anyio.fail_after(5):
            await agent.wait_tools()
            async with ScriptedComputer(server.url, "pc", OFFICE):
                assert (await next_of(notices, "notify:enter_office")).computer == "pc"
                tools = await agent.wait_tools()
                assert tools.find("demo__echo") == ("pc",)
            await next_of(notices, "notify:leave_office")
            assert agent.tools.computers == ()


@pytest.mark.spec("E-23", "E-22", "W-AGT-2")
@pytest.mark.parametrize("what", ["tool_list", "config"])
async def test_an_announced_change_refreshes_the_tools(server: Running, what: str) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        with anyio.fail_after(5):
            await agent.wait_tools()
            async with agent.notifications() as notices:
                computer.tools = [tool("new")]
                await computer.update(what)
                await next_of(notices, f"notify:update_{what}")
                tools = await agent.wait_tools()
        assert [listed.name for listed in tools.of("pc")] == ["demo__new"]


@pytest.mark.spec("W-AGT-2")
async def test_an_older_answer_never_overwrites_a_newer_one(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer:
        old_may_answer = anyio.Event()
        asked = 0

        async def listing(request: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                await old_may_answer.wait()
                return {"tools": [tool("old")], "req_id": request["req_id"]}
            return {"tools": [tool("new")], "req_id": request["req_id"]}

        computer.answers["client:get_tools"] = listing
        async with agent_of(server.url) as agent, agent.notifications() as notices:
            await computer.until(lambda: asked == 1)
            await computer.update("tool_list")
            await next_of(notices, "notify:update_tool_list")
            assert asked == 1  # one fetch at a time for each Computer
            old_may_answer.set()
            with anyio.fail_after(5):
                tools = await agent.wait_tools()
            assert [listed.name for listed in tools.of("pc")] == ["demo__new"]
            assert asked == 2


async def test_a_computer_that_refuses_its_tools_is_shown_as_such(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer, agent_of(server.url) as agent:
        computer.answers["client:get_tools"] = lambda _request: {"code": 4016, "message": "never"}
        async with agent.notifications() as notices:
            await computer.update("tool_list")
            await next_of(notices, "notify:update_tool_list")
            with anyio.fail_after(5):
                tools = await agent.wait_tools()
        assert (tools.freshness("pc"), tools.error("pc")) == ("failed", "never")


@pytest.mark.spec("E-24", "E-25", "E-32")
async def test_every_kind_of_update_is_told_and_ends_with_the_agent(server: Running) -> None:
    async with ScriptedComputer(server.url, "pc", OFFICE) as computer:
        async with agent_of(server.url) as agent:
            notices = agent.notifications()
            for what in ("config", "tool_list", "desktop", "skills", "finder"):
                await computer.update(what)
                assert (await next_of(notices, f"notify:update_{what}")).computer == "pc"
        with anyio.fail_after(1):
            assert [notice async for notice in notices] == []


@pytest.mark.spec("W-AGT-3", "W-D-6")
async def test_notifications_about_another_office_or_about_agents_do_not_touch_the_tools() -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent, agent.notifications() as notices:
        await agent.wait_tools()
        await server.emit("notify:enter_office", {"office_id": "elsewhere", "computer": "pc"})
        await server.emit("notify:enter_office", {"office_id": OFFICE, "agent": "bob"})
        await server.emit("notify:update_tool_list", {"computer": "stranger"})
        await next_of(notices, "notify:update_tool_list")
        assert agent.tools.computers == ()
        assert server.payloads("client:get_tools") == []


@pytest.mark.spec("W-EVT-3")
async def test_an_event_that_is_asked_of_an_agent_is_acknowledged_with_nothing() -> None:
    async with ScriptedServer() as server, agent_of(server.url):
        assert await server.ask("client:get_tools", {}) is None


# --- losing the Server ---


@pytest.mark.spec("W-AGT-10", "W-ROOM-27", "DEC-17", "F-78")
async def test_after_a_lost_connection_the_agent_rejoins_relists_and_refetches() -> None:
    options = ServerOptions(auth=ANONYMOUS)
    async with serve(options=options) as running:
        port = running.port
        async with Relay(port) as relay, ScriptedComputer(running.url, "pc", OFFICE), agent_of(relay.url) as agent:
            notices = agent.notifications()
            with anyio.fail_after(10):
                await agent.wait_tools()
                relay.cut()
                lost = await next_of(notices, "link:lost")
                assert isinstance(lost.error, NetworkError)
                assert agent.tools.computers == ()
                await next_of(notices, "link:restored")
                tools = await agent.wait_tools()
                assert tools.find("demo__echo") == ("pc",)
                assert (await agent.tool_call("pc", "demo__echo", {"a": 1})).text == "{'a': 1}"


@pytest.mark.spec("W-HS-4")
async def test_a_server_that_returns_with_another_version_ends_the_agent() -> None:
    options = ServerOptions(auth=ANONYMOUS)
    async with serve(options=options) as first:
        agent = agent_of(first.url)
        await agent.connect()
        port = first.port
    async with serve(port=port, options=ServerOptions(auth=ANONYMOUS, protocol_version="1.0.0")):
        notices = agent.notifications()
        ended = await next_of(notices, "link:ended")
        assert isinstance(ended.error, ProtocolVersionError)
        assert isinstance(agent.failure, ProtocolVersionError)
        with pytest.raises(ProtocolVersionError):
            await agent.get_tools("pc")
        with pytest.raises(ProtocolVersionError):
            await agent.wait_joined()
    await agent.close()


@pytest.mark.spec("DEC-17")
async def test_an_office_lost_for_good_is_told_and_requests_say_why() -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        notices = agent.notifications()
        server.answers["server:join_office"] = lambda _request: (False, "[4102] Room not found")
        await server.kick()
        assert (await next_of(notices, "link:outside")).error is not None
        with pytest.raises(NetworkError):
            await agent.get_tools("pc")
        assert agent.failure is not None


async def test_waiting_for_tools_ends_with_the_agent() -> None:
    async with ScriptedServer() as server:
        server.answers["server:list_room"] = lambda _request: anyio.sleep_forever()
        agent = agent_of(server.url)
        await agent.connect()
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(NetworkError):
                    await agent.wait_tools()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(5):
                await agent.close()


@pytest.mark.spec("DEC-17", "W-AGT-2")
async def test_waiting_for_tools_ends_with_the_reason_when_the_office_is_lost_for_good() -> None:
    async with ScriptedServer() as server, agent_of(server.url) as agent:
        await agent.wait_tools()
        notices = agent.notifications()
        server.answers["server:join_office"] = lambda _request: (False, "[4102] Room not found")
        returned = anyio.Event()

        async def wait() -> None:
            await next_of(notices, "link:lost")
            with pytest.raises(PolicyError):
                await agent.wait_tools()
            returned.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await server.kick()
            with anyio.fail_after(5):
                await returned.wait()
        with anyio.fail_after(5), pytest.raises(PolicyError):
            await agent.wait_tools()


async def test_notifications_of_an_agent_that_has_ended_are_at_their_end_until_it_connects_again() -> None:
    async with ScriptedServer() as server:
        agent = agent_of(server.url)
        for _ in range(2):
            await agent.connect()
            notices = agent.notifications()
            await server.emit("notify:update_config", {"computer": "pc"})
            await next_of(notices, "notify:update_config")
            await agent.close()
            with anyio.fail_after(5):
                assert [notice async for notice in agent.notifications()] == []


async def test_waiting_for_tools_that_are_not_watched_is_refused(server: Running) -> None:
    async with agent_of(server.url, watch_tools=False) as agent:
        with anyio.fail_after(5), pytest.raises(ConfigValidationError) as refused:
            await agent.wait_tools()
        assert refused.value.field == "watch_tools"


# --- weight ---


def test_importing_the_agent_loads_neither_mcp_nor_pydantic() -> None:
    script = "import sys, smcp_runtime.agent; print([m for m in ('mcp', 'pydantic', 'zmq') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
