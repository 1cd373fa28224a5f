"""Following a desktop, skills or documents: fetched once for a burst, through losses, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from smcp_runtime.agent import AsyncAgent
from smcp_runtime.agent.channels import SkillFile
from smcp_runtime.server.app import Running
from smcp_runtime.wire.backoff import Backoff
from smcp_runtime.wire.errors import PeerError
from smcp_runtime.wire.skills import A2CSkillRef
from support.scripted_computer import ScriptedComputer
from support.scripted_server import Relay

pytestmark = pytest.mark.anyio

OFFICE = "office-1"


def agent_of(url: str) -> AsyncAgent:
    return AsyncAgent(url, name="ada", office=OFFICE, watch_tools=False, backoff=Backoff(initial=0.01))


@pytest.fixture
async def computer(server: Running) -> AsyncIterator[ScriptedComputer]:
    async with ScriptedComputer(server.url, "pc", OFFICE) as joined:
        joined.answers["client:get_desktop"] = desktop(["first"])
        yield joined


def desktop(windows: list[str]) -> Any:
    return lambda request: {"desktops": windows, "req_id": request["req_id"]}


@pytest.mark.spec("E-24", "W-AGT-2", "C-DESK-28")
async def test_a_changed_desktop_is_fetched_again(server: Running, computer: ScriptedComputer) -> None:
    async with agent_of(server.url) as agent:
        following = agent.follow_desktop("pc", size=3)
        with anyio.fail_after(5):
            assert await anext(following) == ("first",)
            computer.answers["client:get_desktop"] = desktop(["second"])
            await computer.update("desktop")
            assert await anext(following) == ("second",)
        assert [request["desktop_size"] for request in computer.requests("client:get_desktop")] == [3, 3]
        await following.aclose()


@pytest.mark.spec("E-25", "C-SKILL-78")
async def test_a_burst_of_changes_causes_one_fetch(server: Running, computer: ScriptedComputer) -> None:
    computer.answers["client:get_skills"] = lambda request: {"skills": [], "req_id": request["req_id"]}
    async with agent_of(server.url) as agent, agent.notifications() as notices:
        following = agent.follow_skills("pc")
        with anyio.fail_after(5):
            assert await anext(following) == ()
            for _ in range(20):
                await computer.update("skills")
            await computer.update("config")
            async for notice in notices:
                if notice.event == "notify:update_config":
                    break
            assert await anext(following) == ()
        assert len(computer.requests("client:get_skills")) == 2
        await following.aclose()


@pytest.mark.spec("E-32", "C-DOC-30")
async def test_a_changed_catalogue_is_listed_again(server: Running, computer: ScriptedComputer) -> None:
    counts = iter(range(1, 9))

    def listing(request: Any) -> Any:
        document = {"doc_ref": f"d{next(counts)}", "uri": "dpe://h/d", "title": "", "summary": "", "mcp_server": "b"}
        return {"documents": [document], "total_count": 1, "req_id": request["req_id"]}

    computer.answers["client:list_finder"] = listing
    async with agent_of(server.url) as agent:
        following = agent.follow_documents("pc")
        with anyio.fail_after(5):
            assert [document.doc_ref for document in await anext(following)] == ["d1"]
            await computer.update("finder")
            assert [document.doc_ref for document in await anext(following)] == ["d2"]
        await following.aclose()


async def test_a_computer_that_comes_back_and_a_connection_that_does_are_followed_on(server: Running) -> None:
    async with Relay(server.port) as relay, agent_of(relay.url) as agent:
        async with ScriptedComputer(server.url, "pc", OFFICE) as computer:
            computer.answers["client:get_desktop"] = desktop(["before"])
            following = agent.follow_desktop("pc")
            with anyio.fail_after(5):
                assert await anext(following) == ("before",)
                relay.cut()
                assert await anext(following) == ("before",)
        back = ScriptedComputer(server.url, "pc", OFFICE)
        back.answers["client:get_desktop"] = desktop(["after"])
        async with back:
            with anyio.fail_after(5):
                assert await anext(following) == ("after",)
    with anyio.fail_after(5), pytest.raises(StopAsyncIteration):
        await anext(following)


@pytest.mark.spec("C-SKILL-78", "W-AGT-9")
@pytest.mark.parametrize(
    ("code", "details"),
    [
        (4016, {}),
        (4014, {"name": "s"}),
        (4017, {"reason": "traversal"}),
        (4017, {"reason": "forbidden"}),
        (4017, {"reason": "too_large"}),
        (4017, {"reason": "not_found"}),
    ],
)
async def test_a_refused_skill_is_not_asked_for_again(
    server: Running, computer: ScriptedComputer, code: int, details: dict[str, Any]
) -> None:
    computer.answers["client:get_skill"] = lambda _request: {"code": code, "message": "m", "details": details}
    async with agent_of(server.url) as agent:
        with pytest.raises(PeerError) as refused:
            await agent.skill("pc", "s", "f")
    assert refused.value.wire_code == code
    assert len(computer.requests("client:get_skill")) == 1


@pytest.mark.spec("C-SKILL-72")
def test_only_the_one_placeholder_is_replaced_for_a_model() -> None:
    skill = A2CSkillRef(name="s", source="user", path="/home/x/s", description="d")
    text = "run ${TFROBOT_SKILL_DIR}/go.sh with $HOME and ${OTHER} in ${TFROBOT_SKILL_DIR}"
    file = SkillFile("s", "SKILL.md", "text/markdown", 1, "0", text)
    assert file.for_model(skill) == "run /home/x/s/go.sh with $HOME and ${OTHER} in /home/x/s"
    with pytest.raises(ValueError, match="no text"):
        SkillFile("s", "x.png", "image/png", 1, "0", None, "h").for_model(skill)
