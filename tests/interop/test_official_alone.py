"""The official SDK among itself: shows that its peers are steered rightly, so that a failure beside ours is ours."""

from __future__ import annotations

import pytest

from smcp_runtime.fixtures import config
from support.official import Official, OfficialError

pytestmark = pytest.mark.anyio


async def test_official_peers_complete_a_tool_call_among_themselves(official: Official) -> None:
    url = (await official.server()).facts["url"]
    computer = await official.computer(url, "lab", "desk", servers=config("stdio")["mcp_servers"])
    assert "echo_srv_display__echo" in computer.facts["tools"]
    agent = await official.agent(url, "lab")

    tools = await agent.do("tools", computer="desk")
    assert sorted(tool["name"] for tool in tools["tools"]) == sorted(computer.facts["tools"])
    result = await agent.do(
        "call", computer="desk", tool_name="echo_srv_display__echo", params={"text": "hello"}, timeout=10
    )
    assert result["content"] == [{"type": "text", "text": "hello"}]
    with pytest.raises(OfficialError):
        await agent.do("resources", computer="desk", mcp_server="nobody")

    assert await computer.stop() == 0
    assert (await agent.event("leave_office"))["data"]["computer"] == "desk"
    assert await agent.stop() == 0
