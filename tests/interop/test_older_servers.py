"""Servers written with an older major version of the MCP package, over every transport and form of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.official import SCRIPTS
from support.peers import Peers
from support.stack import Stack, config, light, open_stack
from support.waiting import until

pytestmark = pytest.mark.anyio

FORMS = {"stdio": "stdio", "sse": "sse", "streamable": "streamable", "stateless": "streamable", "json": "streamable"}
LASTING = ("stdio", "sse", "streamable")
"""The forms in which the server can speak by itself, and so announce a change."""


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def stack(form: str, peers: Peers, official_python: Path) -> AsyncIterator[Stack]:
    """A Computer with that server, called `old`, and a light one."""
    script = SCRIPTS / "mcp_server.py"
    parameters: dict[str, Any] = {"command": str(official_python), "args": [str(script), "stdio"]}
    if form != "stdio":
        parameters = {"url": peers.start([official_python, script, form]).wait_line(r"ready url=(\S+)", timeout=30)[1]}
    old = {"name": "Older (display)", "bundle_id": "old", "type": FORMS[form], "server_parameters": parameters}
    async with open_stack(config({**old, "default_tool_meta": {"auto_apply": True}}, light("other"))) as opened:
        await opened.until_serving("old", "other", timeout=30)
        yield opened


@pytest.mark.spec("R-MCP-1", "E-1", "E-2", "E-5", "C-1", "C-2", "W-CALL-18")
async def test_tools_and_resources_of_an_older_server_are_used_like_any_others(stack: Stack) -> None:
    tools = {tool.name: tool for tool in (await stack.agent.get_tools("desk")).tools}
    assert set(tools) == {"other__echo", *(f"old__{name}" for name in ("add", "fail", "grow", "image", "slow"))}
    assert tools["old__add"].description == "Adds."
    result = await stack.call("old__add", a=2, b=3)
    assert (result.is_error, result.structured_content) == (False, {"sum": 5})
    failed = await stack.call("old__fail", text="of all things")
    assert failed.is_error
    assert "of all things" in failed.text
    assert (await stack.call("old__add", a="no number", b=3)).is_error
    (image,) = (await stack.call("old__image", size=100_000)).content
    assert (image["mimeType"], len(image["data"])) == ("image/png", 133_336)
    listed = (await stack.agent.get_resources("desk", "old")).resources
    assert sorted(resource.uri for resource in listed) == ["memo://bytes", "memo://one"]


@pytest.mark.spec("W-CALL-17", "DEC-11", "DEC-12", "C-7")
async def test_long_calls_of_an_older_server_end_by_themselves_or_by_their_limit(stack: Stack) -> None:
    slow = asyncio.create_task(stack.text("old__slow", seconds=1))
    assert (await stack.call("old__add", a=1, b=1)).structured_content == {"sum": 2}
    assert not slow.done()
    assert await slow == "done"
    began = time.monotonic()
    late = await stack.call("old__slow", timeout=1, seconds=60)
    assert (late.error_code, late.meta["a2c_timeout"]) == (4004, True)
    assert time.monotonic() - began < 2.5
    assert (await stack.call("old__add", a=1, b=2)).structured_content == {"sum": 3}


@pytest.mark.spec("DEC-4", "R-PROJ-3", "F-53")
@pytest.mark.parametrize("form", LASTING, indirect=True)
async def test_a_change_that_an_older_server_announces_is_seen(stack: Stack) -> None:
    assert await stack.text("old__grow", name="grown") == "grew grown"
    await stack.until_listed("old__grown")
    assert await stack.text("old__grown") == "grown"


@pytest.mark.spec("DEC-4")
@pytest.mark.parametrize("form", [name for name in FORMS if name not in LASTING], indirect=True)
async def test_a_change_that_cannot_be_announced_is_found(stack: Stack) -> None:
    assert await stack.text("old__grow", name="grown") == "grew grown"

    async def found() -> bool:
        return "old__grown" in await stack.names()

    await until(found, 15)
